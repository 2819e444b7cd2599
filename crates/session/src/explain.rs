//! Explains where an object is placed.

use std::collections::BTreeSet;

use federate_kubernetes::ObjectRef;
use federate_report::explanation::{Changed, Explained};

use crate::Session;

/// Why a name does not identify one object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// No object has this name.
    #[error("no template and no policy {kind}/{name} in the repo")]
    None {
        /// The given kind.
        kind: String,
        /// The name.
        name: String,
    },
    /// Several objects have this name.
    #[error(
        "{kind}/{name} is ambiguous: {}; select one with -n, or write the kind in full",
        .objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Several {
        /// The given kind.
        kind: String,
        /// The name.
        name: String,
        /// The matching objects.
        objects: Vec<ObjectRef>,
    },
}

impl Session {
    /// Finds the object with this kind and name among templates and other objects of the plan. A policy
    /// stands for the object that it places. The kind is case-insensitive.
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

    /// Explains the placement and the overrides of an object; `None` if no control plane handles it.
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
        Some(Explained::new(origin, explanation, changed.collect(), self.facts(object)))
    }
}
