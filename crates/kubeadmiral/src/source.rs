//! The part of a template that is sent: without fields of servers, and without labels and annotations for the
//! control plane.

use serde_json::{Map, Value};

use super::keys;
use federate_kubernetes::ObjectRef;

/// Fields that belong to the API server.
const SERVER_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// The body that is sent, from which overrides are computed. It always has labels and annotations, which may be
/// empty, so that patches can add to them.
pub(super) fn sent_template(body: &Value) -> Value {
    let mut body = body.clone();
    let Value::Object(map) = &mut body else { return body };
    map.shift_remove("status");
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        metadata.retain(|key, _| !SERVER_FIELDS.contains(&key.as_str()));
        retain_keys(metadata, "labels", |key| keys::MOVED_LABELS.contains(&key));
        retain_keys(metadata, "annotations", |key| {
            keys::MOVED_ANNOTATIONS.contains(&key) || keys::DROPPED_ANNOTATIONS.contains(&key)
        });
    }
    body
}

/// Removes keys of a map. Creates the map if it is missing.
fn retain_keys(metadata: &mut Map<String, Value>, field: &str, gone: impl Fn(&str) -> bool) {
    let map = metadata.entry(field).or_insert(Value::Null);
    if map.is_null() {
        *map = Map::new().into();
    }
    if let Value::Object(map) = map {
        map.retain(|key, _| !gone(key));
    }
}

/// Removes fields that members set themselves for objects of that kind.
pub(super) fn drop_member_fields(id: &ObjectRef, body: &mut Value) {
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match (id.group(), id.kind.as_str()) {
        ("batch", "Job") if spec.get("manualSelector") != Some(&Value::Bool(true)) => {
            for path in [&["template", "metadata", "labels"][..], &["selector", "matchLabels"]] {
                let mut keys = path.iter();
                let first = keys.next().and_then(|key| spec.get_mut(*key));
                let labels = keys.try_fold(first, |value, key| Some(value?.get_mut(*key))).flatten();
                if let Some(labels) = labels.and_then(Value::as_object_mut) {
                    labels.shift_remove("controller-uid");
                }
            }
        }
        ("", "Service") => {
            let address = spec.get("clusterIP").and_then(Value::as_str);
            if address.is_some_and(|address| address != "None") {
                spec.shift_remove("clusterIP");
                spec.shift_remove("clusterIPs");
            }
        }
        ("", "Pod") => drop(spec.shift_remove("ephemeralContainers")),
        _ => {}
    }
}

/// Removes the labels and annotations that every object gets, and maps and lists that are then empty, so that a
/// rendered file contains only the template and its overrides.
pub(super) fn remove_stamps(body: &mut Value) {
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.shift_remove("generation");
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(map)) = metadata.get_mut(field) {
            map.retain(|key, _| {
                !matches!(
                    key.as_str(),
                    keys::MANAGED | keys::SOURCE_GENERATION | keys::SENT_LABELS | keys::SENT_ANNOTATIONS
                )
            });
        }
    }
    metadata.retain(|field, value| {
        let is_empty = match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Null => true,
            _ => false,
        };
        !is_empty || !matches!(field.as_str(), "labels" | "annotations" | "finalizers")
    });
}
