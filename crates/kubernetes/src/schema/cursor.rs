//! A place in an object: the value there, and the JSON pointer that names it.

use serde_json::Value;

/// A value and where it stands. Fields that are absent or `null` read as `null`, as in Go.
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

    /// The JSON pointer of this place; of the nearest place above that is there, if this one is not.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The field of that name. One that is absent has this place's pointer, so that a finding about
    /// it points at something that can be seen.
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
            pointer: format!("{}/{}", self.pointer, token(key)),
        }
    }

    /// The place below this one that a relative JSON pointer names.
    #[must_use]
    pub fn below(&self, pointer: &str) -> Self {
        Self {
            value: self.value.pointer(pointer).unwrap_or(&Value::Null),
            pointer: format!("{}{pointer}", self.pointer),
        }
    }

    /// The items of a list; none if this is no list.
    pub fn items(&self) -> impl Iterator<Item = Self> + use<'v> {
        let pointer = self.pointer.clone();
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items
            .iter()
            .enumerate()
            .map(move |(index, value)| Self { value, pointer: format!("{pointer}/{index}") })
    }

    /// Whether there is a value other than `null`.
    pub fn present(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether this is a list or mapping with something in it.
    pub fn filled(&self) -> bool {
        match self.value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => false,
        }
    }

    /// The text here, empty if there is none.
    pub fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The integer here, 0 if there is none.
    pub fn integer(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// Whether this is `true`.
    pub fn is_true(&self) -> bool {
        self.value.as_bool().unwrap_or_default()
    }
}

/// A key as one step of a JSON pointer.
pub(super) fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
