//! Parses JSON: one value or several in a row, as `kubectl` does.
//!
//! Numbers become what they would from YAML. Text that is not valid JSON, or that has duplicate keys, is left
//! to the YAML parser, which accepts nearly all JSON and has better messages.

use super::scalar;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};
use std::fmt;

/// Longer text is left to the YAML parser, which limits what it builds.
const MAX_BYTES: usize = 16 << 20;

/// A value in a text.
pub(super) struct LocatedValue {
    /// Its position in bytes.
    pub(super) start: usize,
    /// The value.
    pub(super) value: Value,
}

/// The values of `text`, if it is JSON.
pub(super) fn parse_values(text: &str) -> Option<Vec<LocatedValue>> {
    if text.len() > MAX_BYTES || !text.trim_ascii_start().starts_with(['{', '[']) {
        return None;
    }
    let mut values = Vec::new();
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let mut reader = serde_json::Deserializer::from_str(rest).into_iter::<Exact>();
        let value = reader.next()?.ok()?.0;
        values.push(LocatedValue { start: text.len() - rest.len(), value });
        rest = rest.get(reader.byte_offset()..)?.trim_ascii_start();
    }
    Some(values)
}

/// The line of each item of `items` in the object at the start of valid JSON, whose first line has the number
/// `line`.
pub(super) fn item_lines(text: &str, mut line: u32) -> Vec<u32> {
    let mut lines = Vec::new();
    let (mut depth, mut in_text, mut escaped) = (0_u32, false, false);
    // Where the last text started, and whether it is the key `items` and what follows it is its list.
    let (mut text_start, mut after_key, mut in_items, mut expects_item) = (0, false, false, false);
    for (at, byte) in text.bytes().enumerate() {
        line += u32::from(byte == b'\n');
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            if !in_text && depth == 1 {
                after_key = text.get(text_start..at) == Some("\"items");
            }
            continue;
        }
        if expects_item && !byte.is_ascii_whitespace() && byte != b']' {
            lines.push(line);
            expects_item = false;
        }
        match byte {
            b'"' => (in_text, text_start) = (true, at),
            b'{' | b'[' => {
                (in_items, expects_item) = match (depth, byte) {
                    (1, b'[') => (after_key, after_key),
                    _ => (in_items, false),
                };
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                match depth {
                    0 => return lines,
                    1 if in_items => return lines,
                    _ => {}
                }
            }
            b',' => expects_item = in_items && depth == 2,
            _ => {}
        }
    }
    lines
}

/// A JSON value with numbers as `kubectl` prints them, and without duplicate keys.
struct Exact(Value);

impl<'de> serde::Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Seed.deserialize(deserializer).map(Exact)
    }
}

struct Seed;

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        if let Ok(value) = i64::try_from(value) {
            return self.visit_i64(value);
        }
        scalar::u64_to_number(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        scalar::float_to_number(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Seed)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            match map.entry(key) {
                Entry::Vacant(entry) => entry.insert(access.next_value_seed(Seed)?),
                Entry::Occupied(_) => return Err(A::Error::custom("duplicate key")),
            };
        }
        Ok(Value::Object(map))
    }
}
