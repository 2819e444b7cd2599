//! The `ConfigMap`s and `Secret`s of the repo to which objects of Flux refer.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::object::{field_text, string_map};
use federate_kubernetes::sops::is_encrypted;

use super::namespace_of;
use crate::description::DescriptionError;

/// Objects by kind, namespace and name.
pub(super) struct ReferencedObjects<'f>(BTreeMap<(&'f str, String, &'f str), &'f Object>);

/// A reference to a `ConfigMap` or a `Secret` in the namespace of an object.
pub(super) struct Reference<'r> {
    pub(super) kind: &'r str,
    pub(super) name: &'r str,
    pub(super) namespace: String,
    /// Whether the object may be missing.
    pub(super) is_optional: bool,
    /// Where it is in the object.
    pub(super) pointer: String,
}

impl<'r> Reference<'r> {
    pub(super) fn new(object: &Object, value: &'r Value, pointer: String) -> Self {
        Self {
            kind: field_text(value, "kind"),
            name: field_text(value, "name"),
            namespace: namespace_of(object),
            is_optional: value.get("optional") == Some(&Value::Bool(true)),
            pointer,
        }
    }

    pub(super) fn refuse(&self, why: &str) -> DescriptionError {
        let Self { kind, name, namespace, .. } = self;
        DescriptionError::new(&self.pointer, format!("{kind} {namespace}/{name} {why}"))
    }
}

impl<'f> ReferencedObjects<'f> {
    pub(super) fn new(objects: impl Iterator<Item = &'f Object>) -> Self {
        let data = objects.filter(|object| {
            object.id.api_version == "v1" && matches!(object.id.kind.as_str(), "ConfigMap" | "Secret")
        });
        Self(
            data.map(|object| {
                ((object.id.kind.as_str(), namespace_of(object), object.id.name.as_str()), object)
            })
            .collect(),
        )
    }

    /// The data of the object that a reference names; `None` if it is missing and may be.
    pub(super) fn find_data(
        &self,
        reference: &Reference<'_>,
    ) -> Result<Option<BTreeMap<String, String>>, DescriptionError> {
        let Reference { kind, name, namespace, is_optional, .. } = reference;
        let Some(object) = self.0.get(&(*kind, namespace.clone(), *name)) else {
            if *is_optional {
                return Ok(None);
            }
            let why = format!("the repo has no {kind} {namespace}/{name}");
            return Err(DescriptionError::new(&reference.pointer, why)
                .with_help("commit it, or mark the reference as optional"));
        };
        if *kind == "ConfigMap" {
            return Ok(Some(string_map(object.body.get("data")).into_iter().collect()));
        }
        if is_encrypted(&object.body) {
            return Err(reference.refuse("is encrypted by SOPS, so that its values are not known").with_help(
                "keep what is not secret in a ConfigMap, or let what is built refer to the Secret by its name",
            ));
        }
        let mut data = BTreeMap::new();
        for (key, value) in string_map(object.body.get("data")) {
            let text = decode_base64(&value).and_then(|bytes| String::from_utf8(bytes).ok());
            let text = text.ok_or_else(|| {
                reference.refuse(&format!("has a value that is not a text in base64 under `data.{key}`"))
            })?;
            data.insert(key, text);
        }
        data.extend(string_map(object.body.get("stringData")));
        Ok(Some(data))
    }
}

/// The bytes that a text in base64 stands for. Line breaks in it do not count, as for an API server.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.replace(['\n', '\r'], "")).ok()
}
