//! Removes fields from a manifest that member clusters do not receive, after the overrides.
//!
//! Facts: fields that the control plane's server owns; a few fields by kind name, whatever the group;
//! the bookkeeping keys that the control plane itself would stamp.

use serde_json::{Map, Value};

/// Metadata that the server of each cluster sets.
const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Metadata that Karmada does not send.
const UNSENT_METADATA: [&str; 2] = ["ownerReferences", "finalizers"];

pub(super) const STAMPED_LABELS: [&str; 6] = [
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
    "resourcebinding.karmada.io/permanent-id",
    "clusterresourcebinding.karmada.io/permanent-id",
    "work.karmada.io/permanent-id",
    "karmada.io/managed",
];

pub(super) const STAMPED_ANNOTATIONS: [&str; 12] = [
    "propagationpolicy.karmada.io/namespace",
    "propagationpolicy.karmada.io/name",
    "clusterpropagationpolicy.karmada.io/name",
    "resourcebinding.karmada.io/namespace",
    "resourcebinding.karmada.io/name",
    "clusterresourcebinding.karmada.io/name",
    "resourcetemplate.karmada.io/uid",
    "resourcetemplate.karmada.io/generation",
    "work.karmada.io/name",
    "work.karmada.io/namespace",
    "resourcetemplate.karmada.io/managed-annotations",
    "resourcetemplate.karmada.io/managed-labels",
];

pub(super) const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";

/// Prunes a manifest. `overwrite` is the policy's conflict resolution.
pub(super) fn prune_manifest(manifest: &mut Value, overwrite: bool) {
    remove_unsent_fields(manifest);
    let Some(metadata) = object_at(manifest, "/metadata") else { return };
    resolve_conflicts(metadata, overwrite);
    remove_stamps(metadata);
    for field in ["labels", "annotations"] {
        if metadata.get(field).is_some_and(|v| v.is_null() || v.as_object().is_some_and(Map::is_empty)) {
            metadata.shift_remove(field);
        }
    }
}

/// Removes the fields that are never sent.
pub(super) fn remove_unsent_fields(manifest: &mut Value) {
    prune_by_kind(manifest);
    remove_server_fields(manifest);
    let Some(metadata) = object_at(manifest, "/metadata") else { return };
    for key in UNSENT_METADATA {
        metadata.shift_remove(key);
    }
}

/// Removes the fields that the server of each cluster sets: the rest of an object that no control plane places is sent as it is.
pub(super) fn remove_server_fields(manifest: &mut Value) {
    let Some(manifest) = manifest.as_object_mut() else { return };
    manifest.shift_remove("status");
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for key in SERVER_METADATA {
        metadata.shift_remove(key);
    }
}

/// Removes the bookkeeping keys from an object's metadata.
pub(super) fn remove_stamps(metadata: &mut Map<String, Value>) {
    take_out(metadata, "labels", &STAMPED_LABELS);
    take_out(metadata, "annotations", &STAMPED_ANNOTATIONS);
}

/// Replaces an annotation that is not valid by the conflict resolution of the policy.
fn resolve_conflicts(metadata: &mut Map<String, Value>, overwrite: bool) {
    let annotation = metadata.get_mut("annotations").and_then(|a| a.get_mut(CONFLICT_RESOLUTION));
    if let Some(value) = annotation.filter(|v| !matches!(v.as_str(), Some("abort" | "overwrite"))) {
        *value = Value::from(if overwrite { "overwrite" } else { "abort" });
    }
}

fn take_out(holder: &mut Map<String, Value>, field: &str, keys: &[&str]) {
    if let Some(map) = holder.get_mut(field).and_then(Value::as_object_mut) {
        for key in keys {
            map.shift_remove(*key);
        }
    }
}

fn prune_by_kind(manifest: &mut Value) {
    match manifest.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "Deployment" => remove_annotations(
            manifest,
            &["deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"],
        ),
        "Job" => prune_job(manifest),
        "Secret" => prune_secret(manifest),
        "ServiceAccount" => prune_service_account(manifest),
        "Service" => prune_service(manifest),
        "PersistentVolumeClaim" => prune_claim(manifest),
        _ => {}
    }
}

fn object_at<'m>(manifest: &'m mut Value, pointer: &str) -> Option<&'m mut Map<String, Value>> {
    manifest.pointer_mut(pointer).and_then(Value::as_object_mut)
}

fn remove_annotations(manifest: &mut Value, keys: &[&str]) {
    if let Some(metadata) = object_at(manifest, "/metadata") {
        take_out(metadata, "annotations", keys);
    }
}

/// Removes the node chosen for a claim; an empty annotation stays.
fn prune_claim(manifest: &mut Value) {
    const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    let node = manifest.get("metadata").and_then(|m| m.get("annotations")?.get(SELECTED_NODE));
    if node.and_then(Value::as_str) != Some("") {
        remove_annotations(manifest, &[SELECTED_NODE]);
    }
}

/// Removes what the Job controller adds; emptied maps stay.
fn prune_job(manifest: &mut Value) {
    let manual = manifest.pointer("/spec/manualSelector").and_then(Value::as_bool) == Some(true);
    if !manual {
        if let Some(selector) = object_at(manifest, "/spec/selector") {
            take_out(selector, "matchLabels", &["controller-uid", "batch.kubernetes.io/controller-uid"]);
        }
        if let Some(metadata) = object_at(manifest, "/spec/template/metadata") {
            let keys = [
                "controller-uid",
                "job-name",
                "batch.kubernetes.io/controller-uid",
                "batch.kubernetes.io/job-name",
            ];
            take_out(metadata, "labels", &keys);
        }
    }
    if let Some(spec) = object_at(manifest, "/spec") {
        spec.shift_remove("ttlSecondsAfterFinished");
    }
}

/// Removes the data of a token, which belongs to the cluster that issued it.
fn prune_secret(manifest: &mut Value) {
    let kind = manifest.get("type").and_then(Value::as_str);
    if kind != Some("kubernetes.io/service-account-token") {
        return;
    }
    remove_annotations(manifest, &["kubernetes.io/service-account.uid"]);
    if let Some(data) = manifest.get_mut("data") {
        *data = Value::Null;
    }
}

/// Removes generated token Secrets. Like Karmada, it skips the entry after a removed one.
fn prune_service_account(manifest: &mut Value) {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let prefix = format!("{name}-token-");
    let Some(secrets) = manifest.get_mut("secrets").and_then(Value::as_array_mut) else { return };
    let mut at = 0;
    while let Some(secret) = secrets.get(at) {
        let generated = secret.get("name").and_then(Value::as_str).is_some_and(|n| n.starts_with(&prefix));
        if generated {
            secrets.remove(at);
        }
        at += 1;
    }
}

fn prune_service(manifest: &mut Value) {
    let Some(spec) = object_at(manifest, "/spec") else { return };
    if spec.get("clusterIP").is_some_and(|ip| ip.as_str() != Some("None")) {
        spec.shift_remove("clusterIP");
        spec.shift_remove("clusterIPs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_two_tokens_in_a_row_the_second_survives() {
        let mut account = json!({"kind": "ServiceAccount", "metadata": {"name": "a"},
            "secrets": [{"name": "a-token-1"}, {"name": "a-token-2"}, {"name": "other"}]});
        prune_manifest(&mut account, false);
        assert_eq!(account["secrets"], json!([{"name": "a-token-2"}, {"name": "other"}]));
    }

    #[test]
    fn a_headless_service_keeps_its_address() {
        let mut service = json!({"kind": "Service", "metadata": {}, "spec": {"clusterIP": "None"}});
        prune_manifest(&mut service, false);
        assert_eq!(service["spec"]["clusterIP"], "None");
    }
}
