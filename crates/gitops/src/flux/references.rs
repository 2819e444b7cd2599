//! The `ConfigMap`s and `Secret`s of the repo to which objects of Flux refer.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::object::{field_text, string_map};
use federate_kubernetes::sops::holds_ciphertext;

use super::namespace_of;
use crate::description::{DescriptionError, UnknownReason, UnknownValues, find_similar_object};

/// What is made of values that are encrypted, or not in the repo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingValues {
    /// Both are errors.
    Refused,
    /// Those that are encrypted are not known. What is not in the repo is an error, as it may be built yet.
    Awaited,
    /// Both are not known.
    Unknown,
}

/// Objects by kind, namespace and name.
pub(super) struct ReferencedObjects<'f> {
    objects: BTreeMap<(&'f str, String, &'f str), &'f Object>,
    missing: MissingValues,
}

/// What is known of the data of an object.
pub(super) enum ReferencedData {
    /// There is none, and there need not be.
    None,
    /// The object is not in the repo.
    Missing(UnknownValues),
    /// What the object has.
    Found {
        /// Texts by their keys.
        known: BTreeMap<String, String>,
        /// The keys whose values SOPS encrypted.
        encrypted: BTreeSet<String>,
    },
}

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

    /// Values of the object that are not known.
    pub(super) fn describe_unknown(&self, reason: UnknownReason) -> UnknownValues {
        let Self { kind, name, namespace, .. } = self;
        let holder = format!("{kind} {namespace}/{name}");
        UnknownValues { holder, keys: BTreeSet::new(), reason, pointer: self.pointer.clone() }
    }

    pub(super) fn refuse(&self, why: &str) -> DescriptionError {
        let Self { kind, name, namespace, .. } = self;
        DescriptionError::new(&self.pointer, format!("{kind} {namespace}/{name} {why}"))
    }
}

impl<'f> ReferencedObjects<'f> {
    pub(super) fn new(objects: impl Iterator<Item = &'f Object>, missing: MissingValues) -> Self {
        let data = objects.filter(|object| {
            object.id.api_version == "v1" && matches!(object.id.kind.as_str(), "ConfigMap" | "Secret")
        });
        let objects = data
            .map(|object| ((object.id.kind.as_str(), namespace_of(object), object.id.name.as_str()), object))
            .collect();
        Self { objects, missing }
    }

    /// The data of the object that a reference names.
    pub(super) fn find_data(&self, reference: &Reference<'_>) -> Result<ReferencedData, DescriptionError> {
        let Reference { kind, name, namespace, is_optional, .. } = reference;
        let Some(object) = self.objects.get(&(*kind, namespace.clone(), *name)) else {
            if *is_optional {
                return Ok(ReferencedData::None);
            }
            let similar = self.find_similar(reference);
            if self.missing == MissingValues::Unknown {
                let values = reference.describe_unknown(UnknownReason::Missing { similar });
                return Ok(ReferencedData::Missing(values));
            }
            let why = format!("the repo has no {kind} {namespace}/{name}");
            let meant = similar.map(|similar| format!("did you mean {similar}?"));
            let help = meant.unwrap_or_else(|| "commit it, or mark the reference as optional".to_owned());
            return Err(DescriptionError::new(&reference.pointer, why).with_help(&help));
        };
        let is_secret = *kind == "Secret";
        let (mut known, mut encrypted) = (BTreeMap::new(), BTreeSet::new());
        for (field, is_encoded) in [("data", is_secret), ("stringData", false)] {
            if field == "stringData" && !is_secret {
                continue;
            }
            for (key, written) in string_map(object.body.get(field)) {
                let decoded = || decode_base64(&written).and_then(|bytes| String::from_utf8(bytes).ok());
                let text = if is_encoded && !holds_ciphertext(&written) {
                    decoded().ok_or_else(|| {
                        let why = format!("has a value that is not a text in base64 under `{field}.{key}`");
                        reference.refuse(&why)
                    })?
                } else {
                    written
                };
                if holds_ciphertext(&text) {
                    known.remove(&key);
                    encrypted.insert(key);
                } else {
                    encrypted.remove(&key);
                    known.insert(key, text);
                }
            }
        }
        if self.missing == MissingValues::Refused && !encrypted.is_empty() {
            return Err(reference.refuse("is encrypted by SOPS, so that its values are not known").with_help(
                "keep what is not secret in a ConfigMap, or let what is built refer to the Secret by its name",
            ));
        }
        Ok(ReferencedData::Found { known, encrypted })
    }

    /// The object that may be meant by a reference to one that is not there.
    fn find_similar(&self, reference: &Reference<'_>) -> Option<String> {
        let Reference { kind, name, namespace, .. } = reference;
        let of_kind = self.objects.keys().filter(|(other, _, _)| other == kind);
        let all = of_kind.map(|(_, namespace, name)| (namespace.as_str(), *name));
        let (namespace, name) = find_similar_object(all, namespace, name)?;
        Some(format!("{kind} {namespace}/{name}"))
    }
}

/// The bytes that a text in base64 stands for. Line breaks in it do not count, as for an API server.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.replace(['\n', '\r'], "")).ok()
}
