//! Why an object is where it is.

use std::collections::BTreeSet;

use federate_kubernetes::ObjectRef;
use federate_report::explanation::{Changed, Explained};

use crate::Session;

/// Why no single object is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// There is none.
    #[error("no template {kind}/{name} in the repo, and no policy that places any")]
    None {
        /// The kind that was asked for.
        kind: String,
        /// The name.
        name: String,
    },
    /// There are several.
    #[error(
        "{kind}/{name} is ambiguous: {}; name one of them, or choose with -n",
        .objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Several {
        /// The kind that was asked for.
        kind: String,
        /// The name.
        name: String,
        /// Those that are meant.
        objects: Vec<ObjectRef>,
    },
}

impl Session {
    /// The one object, a template or what a plan places besides, that a kind and a name mean. A policy stands
    /// for what it places. The case of the kind does not matter.
    pub fn find(&self, kind: &str, name: &str, namespace: Option<&str>) -> Result<ObjectRef, NotFound> {
        let meant = |id: &ObjectRef| {
            let namespace = namespace.is_none() || id.namespace.as_deref() == namespace;
            id.kind.eq_ignore_ascii_case(kind) && id.name == name && namespace
        };
        let placements = &self.plan().placements;
        let objects = self.repo().templates.iter().map(|template| &template.object.id);
        let mut matching: BTreeSet<&ObjectRef> =
            objects.chain(placements.iter().map(|row| &row.object)).filter(|id| meant(id)).collect();
        if matching.is_empty() {
            let placed = placements.iter().filter(|row| row.policy.as_ref().is_some_and(meant));
            matching = placed.map(|row| &row.object).collect();
        }
        let (kind, name) = (kind.to_owned(), name.to_owned());
        let objects: Vec<ObjectRef> = matching.into_iter().cloned().collect();
        match <[ObjectRef; 1]>::try_from(objects) {
            Ok([one]) => Ok(one),
            Err(objects) if objects.is_empty() => Err(NotFound::None { kind, name }),
            Err(objects) => Err(NotFound::Several { kind, name, objects }),
        }
    }

    /// Why an object is where it is, and what overrides do to it; `None` where no control plane has a say in it.
    pub fn explain(&self, object: &ObjectRef) -> Option<Explained> {
        let engine = self.engine();
        let explanation = engine.explain(object, self.plan())?;
        let template = self.repo().template(object).map(|template| &template.object);
        let policy = explanation.placement.policy.as_ref();
        let claimed = || self.repo().claimed.iter().map(|c| &c.object).find(|o| Some(&o.id) == policy);
        let origin = &template.or_else(claimed)?.origin;
        let changed =
            engine.variants(self.plan(), object).into_iter().map(|variant| match variant.rendered {
                Ok(rendered) => {
                    Changed { clusters: variant.clusters.to_vec(), overrides: rendered.changes, failed: None }
                }
                Err(withheld) => {
                    let failed = withheld.finding.map_or_else(|| withheld.status.to_owned(), |f| f.message);
                    Changed {
                        clusters: variant.clusters.to_vec(),
                        overrides: Vec::new(),
                        failed: Some(failed),
                    }
                }
            });
        Some(Explained::new(origin, explanation, changed.collect()))
    }
}
