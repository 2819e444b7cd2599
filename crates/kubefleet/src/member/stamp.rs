//! What is taken out of a manifest before it is applied, and what is put on it.

use serde_json::{Map, Value, json};

use super::view;
use federate_dialect::gojson;

/// Which manifest was applied.
pub(crate) const HASH: &str = "kubernetes-fleet.io/spec-hash";

/// What was applied, for client-side apply.
pub(super) const LAST_APPLIED: &str = "kubernetes-fleet.io/last-applied-configuration";

/// What it leaves on a member's object.
pub(crate) const BOOKKEEPING: [&str; 2] = [HASH, LAST_APPLIED];

/// The most that all annotations of an object may hold, in bytes.
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

/// The manifest without what a member makes of it.
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
    /// Whether it is too large to remember what was applied, so that the server has to.
    pub(super) is_large: bool,
}

/// Puts owner and hash on a stripped manifest; with `remembers`, what is applied as well.
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
