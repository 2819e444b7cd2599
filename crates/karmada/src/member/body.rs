//! The maps in the body of a manifest, as they are written to.

use serde_json::{Map, Value};

/// A field that does not fit, or a script that has no answer.
#[derive(Debug, Default)]
pub struct Unretained {
    /// Why, where a script says so.
    pub why: Option<String>,
}

/// The map at a path, made if need be; `None` where something else is in the way.
pub(super) fn object<'b>(body: &'b mut Value, path: &[&str]) -> Option<&'b mut Map<String, Value>> {
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
