//! Restores empty maps and lists in results. Lua does not distinguish them.
//!
//! Facts: an empty table becomes a map where an argument of the script has an empty map at the same path, else
//! a list where an argument has an empty list there; everywhere else it is removed. A path consists of keys,
//! without the indices of items: an empty item of a list has the path of the list.

use serde_json::{Map, Value};

/// The type of a result that is an empty table as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyTable {
    /// A mapping.
    Map,
    /// A list.
    List,
}

/// Restores the empty tables of a result, which are empty lists, by the arguments of the script.
pub fn repair(result: &mut Value, whole: EmptyTable, references: &[&Value]) {
    if is_empty(result) {
        *result = match whole {
            EmptyTable::Map => Value::Object(Map::new()),
            EmptyTable::List => Value::Array(Vec::new()),
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

/// Restores a value; returns whether it stays.
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

/// Whether there is such a value at a path.
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
        repair(&mut result, EmptyTable::Map, references);
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
