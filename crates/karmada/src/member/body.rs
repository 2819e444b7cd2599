//! Access to the maps in the body of a manifest.

use serde_json::{Map, Value};

/// A field of the wrong type, or a script that failed.
#[derive(Debug, Default)]
pub struct RetainFailure {
    /// Why, where a script says so.
    pub why: Option<String>,
}

/// The map at a path, created if it is missing; `None` where the path leads through another type.
pub(super) fn ensure_object<'b>(body: &'b mut Value, path: &[&str]) -> Option<&'b mut Map<String, Value>> {
    let mut target = body;
    for key in path {
        if target.is_null() {
            *target = Value::Object(Map::new());
        }
        target = target.as_object_mut()?.entry(*key).or_insert(Value::Null);
    }
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    target.as_object_mut()
}
