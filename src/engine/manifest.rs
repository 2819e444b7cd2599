//! From placements to manifests: each built and written as text once for all clusters that receive
//! the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::Engine;
use crate::dialect::{Action, OverrideChange, Placement, Plan, Variant, Withheld};
use crate::k8s::{Cluster, ClusterName, Finding, Object, ObjectRef};
use crate::repo::Role;

/// One object for some clusters.
#[derive(Debug)]
pub struct Manifest<'p> {
    /// Its identity in the plan.
    pub object: &'p ObjectRef,
    /// The clusters that receive it, sorted by name.
    pub clusters: Vec<ClusterName>,
    /// The manifest as YAML.
    pub text: Arc<str>,
    /// The override rules that changed it.
    pub changes: Vec<OverrideChange>,
}

/// Every manifest of a plan.
#[derive(Debug, Default)]
pub struct Manifests<'p> {
    /// Sorted by object.
    pub manifests: Vec<Manifest<'p>>,
    /// What is not sent, sorted by object.
    pub withheld: Vec<Held<'p>>,
    /// What could not be rendered.
    pub findings: Vec<Finding>,
}

/// An object that some of its clusters are sent nothing (new) of.
#[derive(Debug)]
pub struct Held<'p> {
    /// Its identity in the plan.
    pub object: &'p ObjectRef,
    /// The clusters concerned, sorted by name.
    pub clusters: Vec<ClusterName>,
    /// The control plane's own word for why.
    pub status: &'static str,
}

impl Engine<'_> {
    /// Renders every placement of the plan.
    pub fn manifests<'p>(&self, plan: &'p Plan) -> Manifests<'p> {
        let parts: Vec<Manifests<'p>> = plan
            .placements
            .par_iter()
            .map(|placement| {
                let plane = self.plane(&placement.dialect);
                let variants = plane.map(|plane| plane.manifests(placement)).unwrap_or_default();
                written(&placement.object, variants)
            })
            .collect();
        let mut all = Manifests::default();
        for part in parts {
            all.manifests.extend(part.manifests);
            all.withheld.extend(part.withheld);
            all.findings.extend(part.findings);
        }
        all
    }

    /// Override policies that change no manifest.
    pub fn unused_overrides(&self, manifests: &Manifests<'_>) -> Vec<Finding> {
        let changes = manifests.manifests.iter().flat_map(|m| &m.changes).filter(|c| !c.paths.is_empty());
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

    /// What is done about one object of the plan in a cluster, given what is there.
    pub fn act(&self, placement: &Placement, cluster: &Cluster, live: Option<&Object>) -> Option<Action> {
        self.plane(&placement.dialect)?.act(placement, cluster, live)
    }

    /// What each cluster receives of one object of the plan, as values rather than text.
    pub fn variants(&self, plan: &Plan, object: &ObjectRef) -> Vec<Variant> {
        let placement = plan.placements.iter().find(|p| p.object == *object);
        placement.and_then(|p| Some(self.plane(&p.dialect)?.manifests(p))).unwrap_or_default()
    }
}

fn written(object: &ObjectRef, variants: Vec<Variant>) -> Manifests<'_> {
    let mut all = Manifests::default();
    for variant in variants {
        match variant.rendered {
            Ok(rendered) => {
                let mut text = String::new();
                crate::yaml::write(&rendered.body, &mut text);
                all.manifests.push(Manifest {
                    object,
                    clusters: variant.clusters,
                    text: text.into(),
                    changes: rendered.changes,
                });
            }
            Err(Withheld { status, finding }) => {
                all.withheld.push(Held { object, clusters: variant.clusters, status });
                all.findings.extend(finding);
            }
        }
    }
    all
}
