//! A position in an object: the value, and its JSON pointer.

use serde_json::Value;

/// A value with its JSON pointer. Absent fields read as `null`, as in Go.
#[derive(Clone, Debug)]
pub struct Cursor<'v> {
    value: &'v Value,
    pointer: String,
}

impl<'v> Cursor<'v> {
    /// Creates a cursor at the root of an object.
    pub fn new(value: &'v Value) -> Self {
        Self { value, pointer: String::new() }
    }

    /// The value at this position.
    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// The JSON pointer of this position or, if it does not exist, of its closest existing parent.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the field with this name. An absent field has the pointer of its parent, so that a finding about it
    /// points to existing text.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        match self.value.get(name) {
            Some(_) => self.entry(name),
            None => Self { value: &Value::Null, pointer: self.pointer.clone() },
        }
    }

    /// Returns the entry of a mapping with this key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Self {
        Self {
            value: self.value.get(key).unwrap_or(&Value::Null),
            pointer: format!("{}/{}", self.pointer, token(key)),
        }
    }

    /// Returns the position at a JSON pointer relative to this one.
    #[must_use]
    pub fn below(&self, pointer: &str) -> Self {
        Self {
            value: self.value.pointer(pointer).unwrap_or(&Value::Null),
            pointer: format!("{}{pointer}", self.pointer),
        }
    }

    /// Returns the items of a list; empty if the value is not a list.
    pub fn items(&self) -> impl Iterator<Item = Self> + use<'v> {
        let pointer = self.pointer.clone();
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items
            .iter()
            .enumerate()
            .map(move |(index, value)| Self { value, pointer: format!("{pointer}/{index}") })
    }

    /// Whether the value is not `null`.
    pub fn present(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether the value is a non-empty list or mapping.
    pub fn filled(&self) -> bool {
        match self.value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => false,
        }
    }

    /// The string value, or an empty string.
    pub fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The integer value, or 0.
    pub fn integer(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// Whether the value is `true`.
    pub fn is_true(&self) -> bool {
        self.value.as_bool().unwrap_or_default()
    }
}

/// Escapes a key for use in a JSON pointer.
pub(super) fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
