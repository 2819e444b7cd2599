//! The clusters of a placement: one immutable list that placements share.
//!
//! Thousands of objects of one policy go to the same thousand clusters. Their placements share one list, so
//! that the size of a plan does not grow with objects times clusters.

use std::ops::Deref;
use std::sync::Arc;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};

use federate_kubernetes::ClusterName;

/// One cluster of a placement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Placed {
    /// The cluster's name.
    #[schemars(with = "String")]
    pub name: ClusterName,
    /// Its replicas; `null` where the dialect places without deciding replicas.
    #[serde(default)]
    pub replicas: Option<i64>,
}

/// A shared list of cluster names, in order.
pub type ClusterNames = Arc<[ClusterName]>;

/// The clusters of a placement, sorted by name. Clones share one list; an edit makes a list of its own.
#[derive(Clone, Debug, Default, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Placed>")]
pub struct PlacedClusters(Arc<[Placed]>);

impl PlacedClusters {
    /// The entry of one cluster; the first where a plan written by hand has several.
    pub fn find_cluster(&self, cluster: &str) -> Option<&Placed> {
        let at = self.partition_point(|placed| placed.name.as_ref() < cluster);
        self.get(at).filter(|placed| placed.name.as_ref() == cluster)
    }

    /// Whether a cluster is among them.
    pub fn contains_cluster(&self, cluster: &str) -> bool {
        self.find_cluster(cluster).is_some()
    }

    /// The sum of their replicas; `None` where no cluster has a number.
    pub fn total_replicas(&self) -> Option<i64> {
        let numbers = self.iter().filter_map(|placed| placed.replicas);
        numbers.fold(None, |sum, replicas| Some(sum.unwrap_or(0) + replicas))
    }

    /// Keeps only the clusters for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Placed) -> bool) {
        let kept: Vec<Placed> = self.iter().filter(|placed| keep(placed)).cloned().collect();
        if kept.len() < self.len() {
            *self = kept.into();
        }
    }

    /// Adds clusters.
    pub fn extend(&mut self, added: impl IntoIterator<Item = Placed>) {
        let mut added = added.into_iter().peekable();
        if added.peek().is_some() {
            *self = self.iter().cloned().chain(added).collect();
        }
    }

    /// Wraps a list that is sorted.
    pub(crate) fn from_sorted(list: Arc<[Placed]>) -> Self {
        Self(list)
    }

    pub(crate) fn list(&self) -> &Arc<[Placed]> {
        &self.0
    }

    /// The address of the list: the same for all that share it, as long as one of them exists.
    pub fn list_address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Whether both share one list, without comparing items.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for PlacedClusters {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.0 == other.0
    }
}

impl Deref for PlacedClusters {
    type Target = [Placed];

    fn deref(&self) -> &[Placed] {
        &self.0
    }
}

impl From<Vec<Placed>> for PlacedClusters {
    fn from(mut clusters: Vec<Placed>) -> Self {
        if !clusters.is_sorted_by(|a, b| a.name <= b.name) {
            clusters.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Self(clusters.into())
    }
}

impl FromIterator<Placed> for PlacedClusters {
    fn from_iter<T: IntoIterator<Item = Placed>>(clusters: T) -> Self {
        clusters.into_iter().collect::<Vec<_>>().into()
    }
}

impl<'c> IntoIterator for &'c PlacedClusters {
    type Item = &'c Placed;
    type IntoIter = std::slice::Iter<'c, Placed>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl JsonSchema for PlacedClusters {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PlacedClusters".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let list = Vec::<Placed>::json_schema(generator);
        let name =
            json_schema!({"type": "string", "description": "The name of a list below `clusterLists`."});
        json_schema!({"anyOf": [list, name]})
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(names: &[&str]) -> PlacedClusters {
        names.iter().map(|&name| Placed { name: name.into(), replicas: None }).collect()
    }

    #[test]
    fn names_are_in_order_and_found() {
        let three = clusters(&["c", "a", "b"]);
        assert_eq!(three, clusters(&["a", "b", "c"]));
        assert!(
            three.contains_cluster("b")
                && !three.contains_cluster("bb")
                && !three.contains_cluster("")
                && !three.contains_cluster("d")
        );
        let mut twice = vec![Placed { name: "m".into(), replicas: Some(2) }];
        twice.push(Placed { name: "m".into(), replicas: Some(1) });
        assert_eq!(PlacedClusters::from(twice).find_cluster("m").and_then(|placed| placed.replicas), Some(2));
    }

    #[test]
    fn an_edit_leaves_those_that_share_the_list_alone() {
        let all = clusters(&["a", "b"]);
        let (mut fewer, mut more, mut same) = (all.clone(), all.clone(), all.clone());
        fewer.retain(|placed| placed.name.as_ref() == "b");
        more.extend([Placed { name: "aa".into(), replicas: None }]);
        same.retain(|_| true);
        same.extend([]);
        assert_eq!((fewer, more), (clusters(&["b"]), clusters(&["a", "aa", "b"])));
        assert!(same.is_shared_with(&all) && all == clusters(&["a", "b"]));
    }
}
