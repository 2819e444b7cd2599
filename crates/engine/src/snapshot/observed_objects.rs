//! The objects that run in a member, as files of a snapshot: one per namespace.
//!
//! Values of Secrets are replaced by keyed digests. Field managers stay, because adoption and drift depend on them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{OBSERVED_FOLDER, write_yaml};
use crate::change::{DigestKey, hide_secret_values};
use federate_kubernetes::{Object, names};

/// Fields of `metadata` that change with every write, or that only the server knows.
const VOLATILE_FIELDS: [&str; 2] = ["resourceVersion", "selfLink"];

/// The files of a cluster. An empty cluster has a file without documents: its objects are known, there are none.
pub(super) fn cluster_files(cluster: &str, objects: &[Object], key: &DigestKey) -> BTreeMap<String, String> {
    let folder = format!("{OBSERVED_FOLDER}/{cluster}");
    let mut files = BTreeMap::from([(format!("{folder}/_cluster.yaml"), String::new())]);
    if names::safe_cluster(cluster).is_err() {
        return BTreeMap::new();
    }
    for object in objects {
        let namespace = object.id.namespace.as_deref();
        // A server that answers with other names is not one of Kubernetes.
        if namespace.is_some_and(|namespace| names::safe_namespace(namespace).is_err()) {
            continue;
        }
        let file = files.entry(format!("{folder}/{}.yaml", namespace.unwrap_or("_cluster"))).or_default();
        if !file.is_empty() {
            file.push_str("---\n");
        }
        file.push_str(&write_yaml(&stored_body(object, key)));
    }
    files
}

fn stored_body(object: &Object, key: &DigestKey) -> Value {
    let mut body = object.body.clone();
    hide_secret_values(&mut [&mut body], key);
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !VOLATILE_FIELDS.contains(&field.as_str()));
    }
    federate_yaml::sort_keys(body)
}
