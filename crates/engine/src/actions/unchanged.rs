//! Whether an object is as federate applied it last, by `managedFields` alone.
//!
//! This needs no schema: the API server has recorded the fields that federate owns, and the keys of list items.
//!
//! Facts: the format `FieldsV1`: `f:NAME` is a field, `k:KEYS` an item of a list by its keys, `v:VALUE` an item of a
//! set, `.` the value itself.

use serde_json::{Map, Value};

use super::MANAGER;

/// Whether an apply of `body` would leave `live` unchanged: federate owns the fields of `body` and no others, and
/// they have the same values. `false` also where that is not known.
pub(super) fn is_applied(live: &Value, body: &Value) -> bool {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let is = |entry: &Value, key: &str, value: &str| entry.get(key).is_some_and(|found| found == value);
    let own = entries.into_iter().flatten().find(|entry| {
        is(entry, "manager", MANAGER)
            && is(entry, "operation", "Apply")
            && entry.get("subresource").is_none_or(|name| name == "")
    });
    let Some(own) = own.filter(|entry| entry.get("apiVersion") == body.get("apiVersion")) else {
        return false;
    };
    let fields = own.get("fieldsV1").and_then(Value::as_object);
    fields.is_some_and(|fields| same(fields, live, &unnamed(body)))
}

/// An object without its type and name, which no manager owns.
fn unnamed(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(map) = body.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
            metadata.remove("namespace");
        }
    }
    body
}

fn same(fields: &Map<String, Value>, live: &Value, body: &Value) -> bool {
    let owned = || fields.iter().filter(|(key, _)| *key != ".");
    if owned().next().is_none() {
        return live == body;
    }
    match (live, body) {
        (Value::Object(live), Value::Object(body)) => {
            owned().count() == body.len()
                && body.iter().all(|(key, value)| {
                    let below = fields.get(&format!("f:{key}")).and_then(Value::as_object);
                    below.zip(live.get(key)).is_some_and(|(below, live)| same(below, live, value))
                })
        }
        (Value::Array(live), Value::Array(body)) => {
            owned().count() == body.len()
                && owned().all(|(key, below)| {
                    let Some(item) = Item::of(key) else { return false };
                    let find = |list: &'_ [Value]| list.iter().find(|value| item.is(value)).cloned();
                    let both = find(live).zip(find(body));
                    both.zip(below.as_object()).is_some_and(|((live, body), below)| same(below, &live, &body))
                })
        }
        _ => false,
    }
}

/// How an item of a list is identified.
enum Item {
    Keys(Map<String, Value>),
    Value(Value),
}

impl Item {
    fn of(key: &str) -> Option<Self> {
        let (sort, rest) = key.split_once(':')?;
        match (sort, serde_json::from_str(rest).ok()?) {
            ("k", Value::Object(keys)) => Some(Self::Keys(keys)),
            ("v", value) => Some(Self::Value(value)),
            _ => None,
        }
    }

    fn is(&self, item: &Value) -> bool {
        match self {
            Self::Keys(keys) => keys.iter().all(|(key, value)| item.get(key) == Some(value)),
            Self::Value(value) => item == value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live() -> Value {
        json!({"apiVersion": "v2", "kind": "Thing", "metadata": {"name": "a", "uid": "u", "labels": {"x": "1", "y": "2"},
            "managedFields": [{"manager": MANAGER, "operation": "Apply", "apiVersion": "v2", "fieldsV1": {
                "f:metadata": {"f:labels": {"f:x": {}}},
                "f:spec": {"f:new": {}, "f:list": {"k:{\"name\":\"p\"}": {".": {}, "f:name": {}, "f:port": {}}},
                    "f:set": {"v:\"s\"": {}}}}}]},
            "spec": {"new": {"deep": [1]}, "list": [{"name": "o"}, {"name": "p", "port": 1, "default": true}],
                "set": ["r", "s"], "default": 1}})
    }

    fn body() -> Value {
        json!({"apiVersion": "v2", "kind": "Thing", "metadata": {"name": "a", "labels": {"x": "1"}},
            "spec": {"new": {"deep": [1]}, "list": [{"name": "p", "port": 1}], "set": ["s"]}})
    }

    #[test]
    fn an_applied_object_is_unchanged_until_a_value_or_a_field_differs() {
        assert!(is_applied(&live(), &body()));
        let with = |pointer: &str, value: Value| {
            let mut body = body();
            *body.pointer_mut(pointer).unwrap() = value;
            is_applied(&live(), &body)
        };
        assert!(!with("/apiVersion", json!("v1")), "another version may have other fields");
        assert!(!with("/spec/new", json!({"deep": [2]})));
        assert!(!with("/spec/list", json!([{"name": "p"}])), "a field that is no longer rendered");
        assert!(!with("/spec/list", json!([])));
        assert!(!with("/spec/set", json!(["t"])));
        assert!(!with("/metadata/labels", json!({"x": "1", "y": "2"})), "one that federate does not own yet");
        assert!(!is_applied(&json!({"apiVersion": "v2"}), &body()), "without managedFields nothing is known");
    }
}
