//! JSON in annotations, decoded into structures as by Go's `encoding/json`. Keys match in any case, and the
//! last of several wins. Unknown keys are ignored. `null` leaves the empty value. A value of another type is an
//! error.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Why a document cannot be decoded.
pub(super) type Error = String;

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The entries of a structure. `null` has none.
pub(super) fn read_structure(value: &Value) -> Result<Option<&Map<String, Value>>, Error> {
    match value {
        Value::Null => Ok(None),
        Value::Object(map) => Ok(Some(map)),
        _ => Err("expected a mapping".to_owned()),
    }
}

/// The value of a field, unless it is `null`.
pub(super) fn find_field<'v>(structure: Option<&'v Map<String, Value>>, name: &str) -> Option<&'v Value> {
    let named = structure
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_null());
    named.map(|(_, value)| value).next_back()
}

/// The string of a field; empty if it is absent.
pub(super) fn read_text(structure: Option<&Map<String, Value>>, name: &str) -> Result<String, Error> {
    match find_field(structure, name) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{name}` must be a string")),
    }
}

/// The 64-bit integer of a field.
pub(super) fn read_integer(structure: Option<&Map<String, Value>>, name: &str) -> Result<Option<i64>, Error> {
    match find_field(structure, name) {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| format!("`{name}` must be an integer")),
    }
}

/// The boolean of a field; false if it is absent.
pub(super) fn read_boolean(structure: Option<&Map<String, Value>>, name: &str) -> Result<bool, Error> {
    match find_field(structure, name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| format!("`{name}` must be true or false")),
    }
}

/// The strings of a field.
pub(super) fn read_string_list(
    structure: Option<&Map<String, Value>>,
    name: &str,
) -> Result<Vec<String>, Error> {
    let Some(value) = find_field(structure, name) else { return Ok(Vec::new()) };
    let items = value.as_array().ok_or_else(|| format!("`{name}` must be a list of strings"))?;
    let texts = items.iter().map(|item| match item {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(format!("`{name}` must be a list of strings")),
    });
    texts.collect()
}

/// The entries of a map field, with their keys as written.
pub(super) fn read_entries<'v>(
    structure: Option<&'v Map<String, Value>>,
    name: &str,
) -> Result<BTreeMap<&'v str, &'v Value>, Error> {
    match find_field(structure, name) {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(map)) => Ok(map.iter().map(|(key, value)| (key.as_str(), value)).collect()),
        Some(_) => Err(format!("`{name}` must be a mapping")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_match_in_any_case_and_types_count() {
        let value = json!({"Weight": 1, "WEIGHT": 2, "names": ["a", null], "flag": null, "half": 0.5});
        let map = read_structure(&value).unwrap();
        assert_eq!(read_integer(map, "weight"), Ok(Some(2)));
        assert_eq!(read_string_list(map, "Names"), Ok(vec!["a".to_owned(), String::new()]));
        assert_eq!(read_boolean(map, "flag"), Ok(false));
        assert!(
            read_integer(map, "half").is_err()
                && read_text(map, "weight").is_err()
                && read_boolean(map, "weight").is_err()
        );
        assert_eq!(read_structure(&json!(null)), Ok(None));
        assert!(read_structure(&json!([])).is_err());
    }
}
