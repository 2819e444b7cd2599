//! Lists and strings in JSON values. Those that are missing or have another type are empty.

use federate_kubernetes::object::value_at;
use serde_json::Value;

/// The list at a path.
pub(super) fn array_at<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    value_at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The string at a path.
pub(super) fn string_at<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value_at(value, path).and_then(Value::as_str).unwrap_or_default()
}
