//! The retention of pods: their node and their mounts.
//!
//! Facts: the pod comes back as Go writes its type: without what the type does not have, with the
//! fields that are never left out, quantities in their shortest form.

use serde_json::{Map, Value, json};

use super::body::{RetainFailure, ensure_object};
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::normalization::normalize_object;
use federate_kubernetes::Object;

/// Copies the retained fields of the member's pod.
pub(super) fn retain_pod(body: &mut Value, live: &Object) -> Result<(), RetainFailure> {
    let spec = ensure_object(body, &["spec"]).ok_or_else(RetainFailure::default)?;
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        set_field(spec, field, live.value_at(&["spec", field]));
    }
    for list in ["containers", "initContainers"] {
        let theirs = live.value_at(&["spec", list]).and_then(Value::as_array);
        for theirs in theirs.into_iter().flatten() {
            let desired = spec.get_mut(list).and_then(Value::as_array_mut);
            let mut same = desired.into_iter().flatten().filter(|c| c.get("name") == theirs.get("name"));
            if let Some(desired) = same.next().and_then(Value::as_object_mut) {
                set_field(desired, "volumeMounts", theirs.get("volumeMounts"));
            }
        }
    }
    let kind = ResourceKind::find_builtin("v1", "Pod").ok_or_else(RetainFailure::default)?;
    let mut typed = body.clone();
    normalize_object(&kind.schema, &mut typed);
    let written = ensure_object(&mut typed, &[]).ok_or_else(RetainFailure::default)?;
    for key in ["apiVersion", "kind"] {
        written.insert(key.to_owned(), body[key].clone());
    }
    written.entry("status").or_insert_with(|| json!({}));
    *body = typed;
    Ok(())
}

/// Sets a field to the member's value.
fn set_field(map: &mut Map<String, Value>, field: &str, value: Option<&Value>) {
    match value.filter(|value| !value.is_null()) {
        Some(value) => drop(map.insert(field.to_owned(), value.clone())),
        None => drop(map.shift_remove(field)),
    }
}
