//! What of the member's pod stays: where it runs, what it mounts.
//!
//! Facts: the pod comes back as Go writes its type: with the fields that are never left out.

use serde_json::{Map, Value, json};

use super::retain::{Unretained, object};
use crate::k8s::Object;

/// Brings what stays of the member's pod into what is sent.
pub(super) fn retain(body: &mut Value, live: &Object) -> Result<(), Unretained> {
    let spec = object(body, &["spec"]).ok_or(Unretained)?;
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        set(spec, field, live.at(&["spec", field]));
    }
    for list in ["containers", "initContainers"] {
        let theirs = live.at(&["spec", list]).and_then(Value::as_array);
        for theirs in theirs.into_iter().flatten() {
            let ours = spec.get_mut(list).and_then(Value::as_array_mut);
            let mut same = ours.into_iter().flatten().filter(|c| c.get("name") == theirs.get("name"));
            if let Some(ours) = same.next().and_then(Value::as_object_mut) {
                set(ours, "volumeMounts", theirs.get("volumeMounts"));
            }
        }
    }
    complete(spec);
    object(body, &[]).ok_or(Unretained)?.insert("status".to_owned(), json!({}));
    Ok(())
}

/// Sets a field as the member has it; what is empty is left out.
fn set(map: &mut Map<String, Value>, field: &str, value: Option<&Value>) {
    let filled = |value: &&Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    match value.filter(filled) {
        Some(value) => drop(map.insert(field.to_owned(), value.clone())),
        None => drop(map.shift_remove(field)),
    }
}

/// The fields that are written even when there is nothing in them.
fn complete(spec: &mut Map<String, Value>) {
    spec.entry("containers").or_insert(Value::Null);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let resources = container.entry("resources").or_insert(Value::Null);
            if resources.is_null() {
                *resources = json!({});
            }
        }
    }
}
