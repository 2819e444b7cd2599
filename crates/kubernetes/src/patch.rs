//! Operations on JSON documents: pointers, JSON patches, and the paths at which two documents differ.
//!
//! The `json-patch` crate follows RFC 6902 exactly. Control planes do not: they count negative list indices
//! from the end, accept `+1` and `01` as indices, and ignore the text before the first `/` of a path. They
//! need few operations, which are implemented here. [`PatchRules`] describes where control planes differ from each
//! other.

use serde_json::Value;

use crate::pointer::{escape, unescape};
use crate::work;

/// The steps of an operation, besides those of its value and of the items that it moves.
const STEPS_OF_OPERATION: u64 = 10;
/// How many items of a list are looked at in the time in which one is moved.
const MOVE_COST: usize = 3;

/// Why an operation fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not begin with `/`.
    #[error("`{0}` is not a path: it must begin with `/`")]
    NotAPath(String),
    /// The parent of the target does not exist, or is not a mapping or list.
    #[error("the value at `{0}` does not exist or is neither a mapping nor a list")]
    NoParent(String),
    /// The value to remove or replace does not exist.
    #[error("there is no value at `{0}`")]
    Missing(String),
    /// A list index that is not a number or is out of range.
    #[error("`{index}` is not a valid index of the list at `{path}`, which has {length} items")]
    Index {
        /// The index as given.
        index: String,
        /// The list.
        path: String,
        /// Its length.
        length: usize,
    },
    /// The operation is not add, remove or replace.
    #[error("`{0}` is not an operation: use add, remove or replace")]
    Operation(String),
    /// A `test` found another value.
    #[error("the value at `{0}` differs from the value in the test")]
    Test(String),
    /// The decision has taken more work than it may.
    #[error("it takes too much work")]
    TooMuchWork,
    /// The whole document cannot be added.
    #[error("an empty path means the whole document, which can only be replaced")]
    Whole,
}

/// How implementations of JSON patches differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchRules {
    /// A replaced value must exist, but for the empty key of a mapping; the whole document can be added and replaced; there is no `test`.
    #[default]
    Exact,
    /// Replacing a missing key of a mapping adds it; the whole document can only be replaced; `test`
    /// compares, and treats a missing key as null.
    Lenient,
}

/// One operation of a JSON patch.
#[derive(Clone, Copy, Debug)]
pub struct JsonPatchOperation<'o> {
    /// `add`, `remove` or `replace`.
    pub name: &'o str,
    /// A JSON pointer.
    pub path: &'o str,
    /// The value to add or to replace with; null if missing.
    pub value: Option<&'o Value>,
}

/// The unescaped tokens of a JSON pointer. The text before the first `/` is ignored.
pub fn parse_pointer(path: &str) -> Result<Vec<String>, Error> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let (_, rest) = path.split_once('/').ok_or_else(|| Error::NotAPath(path.to_owned()))?;
    Ok(rest.split('/').map(|step| unescape(step).into_owned()).collect())
}

/// The value at these tokens.
pub fn find_value<'v>(value: &'v Value, tokens: &[String]) -> Option<&'v Value> {
    tokens.iter().try_fold(value, |value, token| match value {
        Value::Object(map) => map.get(token),
        Value::Array(items) => items.get(parse_index(token, items.len())?),
        _ => None,
    })
}

/// The value at these tokens, to be changed.
pub fn find_value_mut<'v>(value: &'v mut Value, tokens: &[String]) -> Option<&'v mut Value> {
    tokens.iter().try_fold(value, |value, token| match value {
        Value::Object(map) => map.get_mut(token),
        Value::Array(items) => {
            let at = parse_index(token, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    })
}

/// A list index, counted from the end if negative; `None` unless it is below `length`.
pub fn parse_index(token: &str, length: usize) -> Option<usize> {
    let index: i64 = token.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let index = if index < 0 { index + length } else { index };
    (0..length).contains(&index).then(|| usize::try_from(index).ok()).flatten()
}

/// Applies one operation; on error, the document is unchanged.
pub fn apply_operation(document: &mut Value, operation: JsonPatchOperation<'_>) -> Result<(), Error> {
    apply_by(PatchRules::Exact, document, operation)
}

/// Applies one operation by other rules.
pub fn apply_by(
    rules: PatchRules,
    document: &mut Value,
    operation: JsonPatchOperation<'_>,
) -> Result<(), Error> {
    let path = operation.path;
    work::charge_steps(STEPS_OF_OPERATION);
    operation.value.iter().for_each(|value| work::charge_value(value));
    if work::is_exceeded() {
        return Err(Error::TooMuchWork);
    }
    let tokens = parse_pointer(path)?;
    let lenient = rules == PatchRules::Lenient;
    let value = operation.value.unwrap_or(&Value::Null);
    let Some((last, parents)) = tokens.split_last() else {
        return match operation.name {
            "add" if lenient => Err(Error::Whole),
            "add" | "replace" => {
                *document = value.clone();
                Ok(())
            }
            "remove" => Err(Error::Missing(path.to_owned())),
            "test" if lenient => test_value(Some(document), value, path),
            other => Err(Error::Operation(other.to_owned())),
        };
    };
    let parent = find_value_mut(document, parents).ok_or_else(|| Error::NoParent(path.to_owned()))?;
    match operation.name {
        "add" => add_value(parent, last, value.clone(), path),
        "replace" if lenient && parent.is_object() => add_value(parent, last, value.clone(), path),
        "test" if lenient => {
            let found = find_value(parent, std::slice::from_ref(last));
            match &*parent {
                Value::Array(items) if found.is_none() => Err(index_error(last, path, items.len())),
                _ => test_value(found, value, path),
            }
        }
        // The key is taken to name the mapping itself, which exists.
        "replace" if last.is_empty() && parent.is_object() => add_value(parent, last, value.clone(), path),
        "replace" => {
            let target = find_value_mut(parent, std::slice::from_ref(last))
                .ok_or_else(|| Error::Missing(path.to_owned()))?;
            *target = value.clone();
            Ok(())
        }
        "remove" => remove_value(parent, last, path),
        other => Err(Error::Operation(other.to_owned())),
    }
}

fn test_value(found: Option<&Value>, wanted: &Value, path: &str) -> Result<(), Error> {
    let same = are_equal(found.unwrap_or(&Value::Null), wanted);
    if same { Ok(()) } else { Err(Error::Test(path.to_owned())) }
}

/// Whether two values are equal; numbers are compared by value.
fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| are_equal(a, b)))
        }
        _ => a == b,
    }
}

fn add_value(parent: &mut Value, token: &str, value: Value, path: &str) -> Result<(), Error> {
    match parent {
        Value::Object(map) => {
            map.insert(token.to_owned(), value);
            Ok(())
        }
        Value::Array(items) => {
            let at = if token == "-" { Some(items.len()) } else { parse_index(token, items.len() + 1) };
            let at = at.ok_or_else(|| index_error(token, path, items.len()))?;
            work::charge_items(MOVE_COST * (items.len() - at));
            items.insert(at, value);
            Ok(())
        }
        _ => Err(Error::NoParent(path.to_owned())),
    }
}

fn remove_value(parent: &mut Value, token: &str, path: &str) -> Result<(), Error> {
    let removed = match parent {
        Value::Object(map) => {
            work::charge_items(map.len());
            map.shift_remove(token).is_some()
        }
        Value::Array(items) => {
            let at = parse_index(token, items.len()).ok_or_else(|| index_error(token, path, items.len()))?;
            work::charge_items(MOVE_COST * (items.len() - at));
            items.remove(at);
            true
        }
        _ => false,
    };
    if removed { Ok(()) } else { Err(Error::Missing(path.to_owned())) }
}

fn index_error(index: &str, path: &str, length: usize) -> Error {
    let path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    Error::Index { index: index.to_owned(), path: path.to_owned(), length }
}

/// The JSON pointers at which two values differ. Mappings are compared by key, lists of equal length by item,
/// and other lists as a whole.
///
/// ```
/// use serde_json::json;
/// let (a, b) = (json!({"x": 1, "l": [1, 2]}), json!({"l": [1, 3], "y": 2}));
/// assert_eq!(federate_kubernetes::patch::find_differences(&a, &b), ["/l/1", "/x", "/y"]);
/// ```
pub fn find_differences(before: &Value, after: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect_differences(before, after, &mut String::new(), &mut paths);
    paths.sort();
    paths
}

fn collect_differences(before: &Value, after: &Value, path: &mut String, paths: &mut Vec<String>) {
    work::charge_steps(1);
    let length = path.len();
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            // Most keys are at the same place, where they are found without being looked up.
            let mut there = after.iter();
            for (key, value) in before {
                let here = there.next().filter(|(name, _)| *name == key).map(|(_, after)| after);
                push_token(path, &escape(key));
                match here.or_else(|| after.get(key)) {
                    Some(after) => collect_differences(value, after, path, paths),
                    None => paths.push(path.clone()),
                }
                path.truncate(length);
            }
            let same = before.len() == after.len() && before.keys().eq(after.keys());
            for key in after.keys().filter(|key| !same && !before.contains_key(*key)) {
                push_token(path, &escape(key));
                paths.push(path.clone());
                path.truncate(length);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                push_token(path, &index.to_string());
                collect_differences(before, after, path, paths);
                path.truncate(length);
            }
        }
        _ if before != after => paths.push(path.clone()),
        _ => {}
    }
}

fn push_token(path: &mut String, token: &str) {
    path.push('/');
    path.push_str(token);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn applied(
        mut document: Value,
        name: &str,
        path: &str,
        value: impl Into<Option<Value>>,
    ) -> Result<Value, Error> {
        let value = value.into();
        apply_operation(&mut document, JsonPatchOperation { name, path, value: value.as_ref() })?;
        Ok(document)
    }

    #[test]
    fn lists_count_from_both_ends() {
        let list = || json!({"l": [1, 2]});
        assert_eq!(applied(list(), "add", "/l/-", json!(3)), Ok(json!({"l": [1, 2, 3]})));
        assert_eq!(applied(list(), "add", "/l/2", json!(3)), Ok(json!({"l": [1, 2, 3]})));
        assert_eq!(applied(list(), "add", "/l/-1", json!(3)), Ok(json!({"l": [1, 2, 3]})));
        assert_eq!(applied(list(), "replace", "/l/-1", json!(3)), Ok(json!({"l": [1, 3]})));
        assert_eq!(applied(list(), "remove", "/l/-2", json!(null)), Ok(json!({"l": [2]})));
        assert!(applied(list(), "add", "/l/3", json!(3)).is_err());
        assert!(applied(list(), "remove", "/l/-3", json!(null)).is_err());
        assert!(applied(list(), "add", "/l/x", json!(3)).is_err());
    }

    #[test]
    fn parents_must_exist_and_targets_too_unless_added() {
        let map = || json!({"a": {"b/c": 1}});
        assert_eq!(applied(map(), "add", "/a/b~1c", json!(2)), Ok(json!({"a": {"b/c": 2}})));
        assert_eq!(applied(map(), "add", "/x/y", json!(2)), Err(Error::NoParent("/x/y".into())));
        assert_eq!(applied(map(), "replace", "/a/x", json!(2)), Err(Error::Missing("/a/x".into())));
        assert_eq!(applied(map(), "remove", "/a/x", json!(2)), Err(Error::Missing("/a/x".into())));
        assert_eq!(applied(map(), "replace", "/a/", json!(2)), Ok(json!({"a": {"b/c": 1, "": 2}})));
        assert_eq!(applied(map(), "remove", "/a/", json!(2)), Err(Error::Missing("/a/".into())));
        assert_eq!(applied(map(), "add", "a", json!(2)), Err(Error::NotAPath("a".into())));
    }

    #[test]
    fn lenient_rules_replace_what_is_missing_and_test() {
        let applied = |name, path, value: Value| {
            let mut document = json!({"a": {"b": 1}, "l": [1]});
            let operation = JsonPatchOperation { name, path, value: Some(&value) };
            apply_by(PatchRules::Lenient, &mut document, operation).map(|()| document)
        };
        assert_eq!(applied("replace", "/a/c", json!(2)), Ok(json!({"a": {"b": 1, "c": 2}, "l": [1]})));
        assert_eq!(applied("replace", "/x/c", json!(2)), Err(Error::NoParent("/x/c".into())));
        assert!(applied("replace", "/l/1", json!(2)).is_err());
        assert_eq!(applied("replace", "", json!({"k": 1})), Ok(json!({"k": 1})));
        assert_eq!(applied("add", "", json!({"k": 1})), Err(Error::Whole));
        assert!(applied("test", "/a/b", json!(1.0)).is_ok());
        assert!(applied("test", "/a/x", json!(null)).is_ok());
        assert!(applied("test", "/l/1", json!(null)).is_err());
        assert_eq!(applied("test", "/a/b", json!(2)), Err(Error::Test("/a/b".into())));
        assert_eq!(applied("move", "/a/b", json!(2)), Err(Error::Operation("move".into())));
    }
}
