//! A place in an object: the value, and its JSON pointer.

use serde_json::Value;

use crate::pointer::escape;

/// A value and its place. Fields that are absent or `null` read as `null`, as in Go.
#[derive(Clone, Debug)]
pub struct Cursor<'v> {
    value: &'v Value,
    pointer: String,
}

impl<'v> Cursor<'v> {
    /// The root of an object.
    pub fn new(value: &'v Value) -> Self {
        Self { value, pointer: String::new() }
    }

    /// The value here.
    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// The JSON pointer of this place, or of its nearest existing parent.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The field with this name. An absent field has the pointer of this place, so that findings about it
    /// point to something visible.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        match self.value.get(name) {
            Some(_) => self.entry(name),
            None => Self { value: &Value::Null, pointer: self.pointer.clone() },
        }
    }

    /// The entry of a mapping under `key`.
    #[must_use]
    pub fn entry(&self, key: &str) -> Self {
        Self {
            value: self.value.get(key).unwrap_or(&Value::Null),
            pointer: format!("{}/{}", self.pointer, escape(key)),
        }
    }

    /// The place at a relative JSON pointer below this one.
    #[must_use]
    pub fn at_pointer(&self, pointer: &str) -> Self {
        Self {
            value: self.value.pointer(pointer).unwrap_or(&Value::Null),
            pointer: format!("{}{pointer}", self.pointer),
        }
    }

    /// The items of a list; none if this is not a list.
    pub fn items(&self) -> impl Iterator<Item = Self> + use<'v> {
        let pointer = self.pointer.clone();
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items
            .iter()
            .enumerate()
            .map(move |(index, value)| Self { value, pointer: format!("{pointer}/{index}") })
    }

    /// Whether the value is not `null`.
    pub fn is_present(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether this is a non-empty list or mapping.
    pub fn has_items(&self) -> bool {
        match self.value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => false,
        }
    }

    /// The string; empty if there is none.
    pub fn as_text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The integer; 0 if there is none.
    pub fn as_integer(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// Whether this is `true`.
    pub fn is_true(&self) -> bool {
        self.value.as_bool().unwrap_or_default()
    }
}
