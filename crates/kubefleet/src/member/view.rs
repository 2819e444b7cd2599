//! The part of an object in which hub and member are compared.
//!
//! Facts: identity, fields that the server sets, status, owners and finalizers do not count, nor do labels and
//! annotations of Kubernetes and of the fleet. The hash of this part tells whether a manifest was applied
//! before.

use federate_kubernetes::hex::to_hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use federate_dialect::gojson;

const IGNORED_METADATA: [&str; 13] = [
    "name",
    "namespace",
    "generateName",
    "finalizers",
    "managedFields",
    "ownerReferences",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
    "creationTimestamp",
];

/// Parts of the keys of labels and annotations that do not count.
const SYSTEM_KEY_PARTS: [&str; 3] = ["kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/"];

/// The part of an object that is compared. Fields that Go always writes are there for the hash.
pub(super) fn comparable_view(object: &Value) -> Value {
    let mut view = object.clone();
    let Some(map) = view.as_object_mut() else { return view };
    map.shift_remove("status");
    let mut metadata = map.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for key in IGNORED_METADATA {
        metadata.shift_remove(key);
    }
    for field in ["labels", "annotations"] {
        let all = metadata.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        let left = all.into_iter().filter(|(key, _)| !SYSTEM_KEY_PARTS.iter().any(|part| key.contains(part)));
        metadata.insert(field.to_owned(), Value::Object(left.collect()));
    }
    for field in ["finalizers", "managedFields", "ownerReferences"] {
        metadata.insert(field.to_owned(), json!([]));
    }
    map.insert("metadata".to_owned(), Value::Object(metadata));
    for template in ["/spec/template/metadata", "/spec/jobTemplate/spec/template/metadata"] {
        if let Some(metadata) = view.pointer_mut(template).and_then(Value::as_object_mut) {
            metadata.shift_remove("creationTimestamp");
        }
    }
    view
}

/// The hash of the compared part.
pub(super) fn hash_view(object: &Value) -> String {
    to_hex(&Sha256::digest(gojson::write_sorted(&comparable_view(object))))
}
