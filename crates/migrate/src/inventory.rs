//! The member clusters of the new control plane.

use federate_kubernetes::{Cluster, Taint};
use serde_json::{Map, Value, json};

use crate::Target;
use crate::intent::labels_to_json;
use crate::rendering::build_mapping;

/// The inventory object of a cluster; `None` where there is no control plane.
pub(crate) fn write_cluster(cluster: &Cluster, target: Target) -> Option<Value> {
    match target {
        Target::Karmada => Some(write_karmada_cluster(cluster)),
        Target::KubeAdmiral => Some(json!({
            "apiVersion": "core.kubeadmiral.io/v1alpha1",
            "kind": "FederatedCluster",
            "metadata": write_metadata(cluster),
            "spec": {"taints": write_taints(cluster)},
        })),
        Target::KubeFleet => Some(json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1",
            "kind": "MemberCluster",
            "metadata": write_metadata(cluster),
            "spec": {"taints": write_taints(cluster)},
        })),
        Target::Plain => None,
    }
}

fn write_karmada_cluster(cluster: &Cluster) -> Value {
    let mut spec = json!({"syncMode": "Push"});
    for (key, text) in [("provider", &cluster.provider), ("region", &cluster.region)] {
        if !text.is_empty() {
            spec[key] = json!(text);
        }
    }
    if !cluster.zones.is_empty() {
        spec["zones"] = json!(cluster.zones);
    }
    if !cluster.taints.is_empty() {
        spec["taints"] = write_taints(cluster);
    }
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": write_metadata(cluster),
        "spec": spec,
    })
}

fn write_metadata(cluster: &Cluster) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), cluster.name.as_ref().into());
    if !cluster.labels.is_empty() {
        metadata.insert("labels".to_owned(), labels_to_json(&cluster.labels));
    }
    Value::Object(metadata)
}

fn write_taints(cluster: &Cluster) -> Value {
    let taint = |taint: &Taint| {
        build_mapping([
            ("key", json!(taint.key)),
            ("value", json!(taint.value)),
            ("effect", json!(convert_effect(&taint.effect))),
        ])
    };
    cluster.taints.iter().map(taint).collect()
}

/// The effect of a taint as Kubernetes names it. Open Cluster Management has names of its own.
fn convert_effect(effect: &str) -> &str {
    match effect {
        "NoSelect" | "NoSelectIfNew" => "NoSchedule",
        "PreferNoSelect" => "PreferNoSchedule",
        other => other,
    }
}
