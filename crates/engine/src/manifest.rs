//! From placements to manifests: each built and written as text once for all clusters that receive
//! the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::{Engine, Planned};
use federate_dialect::{
    Action, ClusterNames, Health, OverrideChange, Placement, Plan, SharedLists, Variant, Withheld,
};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef};
use federate_repo::Role;

/// One object for some clusters.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Its identity in the plan.
    pub object: ObjectRef,
    /// The clusters that receive exactly it, sorted by name.
    pub clusters: ClusterNames,
    /// The manifest as YAML, shared by all of them.
    pub text: Arc<str>,
    /// The override rules that changed it.
    pub changes: Vec<OverrideChange>,
}

impl Manifest {
    /// Leaves only some of its clusters.
    pub fn narrow(&mut self, wants: impl Fn(&str) -> bool) {
        if !self.clusters.iter().all(|name| wants(name)) {
            self.clusters = self.clusters.iter().filter(|name| wants(name)).cloned().collect();
        }
    }
}

/// A plan with every manifest that it gives.
#[derive(Debug, Default)]
pub struct Rendering {
    /// The plan.
    pub plan: Plan,
    /// Sorted by object.
    pub manifests: Vec<Manifest>,
    /// What is not sent, sorted by object.
    pub withheld: Vec<HeldBack>,
    /// Errors and warnings of policies, placements and manifests; not those of reading the repo.
    pub findings: Vec<Finding>,
}

/// An object that some of its clusters are sent nothing (new) of.
#[derive(Clone, Debug)]
pub struct HeldBack {
    /// Its identity in the plan.
    pub object: ObjectRef,
    /// The clusters concerned, sorted by name.
    pub clusters: ClusterNames,
    /// The control plane's own word for why.
    pub status: &'static str,
}

impl Rendering {
    /// What the clusters hold by this rendering: its manifests and, of what is not sent for now, what
    /// was sent before, because control planes leave that as it is. `earlier` knows the text that an
    /// object had in a cluster.
    pub fn standing(&self, earlier: impl Fn(&ObjectRef, &str) -> Option<Arc<str>>) -> Vec<Manifest> {
        let held = self.withheld.iter().flat_map(|held| held.clusters.iter().map(|c| (&held.object, c)));
        let kept = held.filter_map(|(object, cluster)| {
            let text = earlier(object, cluster)?;
            Some(Manifest {
                object: object.clone(),
                clusters: Arc::from([cluster.clone()]),
                text,
                changes: Vec::new(),
            })
        });
        self.manifests.iter().cloned().chain(kept).collect()
    }
}

impl Engine<'_> {
    /// Decides where every template goes, and renders it for each cluster.
    pub fn render(&self) -> Rendering {
        self.manifests(self.plan())
    }

    /// Renders what was planned for each cluster.
    pub fn manifests(&self, planned: Planned) -> Rendering {
        let Planned { plan, findings } = planned;
        let parts: Vec<Rendering> = plan
            .placements
            .par_iter()
            .map(|placement| {
                let plane = self.plane(&placement.dialect);
                let variants = plane.map(|plane| plane.manifests(placement)).unwrap_or_default();
                written(&placement.object, variants, &self.lists)
            })
            .collect();
        let mut all = Rendering { plan, findings, ..Rendering::default() };
        for part in parts {
            all.manifests.extend(part.manifests);
            all.withheld.extend(part.withheld);
            all.findings.extend(part.findings);
        }
        all
    }

    /// Override policies that change no manifest.
    pub fn unused_overrides(&self, rendering: &Rendering) -> Vec<Finding> {
        let changes = rendering.manifests.iter().flat_map(|m| &m.changes).filter(|c| !c.paths.is_empty());
        let changing: BTreeSet<&ObjectRef> = changes.map(|c| &c.policy).collect();
        let overrides = self.repo.claimed.iter().filter(|c| c.role == Role::Override);
        overrides
            .filter(|c| !changing.contains(&c.object.id))
            .map(|c| {
                let message = format!("{} changes no manifest", c.object.id);
                Finding::warning("unused-override", &c.object, message)
                    .help("its selectors match no template that is placed, or the values are there already")
            })
            .collect()
    }

    /// Marks a live object as the control plane that placed it marks its own.
    pub fn mark(&self, placement: &Placement, live: &mut Object) {
        if let Some(dialect) = self.dialects.get(&placement.dialect) {
            dialect.mark(live);
        }
    }

    /// Whether an object in a member cluster is healthy by what the repo says of its kind to the control plane of
    /// that name; `None` where it says nothing.
    pub fn health(&self, dialect: &str, live: &Object) -> Option<Health> {
        self.plane(dialect)?.health(live)
    }

    /// What is wrong with policies that only a thorough check looks for.
    pub fn examine(&self) -> Vec<Finding> {
        self.planes.iter().flat_map(|(_, plane)| plane.examine()).collect()
    }

    /// What is done about one object of the plan in a cluster, given what is there.
    pub fn reconcile(
        &self,
        placement: &Placement,
        cluster: &Cluster,
        live: Option<&Object>,
    ) -> Option<Action> {
        self.plane(&placement.dialect)?.reconcile(placement, cluster, live)
    }

    /// What each cluster receives of one object of the plan, as values rather than text.
    pub fn variants(&self, plan: &Plan, object: &ObjectRef) -> Vec<Variant> {
        let placement = plan.placements.iter().find(|p| p.object == *object);
        placement.and_then(|p| Some(self.plane(&p.dialect)?.manifests(p))).unwrap_or_default()
    }
}

fn written(object: &ObjectRef, variants: Vec<Variant>, lists: &SharedLists) -> Rendering {
    let mut all = Rendering::default();
    for variant in variants {
        let clusters = lists.share_names(&variant.clusters);
        match variant.rendered {
            Ok(rendered) => {
                let mut text = String::new();
                federate_yaml::write(&rendered.body, &mut text);
                all.manifests.push(Manifest {
                    object: object.clone(),
                    clusters,
                    text: text.into(),
                    changes: rendered.changes,
                });
            }
            Err(Withheld { status, finding }) => {
                all.withheld.push(HeldBack { object: object.clone(), clusters, status });
                all.findings.extend(finding);
            }
        }
    }
    all
}
