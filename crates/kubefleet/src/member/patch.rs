//! Client-side apply: the patch that applies a manifest to the live object and keeps what others have added.
//!
//! Facts: a three-way merge. Fields that were sent last time and are not sent now are removed. Fields that are
//! sent replace live ones. All others stay. Lists of built-in kinds whose items have keys are merged item by
//! item.

use serde_json::{Map, Value, json};

use federate_apiserver_model::schema::{ListType, Type};

/// The patch from `current` to `modified`, given what was sent last time.
pub(super) fn three_way_patch(
    ty: &Type,
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Map<String, Value> {
    let mut patch = Map::new();
    let empty = Map::new();
    let old = original.as_object().unwrap_or(&empty);
    let now = current.as_object().unwrap_or(&empty);
    let sent = modified.as_object().unwrap_or(&empty);
    for (key, value) in sent {
        let below = ty.at_path(&[key]).unwrap_or(&Type::Any);
        let before = old.get(key).unwrap_or(&Value::Null);
        match (value, now.get(key)) {
            (Value::Null, Some(_)) => drop(patch.insert(key.clone(), Value::Null)),
            (Value::Null, None) => {}
            (Value::Object(_), Some(found @ Value::Object(_))) => {
                let change = three_way_patch(below, before, value, found);
                if !change.is_empty() {
                    patch.insert(key.clone(), with_retained_keys(key, ty, change, value));
                }
            }
            (Value::Array(items), Some(Value::Array(found))) => {
                patch_list(key, below, before, items, found, &mut patch);
            }
            (_, found) if found == Some(value) => {}
            _ => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    for key in old.keys().filter(|key| !sent.contains_key(*key) && now.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

/// A union, which keeps only the fields that are sent.
fn with_retained_keys(key: &str, ty: &Type, mut change: Map<String, Value>, sent: &Value) -> Value {
    let is_union = key == "strategy" && ty.at_path(&["progressDeadlineSeconds"]).is_some();
    if is_union {
        change.insert("$retainKeys".to_owned(), list_keys(sent));
    }
    Value::Object(change)
}

fn list_keys(sent: &Value) -> Value {
    sent.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect()
}

/// The patch of a list.
fn patch_list(
    name: &str,
    ty: &Type,
    before: &Value,
    sent: &[Value],
    found: &[Value],
    patch: &mut Map<String, Value>,
) {
    let before = before.as_array().map_or(&[][..], Vec::as_slice);
    match ty.resolve_name() {
        Type::List { item, list_type: ListType::Keys(keys) } => {
            let key = keys.first().map_or("name", String::as_str);
            if sent.iter().all(|one| one.get(key).is_some()) {
                return patch_keyed_list(name, item, key, before, sent, found, patch);
            }
        }
        Type::List { list_type: ListType::Set, .. } => {
            let gone: Vec<&Value> = before.iter().filter(|one| !sent.contains(one)).collect();
            if !gone.is_empty() {
                patch.insert(format!("$deleteFromPrimitiveList/{name}"), json!(gone));
            }
            let new: Vec<&Value> = sent.iter().filter(|one| !found.contains(one)).collect();
            if !new.is_empty() {
                patch.insert(name.to_owned(), json!(new));
            }
            return;
        }
        _ => {}
    }
    if sent != found {
        patch.insert(name.to_owned(), json!(sent));
    }
}

/// The index of the item of a list that has the same merge key.
fn position_of_item(list: &[Value], key: &str, item: &Value) -> Option<usize> {
    list.iter().position(|other| other.get(key) == item.get(key))
}

/// The patch of a list whose items have a merge key.
fn patch_keyed_list(
    name: &str,
    item: &Type,
    key: &str,
    before: &[Value],
    sent: &[Value],
    found: &[Value],
    patch: &mut Map<String, Value>,
) {
    let mut changes = Vec::new();
    for one in sent {
        let Some(there) = position_of_item(found, key, one).and_then(|at| found.get(at)) else {
            changes.push(one.clone());
            continue;
        };
        let original =
            position_of_item(before, key, one).and_then(|at| before.get(at)).unwrap_or(&Value::Null);
        let mut change = three_way_patch(item, original, one, there);
        if !change.is_empty() {
            if name == "volumes" {
                change.insert("$retainKeys".to_owned(), list_keys(one));
            }
            change.insert(key.to_owned(), one[key].clone());
            changes.push(Value::Object(change));
        }
    }
    let gone = before.iter().filter(|one| {
        position_of_item(sent, key, one).is_none() && position_of_item(found, key, one).is_some()
    });
    changes.extend(gone.map(|one| json!({"$patch": "delete", key: one[key]})));
    let places: Vec<usize> = sent.iter().filter_map(|one| position_of_item(found, key, one)).collect();
    if changes.is_empty() && places.is_sorted() {
        return;
    }
    let order: Vec<Value> = sent.iter().map(|one| json!({ key: one[key] })).collect();
    patch.insert(format!("$setElementOrder/{name}"), Value::Array(order));
    if !changes.is_empty() {
        patch.insert(name.to_owned(), Value::Array(changes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use federate_apiserver_model::ResourceKind;
    use federate_apiserver_model::patches;

    #[test]
    fn what_others_added_stays_and_what_is_not_sent_any_more_goes() {
        let original = json!({"spec": {"a": 1, "gone": 1}});
        let modified = json!({"spec": {"a": 2, "l": [1]}});
        let current = json!({"spec": {"a": 1, "gone": 1, "own": 1, "l": [2, 3]}});
        let patch = three_way_patch(&Type::Any, &original, &modified, &current);
        assert_eq!(Value::Object(patch.clone()), json!({"spec": {"a": 2, "l": [1], "gone": null}}));
        let merged = patches::apply_merge_patch(&current, &Value::Object(patch));
        assert_eq!(merged, json!({"spec": {"a": 2, "own": 1, "l": [1]}}));
    }

    #[test]
    fn containers_are_merged_by_name() {
        let kind = ResourceKind::find_builtin("v1", "Pod").unwrap();
        let pod = |containers: Value| json!({"spec": {"containers": containers}});
        let original = pod(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]));
        let modified = pod(json!([{"name": "a", "image": "2"}]));
        let current = pod(json!([
            {"name": "a", "image": "1", "tty": true}, {"name": "b", "image": "1"}, {"name": "own", "image": "1"}
        ]));
        let patch = Value::Object(three_way_patch(&kind.schema, &original, &modified, &current));
        let merged = patches::apply_strategic_patch(&kind.schema, &current, &patch).unwrap();
        let want = pod(json!([{"name": "a", "image": "2", "tty": true}, {"name": "own", "image": "1"}]));
        assert_eq!(merged, want);
        assert!(three_way_patch(&kind.schema, &modified, &modified, &merged).is_empty());
    }
}
