//! Merge patches and strategic merge patches.
//!
//! Facts: RFC 7386, and the directives of Kubernetes' strategic merge patch. JSON patches are in
//! [`federate_kubernetes::patch`].

use serde_json::{Map, Value};

use super::schema::{ListType, Type};

/// The document after a merge patch (RFC 7386): null removes, mappings are merged, all else replaces.
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

/// The document after a strategic merge patch: lists of items with keys are merged by key.
///
/// `Err` says what is wrong with a directive.
pub fn apply_strategic_patch(ty: &Type, document: &Value, patch: &Value) -> Result<Value, String> {
    let Value::Object(changes) = patch else { return Ok(patch.clone()) };
    let mut merged = document.as_object().cloned().unwrap_or_default();
    match changes.get("$patch").and_then(Value::as_str) {
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
            sort_by_order(&mut items, old, order.unwrap_or(changes), &|item| Some(item.clone()));
            Ok(Value::Array(items))
        }
        (_, Value::Object(map)) => {
            if map.get("$patch").and_then(Value::as_str) == Some("delete") {
                return Ok(Value::Null);
            }
            apply_strategic_patch(ty, old, change)
        }
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
    let directive = |change: &Value| change.get("$patch").and_then(Value::as_str).map(str::to_owned);
    if changes.iter().any(|c| directive(c).as_deref() == Some("replace")) {
        let rest = changes.iter().filter(|c| directive(c).is_none()).cloned();
        return Ok(rest.collect());
    }
    let mut items = old.as_array().cloned().unwrap_or_default();
    for change in changes {
        let Some(mark) = change.get(key) else {
            return Err(format!("map: {change} does not contain declared merge key: {key}"));
        };
        if directive(change).as_deref() == Some("delete") {
            items.retain(|item| item.get(key) != Some(mark));
            continue;
        }
        match items.iter_mut().find(|item| item.get(key) == Some(mark)) {
            Some(item) => *item = apply_strategic_patch(ty, item, change)?,
            None => items.push(apply_strategic_patch(ty, &Value::Null, change)?),
        }
    }
    let given: Vec<Value> = changes.iter().filter(|c| directive(c).is_none()).cloned().collect();
    sort_by_order(&mut items, old, order.unwrap_or(&given), &|item| item.get(key).cloned());
    Ok(Value::Array(items))
}

/// Sorts the items that an order names. An item that it does not name precedes the first item that it preceded in the
/// old list.
fn sort_by_order(
    items: &mut Vec<Value>,
    old: &Value,
    order: &[Value],
    mark: &dyn Fn(&Value) -> Option<Value>,
) {
    let place = |item: &Value| order.iter().position(|o| mark(o).is_some() && mark(o) == mark(item));
    let was = |item: &Value| {
        let old = old.as_array().map_or(&[][..], Vec::as_slice);
        old.iter().position(|o| mark(o) == mark(item))
    };
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        items.drain(..).partition(|item| place(item).is_some());
    named.sort_by_key(&place);
    let mut others = others.into_iter().peekable();
    for item in named {
        while let (Some(other), Some(mine)) = (others.peek(), was(&item)) {
            if was(other).is_none_or(|other| other > mine) {
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
