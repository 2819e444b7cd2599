//! The objects that a new repo starts with.

use serde_json::json;

use federate_dialect::{Starter, starter_labels};
use federate_repo::config::ConfiguredCluster;

/// A policy that templates name in a label.
pub(super) fn build_starter(clusters: &[ConfiguredCluster]) -> Starter {
    let policy = json!({
        "apiVersion": "core.kubeadmiral.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "everywhere"},
        "spec": {"schedulingMode": "Duplicate"},
    });
    let inventory = clusters.iter().map(|cluster| {
        let name = &cluster.name;
        json!({
            "apiVersion": "core.kubeadmiral.io/v1alpha1",
            "kind": "FederatedCluster",
            "metadata": {"name": name, "labels": starter_labels(cluster)},
            "spec": {"apiEndpoint": format!("https://{name}.example.com:6443"), "secretRef": {"name": name}},
        })
    });
    Starter {
        inventory: inventory.collect(),
        policy: Some(policy),
        note: Some(
            "label each object that the policy should place: kubeadmiral.io/cluster-propagation-policy-name: everywhere",
        ),
    }
}
