//! The difference between two JSON values, as operations of a JSON patch and as edits of a text.

use federate_kubernetes::pointer::escape;
use serde_json::Value;

use federate_dialect::import::ImportEdit;

use crate::intent::{ManifestOperation, PatchAction};

/// The operations that turn a value into another. Lists of equal length are compared item by item, others are
/// replaced.
pub(crate) fn compute_patch(from: &Value, to: &Value) -> Vec<ManifestOperation> {
    compute_exact_patch(from, to).into_iter().flat_map(split_metadata_map).collect()
}

/// The same as a strict JSON patch, which adds no mapping that is not there.
pub(crate) fn compute_exact_patch(from: &Value, to: &Value) -> Vec<ManifestOperation> {
    let mut operations = Vec::new();
    collect_operations(from, to, &mut String::new(), &mut operations);
    operations
}

/// Operations on the entries of labels and annotations, instead of one on all of them: control planes add entries of their
/// own.
fn split_metadata_map(operation: ManifestOperation) -> Vec<ManifestOperation> {
    let is_map = matches!(operation.pointer.as_str(), "/metadata/labels" | "/metadata/annotations");
    match &operation.action {
        PatchAction::Add(Value::Object(map)) if is_map => map
            .iter()
            .map(|(key, value)| ManifestOperation {
                action: PatchAction::Add(value.clone()),
                pointer: format!("{}/{}", operation.pointer, escape(key)),
            })
            .collect(),
        _ => vec![operation],
    }
}

fn collect_operations(from: &Value, to: &Value, pointer: &mut String, out: &mut Vec<ManifestOperation>) {
    match (from, to) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let length = push_key(pointer, key);
                match new.get(key) {
                    // For the control planes, there is nothing to replace where the value is null.
                    Some(after) if value.is_null() && !after.is_null() => {
                        let action = PatchAction::Add(after.clone());
                        out.push(ManifestOperation { action, pointer: pointer.clone() });
                    }
                    Some(after) => collect_operations(value, after, pointer, out),
                    None => {
                        out.push(ManifestOperation { action: PatchAction::Remove, pointer: pointer.clone() });
                    }
                }
                pointer.truncate(length);
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                let length = push_key(pointer, key);
                let action = PatchAction::Add(value.clone());
                out.push(ManifestOperation { action, pointer: pointer.clone() });
                pointer.truncate(length);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (value, after)) in old.iter().zip(new).enumerate() {
                let length = push_key(pointer, &index.to_string());
                collect_operations(value, after, pointer, out);
                pointer.truncate(length);
            }
        }
        _ if are_equal(from, to) => {}
        _ => {
            let action = PatchAction::Replace(to.clone());
            out.push(ManifestOperation { action, pointer: pointer.clone() });
        }
    }
}

/// Appends a key, and returns the length before.
fn push_key(pointer: &mut String, key: &str) -> usize {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&escape(key));
    length
}

/// Whether two values are equal; numbers are compared by value, whole ones exactly.
fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Operations as edits of a text.
pub(crate) fn to_edits(operations: Vec<ManifestOperation>) -> Vec<ImportEdit> {
    let edit = |operation: ManifestOperation| ImportEdit {
        pointer: operation.pointer,
        value: match operation.action {
            PatchAction::Add(value) | PatchAction::Replace(value) => Some(value),
            PatchAction::Remove => None,
        },
    };
    operations.into_iter().map(edit).collect()
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::patch::{JsonPatchOperation, apply_operation};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_turns_a_value_into_the_other() {
        for (from, to, count) in [
            (json!({"a": 1}), json!({"a": 1.0}), 0),
            (json!({"a": 9_007_199_254_740_992_i64}), json!({"a": 9_007_199_254_740_993_i64}), 1),
            (json!({"a": {"b/c": 1}, "l": [1, {"x": 1}]}), json!({"a": {"d": 2}, "l": [1, {"x": 2}]}), 3),
            (json!({"l": [1, 2]}), json!({"l": [2]}), 1),
            (json!({"a": null, "b": "x"}), json!({"a": {}, "b": ["x"]}), 2),
        ] {
            let operations = compute_patch(&from, &to);
            assert_eq!(operations.len(), count, "{from} {to}");
            let mut patched = from.clone();
            for operation in &operations {
                let (name, path) = (operation.action.name(), operation.pointer.as_str());
                let value = operation.action.value();
                apply_operation(&mut patched, JsonPatchOperation { name, path, value }).unwrap();
            }
            assert!(compute_patch(&patched, &to).is_empty(), "{from} {to}");
        }
    }
}
