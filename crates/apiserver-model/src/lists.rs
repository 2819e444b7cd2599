//! The answers to list requests: their items as text, or as values that take little memory. A client that lists the
//! objects of a cluster reads many objects and few fields of each.
//!
//! Field sets of `managedFields` are half of most objects, and most of them belong to other managers, so they stay text
//! ([`crate::managed_fields::fields_of`]). Maps have the capacity that they need.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A page of the answer to a list.
pub struct ListPage<'t> {
    /// The token of the next page; empty on the last one.
    pub next: String,
    /// The version of the cluster's state that the answer shows, where a watch of it begins.
    pub resource_version: String,
    /// The text of each item, as it stands in the answer.
    pub items: Vec<&'t str>,
}

#[derive(Deserialize)]
struct PageText<'p> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'p RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    r#continue: String,
}

impl<'t> ListPage<'t> {
    /// The page that a server sent.
    ///
    /// # Errors
    ///
    /// The text is not the JSON of a list.
    pub fn parse(text: &'t [u8]) -> serde_json::Result<Self> {
        let page: PageText<'t> = serde_json::from_slice(text)?;
        let items = page.items.unwrap_or_default().into_iter().map(RawValue::get).collect();
        let PageMetadata { resource_version, r#continue: next } = page.metadata;
        Ok(Self { next, resource_version, items })
    }
}

/// Reads an item as a value whose field sets are strings of JSON.
///
/// # Errors
///
/// The text is not JSON.
pub fn read_item(item: &[u8]) -> serde_json::Result<Value> {
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
    fn for_field(self, key: &str) -> Self {
        match (self, key) {
            (Self::Object, "metadata") => Self::Metadata,
            (Self::Metadata, "managedFields") => Self::Managers,
            (Self::Manager, "fieldsV1") => Self::Fields,
            _ => Self::Elsewhere,
        }
    }

    fn for_item(self) -> Self {
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
        while let Some(item) = items.next_element_seed(self.for_item())? {
            all.push(item);
        }
        all.shrink_to_fit();
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all: Vec<(String, Value)> = Vec::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(self.for_field(&key))?;
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
    use serde_json::json;

    use super::*;
    use crate::managed_fields::read_fields;

    #[test]
    fn items_are_the_values_that_the_server_returned() {
        let fields = json!({"f:spec": {"k:{\"name\":\"é\"}": {".": {}}}});
        let items = json!([
            {"metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": fields}, {"manager": "n"}]},
             "spec": {"n": [1, -2, 0.5, 18_446_744_073_709_551_615_u64, 1e300], "b": true, "z": null, "s": "\u{1F600}\n", "fieldsV1": {"x": {}}}},
            {}, {"metadata": null},
        ]);
        let metadata = json!({"resourceVersion": "7", "continue": "next"});
        let text = json!({"metadata": metadata, "items": items}).to_string();
        let page = ListPage::parse(text.as_bytes()).unwrap();
        let mut read: Vec<Value> =
            page.items.iter().map(|item| read_item(item.as_bytes()).unwrap()).collect();
        assert_eq!((&*page.next, &*page.resource_version), ("next", "7"));
        assert!(read[0]["metadata"]["managedFields"][0]["fieldsV1"].is_string());
        read.iter_mut().for_each(read_fields);
        assert_eq!(Value::Array(read), items);
        for none in ["{}", r#"{"items":null}"#] {
            assert!(ListPage::parse(none.as_bytes()).unwrap().items.is_empty());
        }
    }
}
