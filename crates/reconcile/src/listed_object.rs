//! An object of a list, as text. Most objects of most runs are unchanged, and are never made into values.
//!
//! Facts: an entry of `managedFields` has the manager, the operation, the version and the field set. The fields of
//! `metadata` that an apply may own are its labels, annotations, finalizers and owners.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::FIELD_MANAGER;
use federate_kubernetes::ObjectRef;

/// A listed object as text, of which only the managers of its fields are read.
#[derive(Debug, Default)]
pub struct ListedObject<'t> {
    pub(super) metadata: ListedMetadata<'t>,
    /// The fields besides `metadata` and the type, as JSON text.
    fields: Vec<(Text<'t>, &'t str)>,
}

/// The metadata of a listed object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListedMetadata<'t> {
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(borrow)]
    namespace: Cow<'t, str>,
    #[serde(borrow)]
    uid: Cow<'t, str>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    labels: Option<&'t RawValue>,
    #[serde(borrow)]
    annotations: Option<&'t RawValue>,
    #[serde(borrow)]
    finalizers: Option<&'t RawValue>,
    #[serde(borrow)]
    owner_references: Option<&'t RawValue>,
    #[serde(borrow)]
    pub(super) managed_fields: Vec<ListedManager<'t>>,
}

/// A manager of fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListedManager<'t> {
    #[serde(borrow)]
    pub(super) manager: Cow<'t, str>,
    #[serde(borrow)]
    operation: Cow<'t, str>,
    #[serde(borrow)]
    pub(super) api_version: Cow<'t, str>,
    #[serde(borrow)]
    pub(super) subresource: Cow<'t, str>,
    /// The field set, as JSON text.
    #[serde(borrow, rename = "fieldsV1")]
    pub(super) fields: Option<&'t RawValue>,
}

impl ListedManager<'_> {
    /// Whether it is federate, by an apply to the object itself.
    pub(super) fn is_own(&self) -> bool {
        self.manager == FIELD_MANAGER && self.operation == "Apply" && self.subresource.is_empty()
    }
}

impl<'t> ListedMetadata<'t> {
    /// The text of a field that an apply may own.
    pub(super) fn field_text(&self, key: &str) -> Option<&'t str> {
        let text = match key {
            "labels" => self.labels,
            "annotations" => self.annotations,
            "finalizers" => self.finalizers,
            "ownerReferences" => self.owner_references,
            _ => None,
        };
        text.map(RawValue::get)
    }
}

impl<'t> ListedObject<'t> {
    /// The object in a text.
    ///
    /// # Errors
    ///
    /// If the text is not that of an object as an API server returns it.
    pub fn from_json(text: &'t [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    /// The text of a field besides `metadata` and the type.
    pub(super) fn field_text(&self, key: &str) -> Option<&'t str> {
        self.fields.iter().find(|(name, _)| name.0 == key).map(|(_, text)| *text)
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// Its identity. Lists leave the type out.
    pub fn object_ref(&self, api_version: String, kind: String) -> ObjectRef {
        let namespace = Some(self.metadata.namespace.clone().into_owned()).filter(|name| !name.is_empty());
        ObjectRef { api_version, kind, namespace, name: self.metadata.name.clone().into_owned() }
    }
}

/// A string that is borrowed where its text has no escapes.
#[derive(Debug, Deserialize)]
struct Text<'t>(#[serde(borrow)] Cow<'t, str>);

impl<'de: 't, 't> Deserialize<'de> for ListedObject<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ListedObjectVisitor)
    }
}

struct ListedObjectVisitor;

impl<'de> Visitor<'de> for ListedObjectVisitor {
    type Value = ListedObject<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut object = ListedObject::default();
        while let Some(key) = fields.next_key::<Text<'de>>()? {
            match &*key.0 {
                "metadata" => object.metadata = fields.next_value()?,
                "apiVersion" | "kind" => drop(fields.next_value::<IgnoredAny>()?),
                _ => object.fields.push((key, fields.next_value::<&RawValue>()?.get())),
            }
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_object_has_the_texts_of_its_fields() {
        let text = r#"{"metadata": {"name": "a\u0062", "namespace": "shop", "uid": "u", "labels": {"x" : "1"},
            "managedFields": [{"manager": "federate", "operation": "Apply", "fieldsV1": {"f:data": {}}, "time": "t"}]},
            "spec": { "n": [1, 2] }, "kind": "ConfigMap", "st\u0061tus": {}}"#;
        let object = ListedObject::from_json(text.as_bytes()).unwrap();
        let id = object.object_ref("v1".to_owned(), "ConfigMap".to_owned());
        assert_eq!((id.namespace.as_deref(), id.name.as_str(), object.uid()), (Some("shop"), "ab", "u"));
        assert_eq!(object.field_text("spec"), Some(r#"{ "n": [1, 2] }"#));
        assert_eq!(object.field_text("status"), Some("{}"));
        assert_eq!(
            object.field_text("metadata").or(object.field_text("kind")).or(object.metadata.field_text("uid")),
            None
        );
        assert_eq!(object.metadata.field_text("labels"), Some(r#"{"x" : "1"}"#));
        let [manager] = object.metadata.managed_fields.as_slice() else { panic!("{object:?}") };
        assert!(manager.is_own() && object.metadata.deletion_timestamp.is_none());
        assert_eq!(manager.fields.map(RawValue::get), Some(r#"{"f:data": {}}"#));
        let text = r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}"#;
        assert!(ListedObject::from_json(text.as_bytes()).unwrap().metadata.deletion_timestamp.is_some());
        assert!(ListedObject::from_json(b"[]").is_err());
    }
}
