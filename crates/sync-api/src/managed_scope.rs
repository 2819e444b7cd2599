//! The managed scope of a `Sync`, which its status has as `inventory`: the clusters in which it manages objects, and what
//! finds the objects there. It is noted before a cluster is changed, so that deletion needs neither the source nor its rendering.
//!
//! Facts: `status.inventory` of Flux's `Kustomization`. Which objects are managed is in the parent of the `ApplySet` and
//! on the objects themselves (KEP-3659), so that the scope does not grow with them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most kinds, and the most namespaces, that are kept. An `ApplySet`'s parent has all of them.
const MAX_PLACES: usize = 200;

/// Where a Sync manages objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "AppliedInventory")]
pub struct ManagedScope {
    /// The `ApplySet`s that the Sync has used, as `NAMESPACE/NAME`; the present one is the last.
    pub apply_sets: Vec<String>,
    /// The kinds of objects that were sent, as `Kind.group`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub group_kinds: BTreeSet<String>,
    /// The namespaces of objects that were sent.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub namespaces: BTreeSet<String>,
    /// The clusters, by name.
    pub clusters: Vec<AppliedCluster>,
}

/// A cluster in which a Sync manages objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedCluster {
    /// Its name.
    pub name: String,
    /// The context that leads to it, if the configuration of the repo names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Its object in the control plane's inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<InventoryRef>,
    /// Since when the Sync has nothing to do with the cluster any more: it has left the inventory, or `spec.clusters`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub left: Option<Timestamp>,
    /// Whether an Event says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
}

/// An object of a control plane's inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryRef {
    /// Its version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl ManagedScope {
    /// Notes what is about to be applied: the `ApplySet`, and the clusters. Clusters that are not among them have left.
    pub fn note_clusters(&mut self, apply_set: &str, clusters: Vec<AppliedCluster>, now: Timestamp) {
        self.apply_sets.retain(|known| known != apply_set);
        self.apply_sets.push(apply_set.to_owned());
        let present: BTreeSet<String> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
        let mut left = std::mem::replace(&mut self.clusters, clusters);
        left.retain(|cluster| !present.contains(&cluster.name));
        for cluster in &mut left {
            cluster.left.get_or_insert(now);
        }
        self.clusters.extend(left);
        self.clusters.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Notes the kinds and namespaces of objects that are about to be sent.
    pub fn note_objects<'o>(&mut self, objects: impl Iterator<Item = (String, Option<&'o str>)>) {
        for (group_kind, namespace) in objects {
            if self.group_kinds.len() < MAX_PLACES {
                self.group_kinds.insert(group_kind);
            }
            if let Some(namespace) = namespace.filter(|_| self.namespaces.len() < MAX_PLACES)
                && !self.namespaces.contains(namespace)
            {
                self.namespaces.insert(namespace.to_owned());
            }
        }
    }

    /// Notes that the Sync applies to no cluster any more.
    pub fn leave_clusters(&mut self, now: Timestamp) {
        for cluster in &mut self.clusters {
            cluster.left.get_or_insert(now);
        }
    }

    /// Notes that the clusters that have left were reported.
    pub fn note_reported(&mut self) {
        for cluster in &mut self.clusters {
            cluster.reported = cluster.left.is_some();
        }
    }

    /// The clusters to which the Sync applies.
    pub fn present_clusters(&self) -> impl Iterator<Item = &AppliedCluster> {
        self.clusters.iter().filter(|cluster| cluster.left.is_none())
    }

    /// The names of the clusters that have left.
    pub fn left_clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.iter().filter(|cluster| cluster.left.is_some()).map(|cluster| cluster.name.as_str())
    }

    /// Forgets clusters: their objects are gone, or are left to others.
    pub fn remove_clusters(&mut self, which: impl Fn(&str) -> bool) {
        self.clusters.retain(|cluster| !which(&cluster.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_leave_are_kept_until_they_are_forgotten() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let named = |names: &[&str]| {
            names
                .iter()
                .map(|name| AppliedCluster { name: (*name).to_owned(), ..Default::default() })
                .collect()
        };
        let mut scope = ManagedScope::default();
        scope.note_clusters("default/a", named(&["m1", "m2"]), at(1));
        scope.note_clusters("default/b", named(&["m2", "m3"]), at(2));
        scope.note_clusters("default/b", named(&["m2", "m3"]), at(3));
        assert_eq!(scope.left_clusters().collect::<Vec<_>>(), ["m1"]);
        assert_eq!((scope.clusters[0].left, scope.clusters[1].left), (Some(at(2)), None));
        assert_eq!(scope.apply_sets, ["default/a", "default/b"]);
        scope.note_clusters("default/b", named(&["m1", "m2", "m3"]), at(4));
        assert_eq!(scope.left_clusters().count(), 0, "it is back");
        scope.remove_clusters(|name| name == "m1");
        assert_eq!(scope.clusters.len(), 2);
    }
}
