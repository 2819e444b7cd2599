//! Completes an object: normalized, and with every default.

use serde_json::Value;

use super::defaults;
use super::kinds::ResourceKind;
use super::normalization::normalize_stored;

/// Completes an object. Fields that its kind does not declare are dropped.
pub fn complete_object(kind: &ResourceKind, object: Value) -> Value {
    // An empty `managedFields` clears the owners; an absent one keeps them.
    let owners = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let clears_owners = owners.is_some_and(Vec::is_empty);
    let mut stored = match &kind.custom {
        Some(custom) => custom.apply_schema(object),
        None => complete_builtin(kind, object),
    };
    if clears_owners && let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), Value::Array(Vec::new()));
    }
    stored
}

fn complete_builtin(kind: &ResourceKind, mut object: Value) -> Value {
    // No schema declares these two fields.
    let names = ["kind", "apiVersion"]
        .map(|key| Some((key, object.as_object_mut().and_then(|map| map.shift_remove(key))?)));
    normalize_stored(&kind.schema, &mut object);
    defaults::apply_defaults(&kind.kind, &mut object);
    if let Some(map) = object.as_object_mut() {
        for (key, value) in names.into_iter().flatten() {
            map.shift_insert(0, key.to_owned(), value);
        }
    }
    object
}
