//! The labels and annotations that Karmada stamps on manifests: the manager, the binding and policy, and the
//! names of the labels and annotations that were sent.
//!
//! Facts: random and hashed identities (permanent ids, the name of the Work) are left out.

use serde_json::{Map, Value};

use super::body::ensure_object;
use super::{CONFLICT_RESOLUTION, MANAGED_LABEL};
use crate::pruning;
use federate_dialect::Placement;
use federate_repo::Template;

/// The annotations with the names of the annotations and labels that were sent.
pub(super) const SENT_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
pub(super) const SENT_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";

/// Stamps an object for a cluster.
pub(super) fn stamp_object(
    body: &mut Value,
    placement: &Placement,
    template: &Template,
    cluster: &str,
    overwrites: bool,
) {
    let Some(labels) = ensure_object(body, &["metadata", "labels"]) else { return };
    labels.insert(MANAGED_LABEL.to_owned(), "true".into());
    let labels = join_keys(labels);
    let Some(annotations) = ensure_object(body, &["metadata", "annotations"]) else { return };
    let resolution = if overwrites { "overwrite" } else { "abort" };
    annotations.entry(CONFLICT_RESOLUTION).or_insert_with(|| resolution.into());
    let id = &template.object.id;
    let binding = format!("{}-{}", id.name, id.kind).to_lowercase().replace(':', ".");
    match &id.namespace {
        Some(namespace) => {
            annotate(annotations, "resourcebinding.karmada.io/namespace", namespace);
            annotate(annotations, "resourcebinding.karmada.io/name", &binding);
        }
        None => annotate(annotations, "clusterresourcebinding.karmada.io/name", &binding),
    }
    if let Some(policy) = &placement.policy {
        match &policy.namespace {
            Some(namespace) => {
                annotate(annotations, "propagationpolicy.karmada.io/namespace", namespace);
                annotate(annotations, "propagationpolicy.karmada.io/name", &policy.name);
            }
            None => annotate(annotations, "clusterpropagationpolicy.karmada.io/name", &policy.name),
        }
    }
    add_work_annotations(annotations, &labels, cluster);
}

/// Stamps an object that no binding sends.
pub(super) fn stamp_work(body: &mut Value, cluster: &str) {
    let Some(labels) = ensure_object(body, &["metadata", "labels"]) else { return };
    labels.insert(MANAGED_LABEL.to_owned(), "true".into());
    let labels = join_keys(labels);
    let Some(annotations) = ensure_object(body, &["metadata", "annotations"]) else { return };
    add_work_annotations(annotations, &labels, cluster);
}

/// Adds the annotations that every stamped object has.
fn add_work_annotations(annotations: &mut Map<String, Value>, labels: &str, cluster: &str) {
    annotate(annotations, "work.karmada.io/namespace", &format!("karmada-es-{cluster}"));
    annotate(annotations, SENT_LABELS, labels);
    annotate(annotations, SENT_ANNOTATIONS, "");
    let all = join_keys(annotations);
    annotate(annotations, SENT_ANNOTATIONS, &all);
}

fn annotate(annotations: &mut Map<String, Value>, key: &str, value: &str) {
    annotations.insert(key.to_owned(), value.into());
}

fn join_keys(map: &Map<String, Value>) -> String {
    let mut names: Vec<&str> = map.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.join(",")
}

/// The object without the stamps.
pub(super) fn without_stamps(live: &Value) -> Value {
    let mut body = live.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        pruning::remove_stamps(metadata);
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove(CONFLICT_RESOLUTION);
        }
    }
    body
}
