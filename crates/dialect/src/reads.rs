//! The objects in member clusters that decisions read. They are listed before the plan is computed.

use std::collections::BTreeSet;

use federate_kubernetes::{ClusterName, ObjectRef};

/// What decisions look at in the member clusters, besides the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterReads {
    /// Objects in every cluster.
    pub objects: BTreeSet<ObjectScope>,
    /// The clusters whose free resources matter, and of which the inventory does not state them: their nodes and pods.
    pub capacity: BTreeSet<ClusterName>,
}

/// The objects of a kind in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectScope {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// The namespace; `None` for all of them.
    pub namespace: Option<String>,
}

impl ClusterReads {
    /// Whether nothing in the clusters matters.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.capacity.is_empty()
    }

    /// Adds the objects of the same kind and namespace as a workload, and the pods there.
    pub fn add_workload(&mut self, workload: &ObjectRef) {
        let namespace = &workload.namespace;
        for (api_version, kind) in [(workload.api_version.as_str(), workload.kind.as_str()), ("v1", "Pod")] {
            let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
            self.objects.insert(ObjectScope { api_version, kind, namespace: namespace.clone() });
        }
    }

    /// Adds what another control plane looks at.
    pub fn extend(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.capacity.extend(other.capacity);
    }
}
