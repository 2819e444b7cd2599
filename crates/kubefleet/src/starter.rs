//! The objects that a new repo starts with.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use federate_dialect::{Starter, starter_labels};
use federate_kubernetes::ObjectRef;
use federate_repo::config::ConfiguredCluster;

/// A placement that selects the namespaces of the templates, with what is in them, and cluster-scoped templates by
/// name.
pub(super) fn build_starter(clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
    let mut selected: BTreeMap<(&str, &str, &str), &str> = BTreeMap::new();
    for id in templates {
        let (group, version) = id.api_version.split_once('/').unwrap_or(("", &id.api_version));
        match &id.namespace {
            Some(namespace) => selected.insert(("", "Namespace", namespace), "v1"),
            None => selected.insert((group, &id.kind, &id.name), version),
        };
    }
    if selected.is_empty() {
        selected.insert(("", "Namespace", "shop"), "v1");
    }
    let lacks = templates
        .iter()
        .filter_map(|id| id.namespace.as_deref())
        .any(|name| !templates.iter().any(|id| id.kind == "Namespace" && id.name == name));
    let selectors = selected.iter().map(
        |((group, kind, name), version)| json!({"group": group, "version": version, "kind": kind, "name": name}),
    );
    let policy = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "everywhere"},
        "spec": {
            "resourceSelectors": selectors.collect::<Vec<Value>>(),
            "policy": {"placementType": "PickAll"},
        },
    });
    let inventory = clusters.iter().map(|cluster| {
        let identity = json!({"apiGroup": "", "kind": "ServiceAccount", "name": cluster.name, "namespace": "fleet-system"});
        json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1",
            "kind": "MemberCluster",
            "metadata": {"name": cluster.name, "labels": starter_labels(cluster)},
            "spec": {"identity": identity},
        })
    });
    Starter {
        inventory: inventory.collect(),
        policy: Some(policy),
        note: lacks.then_some(
            "add a Namespace for each namespace of your objects: KubeFleet selects Namespaces with what is in them",
        ),
    }
}
