//! What the agent removes from a manifest before it applies it, and what it adds.

use serde_json::{Map, Value, json};

use super::view;
use federate_dialect::gojson;

/// The annotation with the hash of the applied manifest.
pub(crate) const HASH: &str = "kubernetes-fleet.io/spec-hash";

/// The annotation with the applied manifest, for client-side apply.
pub(super) const LAST_APPLIED: &str = "kubernetes-fleet.io/last-applied-configuration";

/// The keys that the agent writes to an object in a member.
pub(crate) const BOOKKEEPING: [&str; 2] = [HASH, LAST_APPLIED];

/// The greatest total size of an object's annotations, in bytes.
const LARGEST: usize = 256 * 1024;

const METADATA: [&str; 9] = [
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

const ANNOTATIONS: [&str; 4] = [
    HASH,
    LAST_APPLIED,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
];

/// The manifest without fields that the member sets.
pub(super) fn stripped(manifest: &Value) -> Value {
    let mut body = manifest.clone();
    if let Some(body) = body.as_object_mut() {
        body.shift_remove("status");
    }
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in METADATA {
            metadata.shift_remove(key);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            for key in ANNOTATIONS {
                annotations.shift_remove(key);
            }
        }
    }
    body
}

/// A manifest, ready to be applied.
pub(super) struct Stamped {
    pub(super) body: Value,
    /// Whether it is too large for the annotation of client-side apply, so that it is applied by the server.
    pub(super) is_large: bool,
}

/// Adds the owner and the hash to a stripped manifest; with `remembers`, also the annotation of client-side
/// apply.
pub(super) fn stamped(stripped: &Value, owner: Option<&Value>, remembers: bool) -> Stamped {
    let mut body = stripped.clone();
    let hash = view::hash(stripped);
    if let Some(metadata) = map(&mut body, "metadata") {
        if let Some(owner) = owner {
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        annotate(&mut body, HASH, hash);
    }
    let mut is_large = false;
    if remembers {
        let applied = gojson::write(&body) + "\n";
        annotate(&mut body, LAST_APPLIED, applied);
        is_large = size(&body) > LARGEST;
        if is_large {
            annotate(&mut body, LAST_APPLIED, String::new());
        }
    }
    Stamped { body, is_large }
}

fn size(body: &Value) -> usize {
    let annotations = body.pointer("/metadata/annotations").and_then(Value::as_object);
    let sizes = annotations.into_iter().flatten();
    sizes.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

fn annotate(body: &mut Value, key: &str, value: String) {
    let metadata = body.get_mut("metadata");
    if let Some(annotations) = metadata.and_then(|metadata| map(metadata, "annotations")) {
        annotations.insert(key.to_owned(), value.into());
    }
}

/// The map below a key, made if need be.
fn map<'b>(value: &'b mut Value, key: &str) -> Option<&'b mut Map<String, Value>> {
    let place = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut()
}
