//! A Kubernetes object from a repo: its body, its identity, and its place.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::work;

/// Labels or annotations as a string map, sorted by key.
pub type Labels = std::collections::BTreeMap<String, String>;

/// The identity of an object: API version, kind, namespace (`None` for cluster-scoped objects), name.
///
/// Sorts by API version, kind, namespace and name; displays as `Deployment shop/web`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `v1`, `apps/v1`, …
    pub api_version: String,
    /// `Deployment`, …
    pub kind: String,
    /// Absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `metadata.name`
    pub name: String,
}

/// The group, kind, namespace and name of an object.
pub type UnversionedRef<'o> = (&'o str, &'o str, Option<&'o str>, &'o str);

impl ObjectRef {
    /// The API group: `apps` of `apps/v1`, empty for `v1`.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The identity without the version: two versions of an object are the same object.
    pub fn unversioned(&self) -> UnversionedRef<'_> {
        (self.group(), &self.kind, self.namespace.as_deref(), &self.name)
    }

    /// `namespace/name`, or only the name without a namespace.
    pub fn namespaced_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// The place of an object in a repo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The path below the repo's root, with `/`.
    pub file: Arc<str>,
    /// The index of the document in the file, from 0.
    pub document: u32,
    /// The index of the item, from 0, if the document is a `kind: List`.
    pub item: Option<u32>,
    /// The first line of the object, from 1; 0 for the file as a whole.
    pub line: u32,
}

impl Origin {
    /// Whether the object is a document of the file, or an item of one, instead of the output of a program.
    pub fn is_written(&self) -> bool {
        self.document != u32::MAX
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// An object with its identity and place. `body` is the whole manifest, normalised on load: it contains
/// `metadata.namespace` exactly if the object is namespaced.
#[derive(Clone, Debug)]
pub struct Object {
    /// The identity.
    pub id: ObjectRef,
    /// The manifest; always a JSON object.
    pub body: Value,
    /// The place.
    pub origin: Origin,
}

impl Object {
    /// Makes an object from a manifest. Missing fields of its identity are empty, an empty namespace is
    /// `None`, and its place is the file as a whole.
    ///
    /// ```
    /// use federate_kubernetes::Object;
    /// let metadata = serde_json::json!({"namespace": "shop", "name": "web"});
    /// let manifest = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
    /// let object = Object::from_manifest(manifest, "web.yaml");
    /// assert_eq!((object.id.group(), object.id.to_string()), ("apps", "Deployment shop/web".to_owned()));
    /// assert_eq!(object.origin.to_string(), "web.yaml");
    /// ```
    pub fn from_manifest(body: Value, file: impl Into<Arc<str>>) -> Self {
        let [api_version, kind, namespace, name] =
            ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
                .map(|pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned());
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let id = ObjectRef { api_version, kind, namespace, name };
        Self::with_identity(id, body, file)
    }

    /// Makes an object whose identity is known; the manifest need not have it. Its place is the file as a whole.
    pub fn with_identity(id: ObjectRef, body: Value, file: impl Into<Arc<str>>) -> Self {
        Self { id, body, origin: Origin { file: file.into(), document: 0, item: None, line: 0 } }
    }

    /// The value at a path of keys; `None` if a key is missing.
    pub fn value_at(&self, path: &[&str]) -> Option<&Value> {
        value_at(&self.body, path)
    }

    /// The string at a path of keys; empty if it is missing or not a string.
    pub fn text_at(&self, path: &[&str]) -> &str {
        self.value_at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// `metadata.labels`, without entries whose value is not a string.
    pub fn labels(&self) -> Labels {
        let labels = self.value_at(&["metadata", "labels"]);
        work::charge_steps(1 + labels.and_then(Value::as_object).map_or(0, |labels| 2 * labels.len() as u64));
        string_map(labels)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.value_at(&["metadata", "labels", key])?.as_str()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value_at(&["metadata", "annotations", key])?.as_str()
    }

    /// Sets a label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set_metadata("labels", key, value);
    }

    /// Sets an annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.set_metadata("annotations", key, value);
    }

    fn set_metadata(&mut self, map: &str, key: &str, value: &str) {
        let mut at = &mut self.body;
        for step in ["metadata", map] {
            if !at.get(step).is_some_and(Value::is_object)
                && let Some(object) = at.as_object_mut()
            {
                object.insert(step.to_owned(), Value::Object(Map::new()));
            }
            match at.get_mut(step) {
                Some(below) => at = below,
                None => return,
            }
        }
        if let Some(object) = at.as_object_mut() {
            object.insert(key.to_owned(), value.into());
        }
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn is_deleting(&self) -> bool {
        self.value_at(&["metadata", "deletionTimestamp"]).is_some_and(|v| !v.is_null())
    }
}

impl Object {
    /// An object with this identity, whatever its body; `path` is `namespace/name`, or only the name.
    pub fn from_path(api_version: &str, kind: &str, path: &str, body: Value) -> Self {
        let (namespace, name) = match path.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, path),
        };
        let id =
            ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace, name: name.into() };
        Self { id, body, origin: Origin { file: "a.yaml".into(), document: 0, item: None, line: 1 } }
    }
}

/// The value at a path of keys below `value`; `None` if a key is missing.
pub fn value_at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// The text of a field; empty if the value has no such field, or no text there.
pub fn field_text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The text at a JSON pointer; empty if there is none.
pub fn pointer_text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A JSON object as a string map, without entries whose value is not a string.
pub fn string_map(value: Option<&Value>) -> Labels {
    value
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}
