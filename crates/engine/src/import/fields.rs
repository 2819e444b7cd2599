//! Tests which fields of every built-in kind an import removes: none that a user can have written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::defaults::remove_defaults;
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::schema::Type;
use federate_dialect::clean::clean_object;
use federate_kubernetes::Object;

/// Fields that are removed from every object: metadata that the server maintains, and the status.
const REMOVED_FROM_ALL: [&str; 12] = [
    "/status",
    "/metadata/creationTimestamp",
    "/metadata/deletionGracePeriodSeconds",
    "/metadata/deletionTimestamp",
    "/metadata/finalizers",
    "/metadata/generateName",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/ownerReferences",
    "/metadata/resourceVersion",
    "/metadata/selfLink",
    "/metadata/uid",
];

/// Fields that are removed from one kind, and who writes them.
const REMOVED_FROM_KINDS: [(&str, &str, &str); 11] = [
    ("Namespace", "/spec", "the API server adds the finalizer"),
    ("PersistentVolume", "/spec/claimRef/resourceVersion", "the volume binder"),
    ("PersistentVolume", "/spec/claimRef/uid", "the volume binder"),
    ("Pod", "/spec/ephemeralContainers", "they are added to a pod that runs"),
    ("Pod", "/spec/nodeName", "the scheduler"),
    ("Service", "/spec/clusterIP", "the API server gives out addresses"),
    ("Service", "/spec/clusterIPs", "the API server gives out addresses"),
    ("Service", "/spec/healthCheckNodePort", "the API server gives out ports"),
    ("Service", "/spec/ports/0/nodePort", "the API server gives out ports"),
    ("ServiceAccount", "/secrets", "the token controller"),
    ("StatefulSet", "/spec/volumeClaimTemplates/0/status", "the API server adds the phase of claims"),
];

/// Returns a value with every field that a type declares.
fn fill_fields(ty: &Type, around: &mut Vec<&'static str>) -> Value {
    match ty {
        Type::Named(name) if around.contains(name) => json!({}),
        Type::Named(name) => {
            around.push(name);
            let value = fill_fields(ty.resolve_name(), around);
            around.pop();
            value
        }
        Type::Text => json!("x"),
        Type::Quantity => json!("7"),
        Type::Time => json!("2026-01-01T00:00:00Z"),
        Type::Number | Type::IntOrString => json!(7),
        Type::Boolean => json!(false),
        Type::Any | Type::Atomic => json!({"k": "x"}),
        Type::Struct(known) => {
            let fields =
                known.fields.iter().map(|(key, field)| (key.clone(), fill_fields(&field.ty, around)));
            Value::Object(fields.collect())
        }
        Type::Map { value, .. } => json!({"k": fill_fields(value, around)}),
        Type::List { item, .. } => json!([fill_fields(item, around)]),
    }
}

fn build_object(kind: &ResourceKind) -> Object {
    let mut body = fill_fields(&kind.schema, &mut Vec::new());
    body["apiVersion"] = json!(kind.api_version());
    body["kind"] = json!(kind.kind);
    Object::from_manifest(body, "m1")
}

#[test]
fn import_removes_what_servers_and_controllers_wrote_and_nothing_else() {
    let mut removed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for kind in ResourceKind::all_builtins() {
        let (left, edits) = clean_object(&build_object(kind));
        assert_eq!(left.body["metadata"]["name"], "x", "{}", kind.kind);
        for edit in edits {
            if !REMOVED_FROM_ALL.contains(&edit.pointer.as_str()) {
                removed.entry(kind.kind.clone()).or_default().insert(edit.pointer);
            }
        }
    }
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (kind, pointer, who) in REMOVED_FROM_KINDS {
        assert!(!who.is_empty());
        known.entry(kind.to_owned()).or_default().insert(pointer.to_owned());
    }
    assert_eq!(removed, known);
}

#[test]
fn the_time_to_live_of_a_job_stays() {
    let body = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"}, "spec": {
        "ttlSecondsAfterFinished": 60, "backoffLimit": 6, "template": {"spec": {"restartPolicy": "Never", "containers":
            [{"name": "a", "image": "b:1"}]}}}});
    let (left, edits) = clean_object(&Object::from_manifest(body.clone(), "m1"));
    assert_eq!((&left.body, edits.len()), (&body, 0));
    let kind = ResourceKind::find_builtin("batch/v1", "Job").unwrap();
    let defaults: Vec<String> = remove_defaults(kind, &body).into_iter().map(|edit| edit.pointer).collect();
    assert_eq!(defaults, ["/spec/backoffLimit"]);
}
