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

/// The values of `text` and their positions in bytes, if it is JSON.
pub(super) fn read(text: &str) -> Option<Vec<(usize, Value)>> {
    if text.len() > MAX_BYTES || !text.trim_ascii_start().starts_with(['{', '[']) {
        return None;
    }
    let mut values = Vec::new();
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let mut reader = serde_json::Deserializer::from_str(rest).into_iter::<Exact>();
        let value = reader.next()?.ok()?.0;
        values.push((text.len() - rest.len(), value));
        rest = rest.get(reader.byte_offset()..)?.trim_ascii_start();
    }
    Some(values)
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
        scalar::wide(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        scalar::float(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
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
