//! The objects that a new repo starts with.

use serde_json::json;

use federate_dialect::{Starter, starter_labels};
use federate_repo::config::ConfiguredCluster;

/// Clusters only: federated objects contain their placement.
pub(super) fn build_starter(clusters: &[ConfiguredCluster]) -> Starter {
    let inventory = clusters.iter().map(|cluster| {
        let name = &cluster.name;
        json!({
            "apiVersion": "core.kubefed.io/v1beta1",
            "kind": "KubeFedCluster",
            "metadata": {"name": name, "namespace": "kube-federation-system", "labels": starter_labels(cluster)},
            "spec": {"apiEndpoint": format!("https://{name}.example.com:6443"), "secretRef": {"name": name}},
        })
    });
    Starter {
        inventory: inventory.collect(),
        policy: None,
        note: Some(
            "KubeFed has no policies: `federate import -f FILE --as kubefed` wraps objects in federated ones",
        ),
    }
}
