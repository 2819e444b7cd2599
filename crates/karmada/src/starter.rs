//! The objects that a new repo starts with.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use federate_dialect::{Starter, starter_labels};
use federate_kubernetes::ObjectRef;
use federate_repo::config::ConfiguredCluster;

/// A policy that selects the kinds of the templates, or common kinds if there are none. Namespaces need no policy.
pub(super) fn build_starter(clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
    let mut kinds: BTreeSet<(&str, &str)> =
        templates.iter().map(|id| (id.api_version.as_str(), id.kind.as_str())).collect();
    kinds.remove(&("v1", "Namespace"));
    if kinds.is_empty() {
        kinds.extend([("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "ConfigMap")]);
    }
    let selectors: Vec<Value> =
        kinds.iter().map(|(version, kind)| json!({"apiVersion": version, "kind": kind})).collect();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "everywhere"},
        "spec": {"resourceSelectors": selectors, "placement": {"clusterAffinity": {}}},
    });
    let mut inventory = Vec::with_capacity(clusters.len());
    for cluster in clusters {
        let mut spec = json!({"syncMode": "Push", "region": cluster.region});
        if !cluster.provider.is_empty() {
            spec["provider"] = json!(cluster.provider);
        }
        if !cluster.zones.is_empty() {
            spec["zones"] = json!(cluster.zones);
        }
        inventory.push(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": cluster.name, "labels": starter_labels(cluster)},
            "spec": spec,
        }));
    }
    Starter { inventory, policy: Some(policy), note: None }
}
