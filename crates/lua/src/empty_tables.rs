//! Restores empty maps and lists in results. Lua does not distinguish them.
//!
//! Facts: an empty table becomes a map where an argument of the script has an empty map at the same path, else
//! a list where an argument has an empty list there; everywhere else it is removed. A path consists of keys,
//! without the indices of items: an empty item of a list has the path of the list.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{FailureCategory, ScriptFailure};

/// The type of a result that is an empty table as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyTable {
    /// A mapping.
    Map,
    /// A list.
    List,
}

/// How the path of an empty table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStyle {
    /// With keys as they are.
    Escaped,
    /// As texts with dots between keys, so that a key with dots counts as several keys: what is restored or removed is
    /// another value, or a new one.
    Unescaped,
}

/// Restores the empty tables of a result, which are empty lists, by the arguments of the script.
pub fn repair_empty_tables(
    result: &mut Value,
    whole: EmptyTable,
    references: &[&Value],
    paths: PathStyle,
) -> Result<(), ScriptFailure> {
    if is_empty(result) {
        *result = match whole {
            EmptyTable::Map => Value::Object(Map::new()),
            EmptyTable::List => Value::Array(Vec::new()),
        };
        return Ok(());
    }
    match paths {
        PathStyle::Escaped => restore_children(result, &mut Vec::new(), references),
        PathStyle::Unescaped => repair_by_texts(result, references)?,
    }
    Ok(())
}

/// The texts of the paths to empty values.
#[derive(Default)]
struct EmptyPaths {
    lists: BTreeSet<String>,
    maps: BTreeSet<String>,
}

impl EmptyPaths {
    /// Adds those below a value, whose own path is `prefix`. Items have the path of their list.
    fn add_paths(&mut self, value: &Value, prefix: &str) {
        match value {
            Value::Array(items) => {
                for item in items {
                    self.add_child(item, prefix.to_owned());
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    self.add_child(value, join_path(prefix, key));
                }
            }
            _ => {}
        }
    }

    fn add_child(&mut self, value: &Value, path: String) {
        match value {
            Value::Array(items) if items.is_empty() => drop(self.lists.insert(path)),
            Value::Object(map) if map.is_empty() => drop(self.maps.insert(path)),
            _ => self.add_paths(value, &path),
        }
    }
}

fn join_path(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Restores empty tables by paths that are texts.
fn repair_by_texts(result: &mut Value, references: &[&Value]) -> Result<(), ScriptFailure> {
    let mut known = EmptyPaths::default();
    for reference in references {
        known.add_paths(reference, "");
    }
    let (mut restored, mut removed) = (Vec::new(), Vec::new());
    collect_paths(result, ["", ""], &known, &mut restored, &mut removed);
    for path in restored {
        set_empty_map(result, &split_path(&path))?;
    }
    // Later items first, so that the indices of earlier ones stay valid.
    for path in removed.iter().rev() {
        remove_at(result, &split_path(path));
    }
    Ok(())
}

/// The paths, with indices of items, of the empty lists below a value that are to become maps or to be removed.
fn collect_paths(
    value: &Value,
    [path, with_indices]: [&str; 2],
    known: &EmptyPaths,
    restored: &mut Vec<String>,
    removed: &mut Vec<String>,
) {
    let mut visit = |path: &str, with_indices: String, value: &Value| {
        if !is_empty(value) {
            collect_paths(value, [path, &with_indices], known, restored, removed);
        } else if known.maps.contains(path) {
            restored.push(with_indices);
        } else if !known.lists.contains(path) {
            removed.push(with_indices);
        }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                visit(&join_path(path, key), join_path(with_indices, key), value);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(path, join_path(with_indices, &index.to_string()), item);
            }
        }
        _ => {}
    }
}

/// The steps of a path: what is between its dots. A colon in front says that a step is a key and no index.
fn split_path(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

/// The largest index that makes a new list: a path such as `v1.99` has one in it.
const MAX_ITEMS: usize = 10_000;

/// Sets an empty map at a path. Missing values are created: a list for an index, else a map.
fn set_empty_map(value: &mut Value, steps: &[&str]) -> Result<(), ScriptFailure> {
    let Some((step, rest)) = steps.split_first() else {
        *value = Value::Object(Map::new());
        return Ok(());
    };
    let key = step.strip_prefix(':').unwrap_or(step);
    let index = if key.is_empty() { None } else { step.parse::<usize>().ok() };
    if !value.is_object() && !value.is_array() {
        *value = if index.is_some() { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
    }
    match (value, index) {
        (Value::Object(map), _) => set_empty_map(map.entry(key).or_insert(Value::Null), rest),
        (Value::Array(items), Some(index)) if index <= MAX_ITEMS => {
            if items.len() <= index {
                items.resize(index + 1, Value::Null);
            }
            items.get_mut(index).map_or(Ok(()), |item| set_empty_map(item, rest))
        }
        _ => {
            let message = format!("cannot set an item of a list at the key `{key}`");
            Err(ScriptFailure::new(FailureCategory::Decode, message))
        }
    }
}

/// Removes the value at a path, if there is one.
fn remove_at(value: &mut Value, steps: &[&str]) {
    let Some((step, rest)) = steps.split_first() else { return };
    let key = step.strip_prefix(':').unwrap_or(step);
    match value {
        Value::Object(map) if rest.is_empty() => drop(map.shift_remove(key)),
        Value::Object(map) => map.get_mut(key).into_iter().for_each(|below| remove_at(below, rest)),
        Value::Array(items) => {
            let Some(index) = step.parse::<usize>().ok().filter(|index| *index < items.len()) else { return };
            if rest.is_empty() {
                items.remove(index);
            } else {
                items.get_mut(index).into_iter().for_each(|below| remove_at(below, rest));
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn restore_children(value: &mut Value, path: &mut Vec<String>, references: &[&Value]) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            path.push(key.clone());
            let stays = restore_or_drop(value, path, references);
            path.pop();
            stays
        }),
        Value::Array(items) => items.retain_mut(|item| restore_or_drop(item, path, references)),
        _ => {}
    }
}

/// Restores a value; returns whether it stays.
fn restore_or_drop(value: &mut Value, path: &mut Vec<String>, references: &[&Value]) -> bool {
    if !is_empty(value) {
        restore_children(value, path, references);
        return true;
    }
    let known =
        |what: fn(&Value) -> bool| references.iter().any(|reference| has_value_at(reference, path, what));
    if known(|value| value.as_object().is_some_and(Map::is_empty)) {
        *value = Value::Object(Map::new());
        return true;
    }
    known(is_empty)
}

/// Whether there is such a value at a path.
fn has_value_at(value: &Value, path: &[String], what: fn(&Value) -> bool) -> bool {
    if let Value::Array(items) = value {
        return path.is_empty() && what(value) || items.iter().any(|item| has_value_at(item, path, what));
    }
    match path.split_first() {
        None => what(value),
        Some((key, rest)) => value.get(key).is_some_and(|below| has_value_at(below, rest, what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn repaired(mut result: Value, references: &[&Value]) -> Value {
        repair_empty_tables(&mut result, EmptyTable::Map, references, PathStyle::Escaped).unwrap();
        result
    }

    fn repaired_by_texts(mut result: Value, references: &[&Value]) -> Value {
        repair_empty_tables(&mut result, EmptyTable::Map, references, PathStyle::Unescaped).unwrap();
        result
    }

    #[test]
    fn keys_with_dots_count_as_several_keys_where_paths_are_texts() {
        let given = json!({"conf": {"feature.flags": {}, "plain": {}}});
        let result = json!({"conf": {"feature.flags": [], "plain": []}});
        let want = json!({"conf": {"feature.flags": [], "plain": {}, "feature": {"flags": {}}}});
        assert_eq!(repaired_by_texts(result.clone(), &[&given]), want);
        assert_eq!(repaired(result, &[&given]), given);
        // What no argument has stays, because its path names nothing.
        let fresh = json!({"conf": {"a.b:c": [], "d": []}});
        assert_eq!(repaired_by_texts(fresh, &[&json!({})]), json!({"conf": {"a.b:c": []}}));
        let given = json!({"a": {"v1.2": {}}});
        let want = json!({"a": {"v1.2": [], "v1": [null, null, {}]}});
        assert_eq!(repaired_by_texts(json!({"a": {"v1.2": []}}), &[&given]), want);
        let same = json!({"a": {}, "b": [], "list": [{"c": {}}, {"d": 1}]});
        let result = json!({"a": [], "b": [], "fresh": [], "list": [{"c": []}, {"d": []}]});
        let want = json!({"a": {}, "b": [], "list": [{"c": {}}, {}]});
        assert_eq!(repaired_by_texts(result, &[&same]), want);
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
