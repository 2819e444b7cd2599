//! The objects that clusters would lose because they no longer receive them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::objects::{ObjectChange, ObjectChangeKind};
use federate_kubernetes::{ClusterName, ObjectRef};

/// Objects that the same clusters would lose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrunedObjects {
    /// The clusters, sorted by name.
    #[schemars(with = "Vec<String>")]
    pub clusters: Vec<ClusterName>,
    /// Whether these clusters have left the inventory, so that no objects would be deleted there.
    pub unreachable: bool,
    /// The objects, sorted.
    pub objects: Vec<ObjectRef>,
}

/// Groups the removed objects by the affected clusters. The clusters of `removed` have left the inventory.
pub(super) fn group_removed(objects: &[ObjectChange], removed: &[ClusterName]) -> Vec<PrunedObjects> {
    let mut lost: BTreeMap<&ObjectRef, Vec<&ClusterName>> = BTreeMap::new();
    for change in objects.iter().filter(|change| change.kind == ObjectChangeKind::Removed) {
        lost.entry(&change.object).or_default().extend(&change.clusters);
    }
    let mut groups: BTreeMap<(bool, Vec<&ClusterName>), Vec<ObjectRef>> = BTreeMap::new();
    for (object, mut clusters) in lost {
        clusters.sort_unstable();
        let (left, pruned): (Vec<_>, Vec<_>) = clusters.into_iter().partition(|c| removed.contains(c));
        for (unreachable, clusters) in [(false, pruned), (true, left)] {
            if !clusters.is_empty() {
                groups.entry((unreachable, clusters)).or_default().push(object.clone());
            }
        }
    }
    let pruned = groups.into_iter().map(|((unreachable, clusters), objects)| PrunedObjects {
        clusters: clusters.into_iter().cloned().collect(),
        unreachable,
        objects,
    });
    pruned.collect()
}
