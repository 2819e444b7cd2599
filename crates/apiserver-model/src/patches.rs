//! Merge patches and strategic merge patches.
//!
//! Facts: RFC 7386, and the directives of Kubernetes' strategic merge patch. JSON patches are in
//! [`federate_kubernetes::patch`].

use serde_json::{Map, Value};

use super::schema::{ListType, Type};

/// Applies a merge patch (RFC 7386): null removes a field, mappings are merged, other values are replaced.
pub fn apply_merge_patch(document: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut merged = document.as_object().cloned().unwrap_or_default();
    for (key, change) in changes {
        if change.is_null() {
            merged.shift_remove(key);
        } else {
            let old = merged.get(key).cloned().unwrap_or_default();
            merged.insert(key.clone(), apply_merge_patch(&old, change));
        }
    }
    Value::Object(merged)
}

/// Applies a strategic merge patch, which merges lists of items with keys by key.
///
/// # Errors
///
/// A directive is invalid.
pub fn apply_strategic_patch(ty: &Type, document: &Value, patch: &Value) -> Result<Value, String> {
    let Value::Object(changes) = patch else { return Ok(patch.clone()) };
    let mut merged = document.as_object().cloned().unwrap_or_default();
    match find_directive(patch) {
        Some("replace") => {
            let mut replaced = changes.clone();
            replaced.shift_remove("$patch");
            return Ok(Value::Object(replaced));
        }
        Some("delete") => return Ok(Value::Object(Map::new())),
        Some("merge") | None => {}
        Some(other) => return Err(format!("Unknown patch type found: {other}")),
    }
    if let Some(kept) = changes.get("$retainKeys").and_then(Value::as_array) {
        merged.retain(|key, _| kept.iter().any(|k| k == key));
    }
    let parts = ty.parts();
    for (key, change) in changes {
        if let Some(field) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(list), Some(gone)) =
                (merged.get_mut(field).and_then(Value::as_array_mut), change.as_array())
            {
                list.retain(|item| !gone.contains(item));
            }
        } else if !key.starts_with('$') {
            let below = parts.and_then(|p| p.get(key)).unwrap_or(&Type::Any);
            if change.is_null() {
                merged.shift_remove(key);
                continue;
            }
            let order = changes.get(&format!("$setElementOrder/{key}")).and_then(Value::as_array);
            let old = merged.get(key).cloned().unwrap_or_default();
            let new =
                if is_replaced(ty, key) { change.clone() } else { patch_field(below, &old, change, order)? };
            if new == Value::Null {
                merged.shift_remove(key);
            } else {
                merged.insert(key.clone(), new);
            }
        }
    }
    // `$setElementOrder` may be about a list that is otherwise unchanged.
    for (key, order) in changes {
        if let (Some(name), Some(order)) = (key.strip_prefix("$setElementOrder/"), order.as_array())
            && !changes.contains_key(name)
            && let Some(list) = merged.get(name).cloned()
        {
            let below = parts.and_then(|p| p.get(name)).unwrap_or(&Type::Any);
            merged
                .insert(name.to_owned(), patch_field(below, &list, &Value::Array(Vec::new()), Some(order))?);
        }
    }
    Ok(Value::Object(merged))
}

/// The directive of a mapping in a patch: `merge`, `replace` or `delete`.
fn find_directive(change: &Value) -> Option<&str> {
    change.get("$patch")?.as_str()
}

/// Whether a field is replaced although it could be merged.
fn is_replaced(ty: &Type, key: &str) -> bool {
    matches!(ty, Type::Named("PodDisruptionBudgetSpec")) && key == "selector"
}

fn patch_field(ty: &Type, old: &Value, change: &Value, order: Option<&Vec<Value>>) -> Result<Value, String> {
    match (ty.resolve_name(), change) {
        (Type::List { item, list_type: ListType::Keys(keys) }, Value::Array(changes)) => {
            let key = keys.first().map_or("name", String::as_str);
            patch_list(item, key, old, changes, order)
        }
        (Type::List { list_type: ListType::Set, .. }, Value::Array(changes)) => {
            let mut items = old.as_array().cloned().unwrap_or_default();
            for change in changes {
                if !items.contains(change) {
                    items.push(change.clone());
                }
            }
            sort_by_order(&mut items, old, order.unwrap_or(changes), None);
            Ok(Value::Array(items))
        }
        (_, Value::Object(_)) if find_directive(change) == Some("delete") => Ok(Value::Null),
        (_, Value::Object(_)) => apply_strategic_patch(ty, old, change),
        _ => Ok(change.clone()),
    }
}

fn patch_list(
    ty: &Type,
    key: &str,
    old: &Value,
    changes: &[Value],
    order: Option<&Vec<Value>>,
) -> Result<Value, String> {
    if changes.iter().any(|change| find_directive(change) == Some("replace")) {
        let rest = changes.iter().filter(|change| find_directive(change).is_none()).cloned();
        return Ok(rest.collect());
    }
    let mut items = old.as_array().cloned().unwrap_or_default();
    for change in changes {
        let Some(mark) = change.get(key) else {
            return Err(format!("map: {change} does not contain declared merge key: {key}"));
        };
        if find_directive(change) == Some("delete") {
            items.retain(|item| item.get(key) != Some(mark));
            continue;
        }
        match items.iter_mut().find(|item| item.get(key) == Some(mark)) {
            Some(item) => *item = apply_strategic_patch(ty, item, change)?,
            None => items.push(apply_strategic_patch(ty, &Value::Null, change)?),
        }
    }
    let given: Vec<Value> =
        changes.iter().filter(|change| find_directive(change).is_none()).cloned().collect();
    sort_by_order(&mut items, old, order.unwrap_or(&given), Some(key));
    Ok(Value::Array(items))
}

/// What identifies an item of a list: its value below `key`, or the item itself without a key.
fn merge_key<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

/// The index of the first item with the same merge key.
fn position_of(item: &Value, list: &[Value], key: Option<&str>) -> Option<usize> {
    list.iter().position(|other| merge_key(other, key) == merge_key(item, key))
}

/// Sorts the items that an order names. An item that it does not name precedes the first item that it preceded in the
/// old list.
fn sort_by_order(items: &mut Vec<Value>, old: &Value, order: &[Value], key: Option<&str>) {
    let old = old.as_array().map_or(&[][..], Vec::as_slice);
    let (mut named, others): (Vec<Value>, Vec<Value>) = items
        .drain(..)
        .partition(|item| merge_key(item, key).is_some() && position_of(item, order, key).is_some());
    named.sort_by_key(|item| position_of(item, order, key));
    let mut others = others.into_iter().peekable();
    for item in named {
        let before = position_of(&item, old, key);
        while let (Some(other), Some(before)) = (others.peek(), before) {
            if position_of(other, old, key).is_none_or(|place| place > before) {
                break;
            }
            items.extend(others.next());
        }
        items.push(item);
    }
    items.extend(others);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::find_builtin;
    use serde_json::json;

    fn env(names: &[&str]) -> Value {
        let env: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": [{"name": "app", "env": env}]}})
    }

    fn patched(document: &Value, patch: &Value) -> Value {
        apply_strategic_patch(find_builtin("Pod").unwrap(), document, patch).unwrap()
    }

    #[test]
    fn what_a_patch_brings_stands_first() {
        assert_eq!(patched(&env(&["A"]), &env(&["B"])), env(&["B", "A"]));
        assert_eq!(patched(&env(&["A", "B"]), &env(&["B"])), env(&["A", "B"]));
    }

    #[test]
    fn directives() {
        let containers = |container: Value| json!({"spec": {"containers": [container]}});
        let gone = json!({"name": "app", "env": [{"name": "A", "$patch": "delete"}]});
        assert_eq!(patched(&env(&["A", "B"]), &containers(gone)), env(&["B"]));
        let turned = json!({"name": "app", "$setElementOrder/env": [{"name": "B"}, {"name": "A"}]});
        assert_eq!(patched(&env(&["A", "B"]), &containers(turned)), env(&["B", "A"]));
        let document = json!({"metadata": {"finalizers": ["a", "b"]}});
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}});
        assert_eq!(patched(&document, &patch), json!({"metadata": {"finalizers": ["c", "b"]}}));
        assert!(
            apply_strategic_patch(find_builtin("Pod").unwrap(), &document, &json!({"$patch": "frob"}))
                .is_err()
        );
    }

    #[test]
    fn the_selector_of_a_budget_is_replaced() {
        let selector = |key: &str| json!({"spec": {"selector": {"matchLabels": {key: "1"}}}});
        let merged = |kind: &str| {
            apply_strategic_patch(find_builtin(kind).unwrap(), &selector("a"), &selector("b")).unwrap()
        };
        assert_eq!(merged("PodDisruptionBudget"), selector("b"));
        let both = json!({"spec": {"selector": {"matchLabels": {"a": "1", "b": "1"}}}});
        assert_eq!(merged("Deployment"), both);
    }

    #[test]
    fn merge_patches_remove_by_null() {
        let merged = apply_merge_patch(
            &json!({"a": {"b": 1, "c": 2}, "l": [1]}),
            &json!({"a": {"b": null}, "l": [2]}),
        );
        assert_eq!(merged, json!({"a": {"c": 2}, "l": [2]}));
    }
}
