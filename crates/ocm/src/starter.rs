//! The objects that a new repo starts with.

use serde_json::{Value, json};

use crate::api::PLACEMENT_VERSION;
use federate_dialect::{Starter, starter_labels};
use federate_kubernetes::ObjectRef;
use federate_repo::config::ConfiguredCluster;

/// The inventory object of a cluster.
fn build_cluster(cluster: &ConfiguredCluster) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": cluster.name, "labels": starter_labels(cluster)},
        "spec": {"hubAcceptsClient": true},
    })
}

/// The clusters, and a placement on all of them. Sets of works contain their manifests, so that they are not made here.
pub(super) fn starter(clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
    let namespace = templates.iter().find_map(|id| id.namespace.as_deref()).unwrap_or("default");
    let policy: Value = json!({
        "apiVersion": PLACEMENT_VERSION,
        "kind": "Placement",
        "metadata": {"name": "everywhere", "namespace": namespace},
        "spec": {"tolerations": [{"key": "cluster.open-cluster-management.io/unreachable", "operator": "Exists"}]},
    });
    Starter {
        inventory: clusters.iter().map(build_cluster).collect(),
        policy: Some(policy),
        note: Some(
            "a Placement selects clusters of bound sets only: add a ManagedClusterSetBinding named `global` to its \
             namespace, and wrap your objects in a ManifestWorkReplicaSet that refers to it",
        ),
    }
}
