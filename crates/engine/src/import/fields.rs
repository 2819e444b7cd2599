//! Tests which fields of every built-in kind an import removes: none that a user can have written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::minimal::minimal;
use federate_apiserver::Kind;
use federate_apiserver::schema::Type;
use federate_dialect::clean::bare;
use federate_kubernetes::Object;

/// Fields that are removed from every object: metadata that the server maintains, and the status.
const OF_ALL: [&str; 12] = [
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
const OF_KINDS: [(&str, &str, &str); 11] = [
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
fn filled(ty: &Type, around: &mut Vec<&'static str>) -> Value {
    match ty {
        Type::Named(name) if around.contains(name) => json!({}),
        Type::Named(name) => {
            around.push(name);
            let value = filled(ty.resolve(), around);
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
            let fields = known.fields.iter().map(|(key, field)| (key.clone(), filled(&field.ty, around)));
            Value::Object(fields.collect())
        }
        Type::Map { value, .. } => json!({"k": filled(value, around)}),
        Type::List { item, .. } => json!([filled(item, around)]),
    }
}

fn object(kind: &Kind) -> Object {
    let mut body = filled(&kind.schema, &mut Vec::new());
    body["apiVersion"] = json!(kind.api_version());
    body["kind"] = json!(kind.kind);
    Object::of(body, "m1")
}

#[test]
fn import_removes_what_servers_and_controllers_wrote_and_nothing_else() {
    let mut removed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for kind in Kind::builtins() {
        let (left, edits) = bare(&object(kind));
        assert_eq!(left.body["metadata"]["name"], "x", "{}", kind.kind);
        for edit in edits {
            if !OF_ALL.contains(&edit.pointer.as_str()) {
                removed.entry(kind.kind.clone()).or_default().insert(edit.pointer);
            }
        }
    }
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (kind, pointer, who) in OF_KINDS {
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
    let (left, edits) = bare(&Object::of(body.clone(), "m1"));
    assert_eq!((&left.body, edits.len()), (&body, 0));
    let kind = Kind::builtin("batch/v1", "Job").unwrap();
    let defaults: Vec<String> = minimal(kind, &body).into_iter().map(|edit| edit.pointer).collect();
    assert_eq!(defaults, ["/spec/backoffLimit"]);
}
