//! Envelopes: objects that wrap others, so that these have no effect on the hub itself.
//!
//! Facts: the objects in a selected envelope are sent instead of the envelope, unchanged, in descending order
//! of their JSON. If an envelope holds an object that does not belong there, nothing of the placement is sent. An object
//! that has only a `generateName` is sent, but members refuse it, and it alone.

use serde_json::Value;

use federate_dialect::CarriedTemplate;
use federate_kubernetes::object::value_at;
use federate_kubernetes::{Finding, Object, ObjectRef};

/// The API group of envelopes, placements and overrides.
pub(crate) const GROUP: &str = "placement.kubernetes-fleet.io";

const OF_CLUSTER: &str = "ClusterResourceEnvelope";
const OF_NAMESPACE: &str = "ResourceEnvelope";

/// Whether objects of a kind in [`GROUP`] are envelopes.
pub(crate) fn is_kind(kind: &str) -> bool {
    matches!(kind, OF_CLUSTER | OF_NAMESPACE)
}

/// Whether an object is an envelope.
pub(crate) fn is_envelope(id: &ObjectRef) -> bool {
    id.group() == GROUP && is_kind(&id.kind)
}

/// An object in an envelope.
#[derive(Clone, Debug)]
pub(crate) struct EnvelopedObject<'a> {
    /// The key.
    pub key: &'a str,
    /// The object.
    pub id: ObjectRef,
    /// Its manifest.
    pub body: &'a Value,
}

/// Why an envelope is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvelopeError {
    /// The code.
    pub reason: &'static str,
    /// The key of the invalid object.
    pub key: String,
    /// Why, in a sentence.
    pub message: String,
}

impl EnvelopeError {
    fn refuse_object<T>(key: &str, reason: &'static str, message: String) -> Result<T, Self> {
        Err(Self { reason, key: key.to_owned(), message })
    }

    /// The same as a finding about the envelope.
    pub(crate) fn to_finding(&self, envelope: &Object) -> Finding {
        let (message, help) = match self.reason {
            "FoundGenerateName" => {
                (format!("{}: {}, and apply the rest", envelope.id, self.message), "write `metadata.name`")
            }
            _ => (
                format!("{} cannot be opened: {}", envelope.id, self.message),
                "a ClusterResourceEnvelope holds cluster-scoped objects, a ResourceEnvelope those of its own namespace",
            ),
        };
        Finding::error("invalid-envelope", envelope, message)
            .with_pointer(format!("/data/{}", federate_kubernetes::pointer::escape(&self.key)))
            .with_help(help)
    }
}

/// What an envelope holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnvelopeContent<'a> {
    /// The objects, in the order in which they are sent.
    pub objects: Vec<EnvelopedObject<'a>>,
    /// Why members refuse others.
    pub refused: Vec<EnvelopeError>,
}

/// The objects in an envelope as templates, whether or not it can be opened.
pub(crate) fn list_templates(envelope: &Object) -> Vec<CarriedTemplate> {
    let data = envelope.value_at(&["data"]).and_then(Value::as_object);
    let template = |(key, body): (&String, &Value)| CarriedTemplate {
        carrier: envelope.id.clone(),
        pointer: format!("/data/{}", federate_kubernetes::pointer::escape(key)),
        object: Object::from_manifest(body.clone(), "").id,
    };
    data.into_iter().flatten().map(template).collect()
}

/// Reads the objects in an envelope.
pub(crate) fn open_envelope(envelope: &Object) -> Result<EnvelopeContent<'_>, EnvelopeError> {
    let data = envelope.value_at(&["data"]).and_then(Value::as_object);
    let mut content = EnvelopeContent::default();
    for (key, body) in data.into_iter().flatten() {
        let wrapped = read_object(envelope, key, body)?;
        if wrapped.id.name.is_empty() {
            content.refused.push(EnvelopeError {
                reason: "FoundGenerateName",
                key: key.clone(),
                message: format!("members refuse `{key}`, which has a `generateName` and no name"),
            });
        } else {
            content.objects.push(wrapped);
        }
    }
    content.objects.sort_by_cached_key(|one| std::cmp::Reverse(sorted_json(one.body)));
    Ok(content)
}

fn non_empty_text<'v>(body: &'v Value, path: &[&str]) -> Option<&'v str> {
    value_at(body, path).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn read_object<'a>(
    envelope: &Object,
    key: &'a str,
    body: &'a Value,
) -> Result<EnvelopedObject<'a>, EnvelopeError> {
    let name = non_empty_text(body, &["metadata", "name"])
        .or_else(|| non_empty_text(body, &["metadata", "generateName"]).map(|_| ""));
    let api_version = non_empty_text(body, &["apiVersion"]);
    let (Some(api_version), Some(kind), Some(name)) = (api_version, non_empty_text(body, &["kind"]), name)
    else {
        return EnvelopeError::refuse_object(
            key,
            "InvalidObjectInEnvelope",
            format!("`{key}` lacks apiVersion, kind or metadata.name"),
        );
    };
    let namespace = non_empty_text(body, &["metadata", "namespace"]);
    let id = ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    match (envelope.id.kind.as_str(), namespace) {
        (OF_CLUSTER, Some(_)) => EnvelopeError::refuse_object(
            key,
            "NamespacedObjectInClusterResourceEnvelope",
            format!("{id} is namespaced"),
        ),
        (OF_NAMESPACE, None) => EnvelopeError::refuse_object(
            key,
            "ClusterScopedObjectInResourceEnvelope",
            format!("{id} is cluster-scoped"),
        ),
        (OF_NAMESPACE, namespace) if namespace != envelope.id.namespace.as_deref() => {
            EnvelopeError::refuse_object(
                key,
                "NamespaceMismatchInResourceEnvelope",
                format!("{id} belongs to another namespace"),
            )
        }
        _ => Ok(EnvelopedObject { key, id, body }),
    }
}

/// Compact JSON with sorted keys.
fn sorted_json(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn envelope(kind: &str, path: &str, data: &Value) -> Object {
        Object::from_path(&format!("{GROUP}/v1beta1"), kind, path, json!({"data": data}))
    }

    fn object(kind: &str, namespace: Option<&str>) -> Value {
        json!({"metadata": {"namespace": namespace, "name": "x"}, "kind": kind, "apiVersion": "v1"})
    }

    #[test]
    fn what_it_holds_comes_in_descending_order() {
        let held = json!({"b": object("ConfigMap", Some("a")), "a": object("Secret", Some("a"))});
        let envelope = envelope(OF_NAMESPACE, "a/e", &held);
        let held = open_envelope(&envelope).unwrap().objects;
        assert_eq!(held.iter().map(|one| one.id.kind.as_str()).collect::<Vec<_>>(), ["Secret", "ConfigMap"]);
    }

    #[test]
    fn it_holds_only_what_lives_where_it_does() {
        for (kind, path, held, reason) in [
            (OF_CLUSTER, "e", Some("a"), Some("NamespacedObjectInClusterResourceEnvelope")),
            (OF_CLUSTER, "e", None, None),
            (OF_NAMESPACE, "a/e", None, Some("ClusterScopedObjectInResourceEnvelope")),
            (OF_NAMESPACE, "a/e", Some("b"), Some("NamespaceMismatchInResourceEnvelope")),
            (OF_NAMESPACE, "a/e", Some("a"), None),
        ] {
            let envelope = envelope(kind, path, &json!({"k/1": object("X", held)}));
            let failure = open_envelope(&envelope).err();
            assert_eq!(failure.as_ref().map(|f| f.reason), reason, "{kind} {held:?}");
            let pointer = failure.map(|f| f.to_finding(&envelope).pointer);
            assert!(pointer.is_none_or(|p| p == "/data/k~11"));
        }
    }
}
