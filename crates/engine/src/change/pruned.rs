//! What clusters would lose: what they were sent before and are sent no longer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::objects::{ObjectChange, ObjectChangeKind};
use federate_kubernetes::{ClusterName, ObjectRef};

/// Objects that the same clusters would lose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// The clusters, sorted by name.
    #[schemars(with = "Vec<String>")]
    pub clusters: Vec<ClusterName>,
    /// Whether these clusters have left the inventory, so that nobody would delete anything there.
    pub unreachable: bool,
    /// Sorted.
    pub objects: Vec<ObjectRef>,
}

/// What is no longer sent, by the clusters concerned; `gone` have left the inventory.
pub(super) fn group(objects: &[ObjectChange], gone: &[ClusterName]) -> Vec<Pruned> {
    let mut lost: BTreeMap<&ObjectRef, Vec<&ClusterName>> = BTreeMap::new();
    for change in objects.iter().filter(|change| change.kind == ObjectChangeKind::Removed) {
        lost.entry(&change.object).or_default().extend(&change.clusters);
    }
    let mut groups: BTreeMap<(bool, Vec<&ClusterName>), Vec<ObjectRef>> = BTreeMap::new();
    for (object, mut clusters) in lost {
        clusters.sort_unstable();
        let (left, pruned): (Vec<_>, Vec<_>) = clusters.into_iter().partition(|c| gone.contains(c));
        for (unreachable, clusters) in [(false, pruned), (true, left)] {
            if !clusters.is_empty() {
                groups.entry((unreachable, clusters)).or_default().push(object.clone());
            }
        }
    }
    let pruned = groups.into_iter().map(|((unreachable, clusters), objects)| Pruned {
        clusters: clusters.into_iter().cloned().collect(),
        unreachable,
        objects,
    });
    pruned.collect()
}
