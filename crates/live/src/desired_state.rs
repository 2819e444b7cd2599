//! What is rendered for a cluster.

use serde_json::Value;

use federate_kubernetes::{ClusterName, ObjectRef};

/// The objects that are rendered for a cluster.
#[derive(Clone, Debug)]
pub struct DesiredState<'j> {
    /// The cluster.
    pub cluster: ClusterName,
    /// The objects.
    pub objects: Vec<(&'j ObjectRef, &'j Value)>,
}

impl DesiredState<'_> {
    /// A cluster of which nothing is desired: it is only read.
    pub(super) fn without_objects(cluster: ClusterName) -> Self {
        Self { cluster, objects: Vec::new() }
    }
}
