//! The member clusters of the new control plane.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Apis, Cluster, Taint};
use serde_json::{Map, Value, json};

use crate::Target;
use crate::intent::labels_to_json;
use crate::rendering::build_mapping;

/// The inventory object of a cluster or, without a control plane, its entry in `federate.yaml`.
pub(crate) fn write_cluster(cluster: &Cluster, target: Target) -> Value {
    match target {
        Target::Karmada => write_karmada_cluster(cluster),
        Target::KubeAdmiral => json!({
            "apiVersion": "core.kubeadmiral.io/v1alpha1",
            "kind": "FederatedCluster",
            "metadata": write_metadata(cluster),
            "spec": build_mapping([("taints", write_taints(cluster))]),
        }),
        Target::KubeFleet => json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1",
            "kind": "MemberCluster",
            "metadata": write_metadata(cluster),
            "spec": write_member_cluster(cluster),
        }),
        Target::Plain => write_configured_cluster(cluster),
    }
}

/// The agent of a member has a name on the hub. Taints have one effect.
fn write_member_cluster(cluster: &Cluster) -> Value {
    let mut taints = cluster.taints.clone();
    taints.retain(|taint| convert_effect(&taint.effect) != "PreferNoSchedule");
    for taint in &mut taints {
        "NoSchedule".clone_into(&mut taint.effect);
    }
    let identity = json!({
        "apiGroup": "", "kind": "ServiceAccount", "name": cluster.name, "namespace": "fleet-system",
    });
    build_mapping([("identity", identity), ("taints", write_taints(&Cluster { taints, ..cluster.clone() }))])
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
    build_mapping([
        ("apiVersion", json!("cluster.karmada.io/v1alpha1")),
        ("kind", json!("Cluster")),
        ("metadata", write_metadata(cluster)),
        ("spec", spec),
        ("status", write_karmada_status(cluster)),
    ])
}

/// What the cluster serves and has room for, if the repo says so.
fn write_karmada_status(cluster: &Cluster) -> Value {
    let mut kinds: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    if let Apis::Listed(listed) = &cluster.apis {
        for (version, kind) in listed {
            kinds.entry(version).or_default().push(json!({"kind": kind}));
        }
    }
    let enablements = kinds
        .into_iter()
        .map(|(version, resources)| json!({"groupVersion": version, "resources": resources}));
    let enablements: Vec<Value> = enablements.collect();
    let summary = cluster.capacity.as_ref().map_or(Value::Null, |capacity| {
        let amounts = |amounts: &BTreeMap<String, Quantity>| -> Value {
            amounts.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))).collect()
        };
        let used: BTreeMap<String, Quantity> = capacity
            .allocatable
            .iter()
            .filter_map(|(name, amount)| Some((name.clone(), *amount - *capacity.available.get(name)?)))
            .collect();
        build_mapping([("allocatable", amounts(&capacity.allocatable)), ("allocated", amounts(&used))])
    });
    if enablements.is_empty() && !matches!(cluster.apis, Apis::Listed(_)) && !summary.is_null() {
        // A status without kinds would mean that the cluster serves none.
        return Value::Null;
    }
    build_mapping([("apiEnablements", enablements.into()), ("resourceSummary", summary)])
}

fn write_configured_cluster(cluster: &Cluster) -> Value {
    build_mapping([
        ("name", json!(cluster.name)),
        ("labels", labels_to_json(&cluster.labels)),
        ("provider", json!(cluster.provider)),
        ("region", json!(cluster.region)),
        ("zones", json!(cluster.zones)),
        ("kubernetesVersion", json!(cluster.kubernetes)),
        ("taints", write_taints(cluster)),
    ])
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
    // Control planes refuse two taints of the same key and effect.
    let mut known = BTreeSet::new();
    let taints =
        cluster.taints.iter().filter(|taint| known.insert((&taint.key, convert_effect(&taint.effect))));
    taints.map(taint).collect()
}

/// The effect of a taint as Kubernetes names it. Open Cluster Management has names of its own.
fn convert_effect(effect: &str) -> &str {
    match effect {
        "NoSelect" | "NoSelectIfNew" => "NoSchedule",
        "PreferNoSelect" => "PreferNoSchedule",
        other => other,
    }
}
