//! Reads values of objects by JSON pointer or key.

use serde_json::Value;

/// The text at a pointer; empty if there is none.
pub fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The text below a key; empty if there is none.
pub fn text_below<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a pointer.
pub fn integer_at(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The items of the list at a pointer; none if there is no list.
pub fn list_at<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts in the list at a pointer.
pub fn texts_at(value: &Value, pointer: &str) -> Vec<String> {
    list_at(value, pointer).iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The value at a pointer, unless it is null.
pub fn present_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    value.pointer(pointer).filter(|value| !value.is_null())
}

/// Whether the value below a key is `true`.
pub fn has_flag(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&Value::Bool(true))
}
