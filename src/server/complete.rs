//! An object as it is stored: in the server's own form and with every default.

use serde_json::Value;

use super::canonical::canonical;
use super::defaults;
use super::kinds::Kind;

/// Completes an object. What its kind does not declare is dropped.
pub fn complete(kind: &Kind, object: &Value) -> Value {
    let mut stored = match &kind.custom {
        Some(custom) => custom.complete(object),
        None => builtin(kind, object),
    };
    // An empty list of owners means that they are to be forgotten; none at all, that they stay.
    let owners = object
        .pointer("/metadata/managedFields")
        .filter(|owners| owners.as_array().is_some_and(Vec::is_empty));
    if let (Some(owners), Some(metadata)) =
        (owners, stored.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("managedFields".to_owned(), owners.clone());
    }
    stored
}

fn builtin(kind: &Kind, object: &Value) -> Value {
    let mut stored = canonical(&kind.schema, object);
    defaults::fill(&kind.kind, &mut stored);
    if let (Some(stored), Some(given)) = (stored.as_object_mut(), object.as_object()) {
        for key in ["kind", "apiVersion"] {
            if let Some(value) = given.get(key) {
                stored.shift_insert(0, key.to_owned(), value.clone());
            }
        }
    }
    stored
}
