//! The live objects of member clusters, as far as they are known.

use std::collections::BTreeMap;

use super::cluster::ClusterName;
use super::object::{Object, ObjectRef};

/// Live objects by cluster.
#[derive(Clone, Debug, Default)]
pub struct LiveObjects {
    clusters: BTreeMap<ClusterName, Vec<Object>>,
}

impl LiveObjects {
    /// Adds objects of a cluster.
    pub fn insert(&mut self, cluster: ClusterName, objects: Vec<Object>) {
        let all = self.clusters.entry(cluster).or_default();
        all.extend(objects);
        all.sort_by(|a, b| a.id.unversioned().cmp(&b.id.unversioned()));
    }

    /// Whether the objects of the cluster are known: if so, an object that is not listed does not exist.
    pub fn knows_cluster(&self, cluster: &str) -> bool {
        self.clusters.contains_key(cluster)
    }

    /// The object with this group, kind, namespace and name, in any version.
    pub fn get(
        &self,
        cluster: &str,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<&Object> {
        let all = self.clusters.get(cluster)?;
        let at = all.binary_search_by(|o| o.id.unversioned().cmp(&(group, kind, namespace, name))).ok()?;
        all.get(at)
    }

    /// The object with this identity, for changes of its body.
    pub fn get_mut(&mut self, cluster: &str, id: &ObjectRef) -> Option<&mut Object> {
        let all = self.clusters.get_mut(cluster)?;
        let wanted = (id.group(), id.kind.as_str(), id.namespace.as_deref(), id.name.as_str());
        let at = all.binary_search_by(|o| o.id.unversioned().cmp(&wanted)).ok()?;
        all.get_mut(at)
    }

    /// The clusters whose objects are known.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        self.clusters.keys()
    }

    /// All objects of a cluster.
    pub fn cluster_objects(&self, cluster: &str) -> &[Object] {
        self.clusters.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// All objects of a group, kind and namespace, sorted by name.
    pub fn list_kind(&self, cluster: &str, group: &str, kind: &str, namespace: Option<&str>) -> &[Object] {
        let all = self.clusters.get(cluster).map_or(&[][..], Vec::as_slice);
        let wanted = (group, kind, namespace);
        let start = all.partition_point(|object| kind_key(object) < wanted);
        let end = all.partition_point(|object| kind_key(object) <= wanted);
        &all[start..end]
    }
}

/// The start of the sort key that the objects of a kind in a namespace share.
fn kind_key(object: &Object) -> (&str, &str, Option<&str>) {
    (object.id.group(), &object.id.kind, object.id.namespace.as_deref())
}
