//! An object as it is stored: in the server's own form and with every default.

use serde_json::Value;

use super::canonical::canonical;
use super::defaults;
use super::kinds::Kind;

/// Completes an object. What its kind does not declare is dropped.
pub fn complete(kind: &Kind, object: &Value) -> Value {
    if let Some(custom) = &kind.custom {
        return custom.complete(object);
    }
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
