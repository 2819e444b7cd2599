//! The fields of the live object that an update retains.
//!
//! Facts: labels and annotations that were added in the member are retained; those that were sent before and
//! are no longer sent are removed. Some kinds have fields that belong to the member. Nothing else is retained.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::json::{array_at, string_at};
use super::super::keys;
use super::super::types::TypeConfig;
use super::{metadata_map, metadata_mut};
use federate_kubernetes::Object;
use federate_kubernetes::object::value_at;

/// The mount path of the service account in a pod.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A field of the live object with the wrong type.
#[derive(Debug)]
pub(super) struct FieldRetentionFailure;

/// Copies the retained fields of the live object into the new one.
pub(super) fn retain_fields(
    template: &Object,
    config: &TypeConfig,
    body: &mut Value,
    live: &Value,
) -> Result<(), FieldRetentionFailure> {
    match value_at(live, &["metadata", "resourceVersion"]) {
        Some(version) => drop(metadata_mut(body).insert("resourceVersion".to_owned(), version.clone())),
        None => drop(metadata_mut(body).shift_remove("resourceVersion")),
    }
    merge_maps(body, live, "annotations", keys::SENT_ANNOTATIONS);
    merge_maps(body, live, "labels", keys::SENT_LABELS);
    retain_by_kind(template, body, live)?;
    retain_replicas(template, config, body, live)
}

/// Merges maps. Sent keys win. Other keys of the live object stay, unless they were sent before.
fn merge_maps(body: &mut Value, live: &Value, field: &str, sent: &str) {
    let annotations = value_at(live, &["metadata", "annotations", sent]).and_then(Value::as_str);
    let gone: BTreeSet<&str> = annotations.unwrap_or_default().split(',').collect();
    let theirs = value_at(live, &["metadata", field]).and_then(Value::as_object);
    let desired = metadata_map(body, field);
    for (key, value) in theirs.into_iter().flatten() {
        if !desired.contains_key(key) && !gone.contains(key.as_str()) {
            desired.insert(key.clone(), value.clone());
        }
    }
}

fn retain_by_kind(template: &Object, body: &mut Value, live: &Value) -> Result<(), FieldRetentionFailure> {
    match (template.id.group(), template.id.kind.as_str()) {
        ("", "Service") => retain_service(body, live),
        ("", "ServiceAccount")
            if array_at(body, &["secrets"]).is_empty() && !array_at(live, &["secrets"]).is_empty() =>
        {
            body["secrets"] = live["secrets"].clone();
        }
        ("batch", "Job") if value_at(body, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) => {
            copy_live(body, live, &["spec", "selector"]);
            copy_live(body, live, &["spec", "template", "metadata", "labels"]);
        }
        ("", "PersistentVolume") => copy_live(body, live, &["spec", "claimRef"]),
        ("", "PersistentVolumeClaim") => copy_live(body, live, &["spec", "volumeName"]),
        ("", "Pod") => return retain_pod(body, live),
        ("argoproj.io", "Workflow") => copy_live(body, live, &["status"]),
        _ => {}
    }
    Ok(())
}

/// Sets a field to the live value, if there is one.
fn copy_live(body: &mut Value, live: &Value, path: &[&str]) {
    if let Some(value) = value_at(live, path) {
        set_at(body, path, value.clone());
    }
}

fn set_at(body: &mut Value, path: &[&str], value: Value) {
    let mut target = body;
    for key in path {
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        target = &mut target[*key];
    }
    *target = value;
}

fn retain_service(body: &mut Value, live: &Value) {
    if !string_at(live, &["spec", "clusterIP"]).is_empty() {
        copy_live(body, live, &["spec", "clusterIP"]);
    }
    let Some(theirs) = value_at(live, &["spec", "ports"]).and_then(Value::as_array) else { return };
    let mut ports = array_at(body, &["spec", "ports"]).to_vec();
    for port in &mut ports {
        let mut node_ports = theirs
            .iter()
            .filter(|other| ["name", "protocol", "port"].iter().all(|key| port.get(key) == other.get(key)))
            .filter_map(|other| other.get("nodePort"));
        if let Some(node_port) = node_ports.next_back() {
            port["nodePort"] = node_port.clone();
        }
    }
    set_at(body, &["spec", "ports"], ports.into());
}

fn retain_pod(body: &mut Value, live: &Value) -> Result<(), FieldRetentionFailure> {
    for field in ["ephemeralContainers", "volumes"] {
        copy_live(body, live, &["spec", field]);
    }
    for field in ["serviceAccountName", "serviceAccount", "nodeName", "priority", "dnsConfig"] {
        let is_empty = match value_at(body, &["spec", field]) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(_) => false,
        };
        if is_empty {
            copy_live(body, live, &["spec", field]);
        }
    }
    for list in ["initContainers", "containers"] {
        let theirs = array_at(live, &["spec", list]);
        let desired = value_at(body, &["spec", list]).and_then(Value::as_array).cloned();
        let desired = desired.map(|desired| {
            desired.into_iter().map(|c| retain_container(c, theirs)).collect::<Result<_, _>>()
        });
        set_at(body, &["spec", list], desired.transpose()?.unwrap_or(Value::Null));
    }
    Ok(())
}

/// A container with the retained fields of the live container of the same name.
fn retain_container(mut desired: Value, theirs: &[Value]) -> Result<Value, FieldRetentionFailure> {
    let Some(live) = theirs.iter().find(|c| c.get("name") == desired.get("name")) else { return Ok(desired) };
    let Value::Object(map) = &mut desired else { return Ok(desired) };
    match live.get("resources") {
        Some(resources) => drop(map.insert("resources".to_owned(), resources.clone())),
        None => drop(map.shift_remove("resources")),
    }
    let mounts = array_at(live, &["volumeMounts"]);
    let Some(index) = mounts.iter().position(mounts_token) else { return Ok(desired) };
    let own = map.entry("volumeMounts").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(own) = own else { return Err(FieldRetentionFailure) };
    if !own.iter().any(mounts_token) {
        if index > own.len() {
            return Err(FieldRetentionFailure);
        }
        own.insert(index, mounts[index].clone());
    }
    Ok(desired)
}

fn mounts_token(mount: &Value) -> bool {
    string_at(mount, &["mountPath"]) == TOKEN_PATH
}

fn retain_replicas(
    template: &Object,
    config: &TypeConfig,
    body: &mut Value,
    live: &Value,
) -> Result<(), FieldRetentionFailure> {
    if template.annotation("kubeadmiral.io/retain-replicas") != Some("true") {
        return Ok(());
    }
    if config.replicas.is_empty() {
        return Err(FieldRetentionFailure);
    }
    let path: Vec<&str> = config.replicas.iter().map(String::as_str).collect();
    match value_at(live, &path) {
        None => {}
        Some(value) if value.is_i64() => set_at(body, &path, value.clone()),
        Some(_) => return Err(FieldRetentionFailure),
    }
    Ok(())
}
