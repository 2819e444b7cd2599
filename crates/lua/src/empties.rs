//! Empty maps and lists, which Lua cannot tell apart, after the result has come back as JSON.
//!
//! Facts: an empty table is a map again where an object that the script was given has an empty map in that
//! place, else a list where it has an empty list there; everywhere else it is taken out. A place is the path
//! of keys, without the numbers of items: an empty item of a list counts for the list's place.

use serde_json::{Map, Value};

/// What an empty table is that is the whole result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// A mapping.
    Map,
    /// A list.
    List,
}

/// Repairs the empty tables of a result, which are empty lists, by the objects that the script was given.
pub fn repair(result: &mut Value, whole: Whole, references: &[&Value]) {
    if is_empty(result) {
        *result = match whole {
            Whole::Map => Value::Object(Map::new()),
            Whole::List => Value::Array(Vec::new()),
        };
        return;
    }
    below(result, &mut Vec::new(), references);
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn below(value: &mut Value, path: &mut Vec<String>, references: &[&Value]) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            path.push(key.clone());
            let stays = stays(value, path, references);
            path.pop();
            stays
        }),
        Value::Array(items) => items.retain_mut(|item| stays(item, path, references)),
        _ => {}
    }
}

/// Whether a value stays, in the form that it should have.
fn stays(value: &mut Value, path: &mut Vec<String>, references: &[&Value]) -> bool {
    if !is_empty(value) {
        below(value, path, references);
        return true;
    }
    let known = |what: fn(&Value) -> bool| references.iter().any(|reference| has(reference, path, what));
    if known(|value| value.as_object().is_some_and(Map::is_empty)) {
        *value = Value::Object(Map::new());
        return true;
    }
    known(is_empty)
}

/// Whether there is such a value in a place.
fn has(value: &Value, path: &[String], what: fn(&Value) -> bool) -> bool {
    if let Value::Array(items) = value {
        return path.is_empty() && what(value) || items.iter().any(|item| has(item, path, what));
    }
    match path.split_first() {
        None => what(value),
        Some((key, rest)) => value.get(key).is_some_and(|below| has(below, rest, what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn repaired(mut result: Value, references: &[&Value]) -> Value {
        repair(&mut result, Whole::Map, references);
        result
    }

    #[test]
    fn empties_are_what_they_were() {
        let given = json!({"a": {}, "b": [], "list": [{"c": {}}, {"d": 1}], "items": [1, {}]});
        let result = json!({"a": [], "b": [], "fresh": [], "list": [{"c": []}, {"d": []}], "items": [[], 2]});
        let want = json!({"a": {}, "b": [], "list": [{"c": {}}, {}], "items": [{}, 2]});
        assert_eq!(repaired(result, &[&given]), want);
        assert_eq!(repaired(json!({"a": {"b": []}}), &[]), json!({"a": {}}));
        assert_eq!(repaired(json!([]), &[]), json!({}));
    }
}
