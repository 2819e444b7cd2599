//! Items of lists: as text, or as values that take little memory. An unchanged run reads many objects and looks at few
//! fields of each.
//!
//! Field sets of `managedFields` are half of most objects, and only those of federate are looked at: they stay text
//! ([`federate_apiserver::managed::fields_of`]). Maps have the capacity that they need.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The answer to a list.
pub(super) struct Page {
    /// The token of the next page; empty on the last one.
    pub(super) next: String,
    /// The text of each item.
    pub(super) items: Vec<Bytes>,
}

#[derive(Deserialize)]
struct PageText<'p> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'p RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    r#continue: String,
}

impl Page {
    /// The answer in some text.
    pub(super) fn of(text: &Bytes) -> serde_json::Result<Self> {
        let page: PageText<'_> = serde_json::from_slice(text)?;
        let items = page.items.unwrap_or_default().into_iter();
        let items = items.map(|item| text.slice_ref(item.get().as_bytes())).collect();
        Ok(Self { next: page.metadata.r#continue, items })
    }
}

/// An item as a value.
pub(super) fn read(item: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(item).map(|Item(item)| item)
}

struct Item(Value);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Place::Object.deserialize(deserializer).map(Item)
    }
}

/// The place of a value in an object.
#[derive(Clone, Copy)]
enum Place {
    Object,
    Metadata,
    Managers,
    Manager,
    Fields,
    Elsewhere,
}

impl Place {
    fn of_field(self, key: &str) -> Self {
        match (self, key) {
            (Self::Object, "metadata") => Self::Metadata,
            (Self::Metadata, "managedFields") => Self::Managers,
            (Self::Manager, "fieldsV1") => Self::Fields,
            _ => Self::Elsewhere,
        }
    }

    fn of_item(self) -> Self {
        if matches!(self, Self::Managers) { Self::Manager } else { Self::Elsewhere }
    }
}

impl<'de> DeserializeSeed<'de> for Place {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Self::Fields => <&RawValue>::deserialize(deserializer).map(|text| text.get().into()),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Place {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self.of_item())? {
            all.push(item);
        }
        all.shrink_to_fit();
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all: Vec<(String, Value)> = Vec::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(self.of_field(&key))?;
            all.push((key, value));
        }
        // The type of the object is added where the list leaves it out.
        let added = if matches!(self, Self::Object) { 2 } else { 0 };
        let mut map = Map::with_capacity(all.len() + added);
        map.extend(all);
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use federate_apiserver::managed::read_fields;
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_the_values_that_the_server_returned() {
        let fields = json!({"f:spec": {"k:{\"name\":\"é\"}": {".": {}}}});
        let items = json!([
            {"metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": fields}, {"manager": "n"}]},
             "spec": {"n": [1, -2, 0.5, 18_446_744_073_709_551_615_u64, 1e300], "b": true, "z": null, "s": "\u{1F600}\n", "fieldsV1": {"x": {}}}},
            {}, {"metadata": null},
        ]);
        let text = json!({"metadata": {"continue": "next"}, "items": items}).to_string();
        let page = Page::of(&text.into()).unwrap();
        let mut read: Vec<Value> = page.items.iter().map(|item| super::read(item).unwrap()).collect();
        assert_eq!(page.next, "next");
        assert!(read[0]["metadata"]["managedFields"][0]["fieldsV1"].is_string());
        read.iter_mut().for_each(read_fields);
        assert_eq!(Value::Array(read), items);
        for none in ["{}", r#"{"items":null}"#] {
            assert!(Page::of(&none.into()).unwrap().items.is_empty());
        }
    }
}
