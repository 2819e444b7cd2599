//! What the agent removes from a manifest before it applies it, and what it adds.

use serde_json::{Map, Value, json};

use super::view;
use federate_dialect::gojson;

/// The annotation with the hash of the applied manifest.
pub(crate) const HASH_ANNOTATION: &str = "kubernetes-fleet.io/spec-hash";

/// The annotation with the applied manifest, for client-side apply.
pub(super) const LAST_APPLIED_ANNOTATION: &str = "kubernetes-fleet.io/last-applied-configuration";

/// The keys that the agent writes to an object in a member.
pub(crate) const BOOKKEEPING: [&str; 2] = [HASH_ANNOTATION, LAST_APPLIED_ANNOTATION];

/// The greatest total size of an object's annotations, in bytes.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

const STRIPPED_METADATA: [&str; 9] = [
    "ownerReferences",
    "managedFields",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
];

const STRIPPED_ANNOTATIONS: [&str; 4] = [
    HASH_ANNOTATION,
    LAST_APPLIED_ANNOTATION,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
];

/// The manifest without fields that the member sets.
pub(super) fn strip_manifest(manifest: &Value) -> Value {
    let mut body = manifest.clone();
    if let Some(body) = body.as_object_mut() {
        body.shift_remove("status");
    }
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in STRIPPED_METADATA {
            metadata.shift_remove(key);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            for key in STRIPPED_ANNOTATIONS {
                annotations.shift_remove(key);
            }
        }
    }
    body
}

/// A manifest, ready to be applied.
pub(super) struct StampedManifest {
    pub(super) body: Value,
    /// Whether it is too large for the annotation of client-side apply, so that it is applied by the server.
    pub(super) is_large: bool,
}

/// Adds the owner and the hash to a stripped manifest; with `remembers`, also the annotation of client-side
/// apply.
pub(super) fn stamp_manifest(stripped: &Value, owner: Option<&Value>, remembers: bool) -> StampedManifest {
    let mut body = stripped.clone();
    let hash = view::hash_view(stripped);
    if let Some(metadata) = child_map(&mut body, "metadata") {
        if let Some(owner) = owner {
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        set_annotation(&mut body, HASH_ANNOTATION, hash);
    }
    let mut is_large = false;
    if remembers {
        let applied = gojson::write_sorted(&body) + "\n";
        set_annotation(&mut body, LAST_APPLIED_ANNOTATION, applied);
        is_large = annotations_size(&body) > MAX_ANNOTATIONS_SIZE;
        if is_large {
            set_annotation(&mut body, LAST_APPLIED_ANNOTATION, String::new());
        }
    }
    StampedManifest { body, is_large }
}

fn annotations_size(body: &Value) -> usize {
    let annotations = body.pointer("/metadata/annotations").and_then(Value::as_object);
    let sizes = annotations.into_iter().flatten();
    sizes.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

fn set_annotation(body: &mut Value, key: &str, value: String) {
    let metadata = body.get_mut("metadata");
    if let Some(annotations) = metadata.and_then(|metadata| child_map(metadata, "annotations")) {
        annotations.insert(key.to_owned(), value.into());
    }
}

/// The map below a key, made if need be.
fn child_map<'b>(value: &'b mut Value, key: &str) -> Option<&'b mut Map<String, Value>> {
    let place = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut()
}
