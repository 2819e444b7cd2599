//! The observed objects in the member clusters, which a control plane would see there.

use std::collections::BTreeMap;

use super::cluster::ClusterName;
use super::object::Object;

/// Observed objects, by cluster.
#[derive(Clone, Debug, Default)]
pub struct Live {
    clusters: BTreeMap<ClusterName, Vec<Object>>,
}

impl Live {
    /// Adds objects of a cluster.
    pub fn insert(&mut self, cluster: ClusterName, objects: Vec<Object>) {
        let all = self.clusters.entry(cluster).or_default();
        all.extend(objects);
        all.sort_by(|a, b| key(a).cmp(&key(b)));
    }

    /// Whether the cluster was observed. If so, objects that are not listed do not exist there.
    pub fn knows(&self, cluster: &str) -> bool {
        self.clusters.contains_key(cluster)
    }

    /// Returns the object with this group, kind, namespace and name, in any version.
    pub fn get(
        &self,
        cluster: &str,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<&Object> {
        let all = self.clusters.get(cluster)?;
        let at = all.binary_search_by(|o| key(o).cmp(&(group, kind, namespace, name))).ok()?;
        all.get(at)
    }

    /// Returns all objects of a cluster.
    pub fn objects(&self, cluster: &str) -> &[Object] {
        self.clusters.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// Returns all objects of a group, kind and namespace, sorted by name.
    pub fn list(&self, cluster: &str, group: &str, kind: &str, namespace: Option<&str>) -> &[Object] {
        let all = self.clusters.get(cluster).map_or(&[][..], Vec::as_slice);
        let key = (group, kind, namespace);
        let compare = |o: &Object| (o.id.group(), o.id.kind.as_str(), o.id.namespace.as_deref()).cmp(&key);
        let start = all.partition_point(|o| compare(o).is_lt());
        let end = all.partition_point(|o| compare(o).is_le());
        &all[start..end]
    }
}

fn key(object: &Object) -> (&str, &str, Option<&str>, &str) {
    (object.id.group(), &object.id.kind, object.id.namespace.as_deref(), &object.id.name)
}
