//! Objects with values that are not known, because what holds the values is encrypted or not in the repo.
//!
//! Such an object is marked by an annotation. It is only looked at: commands that write, publish or send refuse to build it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The annotation that names the values.
const UNFILLED_ANNOTATION: &str = "federate.dev/unfilled";

/// What separates the names in it.
const SEPARATOR: &str = ", ";

/// The names of the values of an object that are not known; none if all are.
pub fn list_unfilled(body: &Value) -> BTreeSet<&str> {
    let names =
        body.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(UNFILLED_ANNOTATION));
    let names = names.and_then(Value::as_str).unwrap_or_default().split(SEPARATOR);
    names.filter(|name| !name.is_empty()).collect()
}

/// Marks an object as one with values that are not known.
pub fn mark_unfilled<'n>(body: &mut Value, names: impl IntoIterator<Item = &'n str>) {
    let mut all: BTreeSet<String> = list_unfilled(body).into_iter().map(str::to_owned).collect();
    all.extend(names.into_iter().map(str::to_owned));
    let mut at = body;
    for key in ["metadata", "annotations"] {
        let Some(map) = at.as_object_mut().filter(|_| !all.is_empty()) else { return };
        let below = map.entry(key).or_insert(Value::Null);
        if !below.is_object() {
            *below = Value::Object(Map::new());
        }
        at = below;
    }
    let names: Vec<String> = all.into_iter().collect();
    if let Some(annotations) = at.as_object_mut() {
        annotations.insert(UNFILLED_ANNOTATION.to_owned(), names.join(SEPARATOR).into());
    }
}

/// Whether a text stands for a value that is not known, or contains one.
pub fn holds_variable(text: &str) -> bool {
    text.contains("${")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_joined() {
        let mut body = json!({"kind": "A", "metadata": {"name": "a", "annotations": null}});
        mark_unfilled(&mut body, []);
        assert!(list_unfilled(&body).is_empty() && body["metadata"]["annotations"].is_null());
        mark_unfilled(&mut body, ["B"]);
        mark_unfilled(&mut body, ["A", "B"]);
        assert_eq!(list_unfilled(&body), ["A", "B"].into());
        assert_eq!(body["metadata"]["annotations"], json!({"federate.dev/unfilled": "A, B"}));
    }
}
