//! What stays in a cluster although it is no longer rendered.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// The label of the objects that federate manages with its default ApplySet.
const PART_OF: &str = "applyset-AZsG6gxM6qhAzoVQhj58vP58nr4CeznykVwbUSs_koY-v1";

fn managed(kind: &str, name: &str, namespace: Option<&str>, annotations: Value) -> Value {
    let labels = json!({"applyset.kubernetes.io/part-of": PART_OF});
    let metadata = json!({"name": name, "uid": name, "resourceVersion": "1", "labels": labels, "annotations": annotations});
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// The actions about objects that are no longer rendered: name, action and reason.
fn pruned(live: Vec<Value>, options: &str) -> Vec<(String, String, String)> {
    let sandbox = Sandbox::new()
        .file("federate.yaml", "clusters: [{name: m1}]\nunplaced: everywhere\n")
        .file("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n")
        .file(".live/m1/all.json", json!({"apiVersion": "v1", "kind": "List", "items": live}).to_string());
    let ran =
        sandbox.run(&format!("apply --dry-run=client --observed .live --prune-limit 100 -o json {options}"));
    let json = ran.code(0).json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = json["actions"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["object"]["name"] != "a");
    rows.map(|row| (text(&row["object"]["name"]), text(&row["action"]), text(&row["reason"]))).collect()
}

#[test]
fn the_annotations_of_other_tools_keep_an_object_as_ours_does() {
    let annotations = [
        ("federate.dev/prune", "disabled"),
        ("helm.sh/resource-policy", "keep"),
        ("argocd.argoproj.io/sync-options", "ServerSideApply=true,Prune=false"),
        ("argocd.argoproj.io/sync-options", "Delete=false"),
        ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
        ("cli-utils.sigs.k8s.io/on-remove", "keep"),
        ("client.lifecycle.config.k8s.io/deletion", "detach"),
        ("kapp.k14s.io/delete-strategy", "orphan"),
        ("kluctl.io/skip-delete", "true"),
    ];
    let name = |number: usize| format!("k{number}");
    let live = annotations.iter().enumerate();
    let live =
        live.map(|(n, (key, value))| managed("ConfigMap", &name(n), Some("shop"), json!({*key: value})));
    let other = managed("ConfigMap", "z", Some("shop"), json!({"helm.sh/resource-policy": "delete"}));
    let rows = pruned(live.chain([other]).collect(), "");
    for (number, (key, _)) in annotations.iter().enumerate() {
        let (found, action, reason) = &rows[number];
        assert_eq!((found, action.as_str()), (&name(number), "skip"));
        assert!(reason.contains(key) && reason.ends_with("keeps it"), "{reason}");
    }
    assert_eq!(rows[annotations.len()].1, "delete");
}

#[test]
fn a_namespace_is_not_deleted_around_an_object_that_stays() {
    let keep = json!({"helm.sh/resource-policy": "keep"});
    let rows = pruned(
        vec![
            managed("Namespace", "full", None, json!({})),
            managed("Namespace", "empty", None, json!({})),
            managed("ConfigMap", "kept", Some("full"), keep),
            managed("ConfigMap", "gone", Some("full"), json!({})),
        ],
        "--prune-kinds Namespace",
    );
    let action = |name: &str| rows.iter().find(|row| row.0 == name).unwrap();
    assert_eq!(action("full").1, "skip");
    assert_eq!(action("full").2, "deleting it would delete ConfigMap full/kept, which its annotation keeps");
    assert_eq!((action("empty").1.as_str(), action("gone").1.as_str()), ("delete", "delete"));
}
