//! Merges the values of one object into another without a schema.

use serde_json::Value;

/// The fields of `shape` with their values in `values`; fields that `values` does not have are removed.
pub(super) fn project_values(shape: &Value, values: &Value) -> Value {
    match (shape, values) {
        (Value::Object(shape), Value::Object(values)) => shape
            .iter()
            .filter_map(|(key, shape)| Some((key.clone(), project_values(shape, values.get(key)?))))
            .collect(),
        // Named items that are not in `shape` belong to others.
        (Value::Array(shape), Value::Array(values))
            if has_unique_names(shape) && has_unique_names(values) =>
        {
            shape.iter().filter_map(|item| Some(project_values(item, find_named(values, item)?))).collect()
        }
        _ => values.clone(),
    }
}

/// Whether the items of a list have names of their own.
fn has_unique_names(list: &[Value]) -> bool {
    let names: Option<std::collections::BTreeSet<&str>> =
        list.iter().map(|item| item.get("name")?.as_str()).collect();
    names.is_some_and(|names| names.len() == list.len())
}

/// The item with the same name.
fn find_named<'v>(items: &'v [Value], item: &Value) -> Option<&'v Value> {
    items.iter().find(|other| other.get("name") == item.get("name"))
}

/// An object with the fields of `values` replaced.
pub(super) fn overlay_values(object: &Value, values: &Value) -> Value {
    match (object, values) {
        (Value::Object(object), Value::Object(values)) => {
            let mut all = object.clone();
            for (key, value) in values {
                let under = object.get(key).unwrap_or(&Value::Null);
                all.insert(key.clone(), overlay_values(under, value));
            }
            Value::Object(all)
        }
        (Value::Array(object), Value::Array(values))
            if has_unique_names(object) && has_unique_names(values) =>
        {
            let others = object.iter().filter(|item| find_named(values, item).is_none()).cloned();
            let items = values.iter().map(|item| match find_named(object, item) {
                Some(under) => overlay_values(under, item),
                None => item.clone(),
            });
            items.chain(others).collect()
        }
        _ => values.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_replace_fields_and_items_of_the_same_name() {
        let live = json!({"a": 1, "list": [{"name": "x", "image": "1", "more": true}, {"name": "y"}], "set": [1, 2]});
        let sent = json!({"b": 2, "list": [{"name": "x", "image": "2"}], "set": [3]});
        assert_eq!(
            overlay_values(&live, &sent),
            json!({"a": 1, "b": 2, "list": [{"name": "x", "image": "2", "more": true}, {"name": "y"}], "set": [3]})
        );
        assert_eq!(project_values(&sent, &overlay_values(&live, &sent)), sent);
    }
}
