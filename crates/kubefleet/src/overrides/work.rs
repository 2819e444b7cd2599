//! What the works of a cluster were written with.
//!
//! Facts: a work is written anew only when the resources change, or the list of overrides that match its cluster. So a
//! variable keeps the label that the cluster had then, and a cluster that comes under another rule of the same
//! override keeps the result of the former rule.

use std::collections::BTreeSet;

use federate_dialect::scheduler_state::compute_digest;
use federate_kubernetes::{Cluster, Labels, ObjectRef};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{KubeFleetOverride, Overrides};

/// What the works of a cluster were written with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkInputs {
    /// A digest of the resources, and of the overrides that match the cluster.
    pub digest: String,
    /// The labels of the cluster that these overrides read.
    pub labels: Labels,
}

/// The resources and overrides of a placement, of which some read the labels of clusters.
#[derive(Debug)]
pub(crate) struct WorkSources {
    resources: String,
    overrides: Vec<Source>,
    /// The labels that the overrides read.
    keys: BTreeSet<String>,
}

/// An override: its index in the list of all of them, and a digest of its content.
#[derive(Debug)]
struct Source {
    index: usize,
    digest: String,
}

impl WorkSources {
    /// Reads the overrides of a placement that sends objects; `None` if none of them reads a label. `resources` is called
    /// for the bodies of the objects.
    pub(crate) fn from_overrides<'r>(
        overrides: &Overrides<'_>,
        placement: &ObjectRef,
        targets: impl Iterator<Item = &'r ObjectRef>,
        resources: impl FnOnce() -> Vec<Value>,
    ) -> Option<Self> {
        let mut found = BTreeSet::new();
        for target in targets {
            found.extend(overrides.indices_of(placement, target));
        }
        let found = found.into_iter().filter_map(|index| Some((index, overrides.list.get(index)?)));
        let found: Vec<(usize, &KubeFleetOverride<'_>)> = found.collect();
        let keys: BTreeSet<String> = found.iter().flat_map(|(_, one)| one.label_keys()).collect();
        if keys.is_empty() {
            return None;
        }
        let sources = found.into_iter().map(|(index, one)| {
            let id = &one.object.id;
            let content = json!([id.kind, id.namespace, id.name, one.object.value_at(&["spec"])]);
            Source { index, digest: compute_digest(&content) }
        });
        let resources: Vec<Value> = resources().iter().map(|body| compute_digest(body).into()).collect();
        Some(Self { resources: compute_digest(&resources.into()), overrides: sources.collect(), keys })
    }

    /// What a work would be written with now; `None` where no override matches the cluster.
    pub(crate) fn compute_inputs(&self, overrides: &Overrides<'_>, cluster: &Cluster) -> Option<WorkInputs> {
        let matching = self.overrides.iter().filter(|source| {
            overrides.list.get(source.index).is_some_and(|one| one.matches_cluster(cluster))
        });
        let matching: Vec<&str> = matching.map(|source| source.digest.as_str()).collect();
        if matching.is_empty() {
            return None;
        }
        let read = cluster.labels.iter().filter(|(key, _)| self.keys.contains(*key));
        Some(WorkInputs {
            digest: compute_digest(&json!([self.resources, matching])),
            labels: read.map(|(key, value)| (key.clone(), value.clone())).collect(),
        })
    }

    /// The cluster with the labels that its works were written with.
    pub(crate) fn with_former_labels(&self, cluster: &Cluster, former: &WorkInputs) -> Cluster {
        let mut cluster = cluster.clone();
        cluster.labels.retain(|key, _| !self.keys.contains(key));
        cluster.labels.extend(former.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        cluster
    }
}
