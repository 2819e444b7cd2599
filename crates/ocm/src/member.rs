//! What the agent of a member cluster writes for a manifest, given the live object.
//!
//! Facts: the agent adopts what exists. An update keeps labels, annotations, owners and finalizers of the live object, and
//! replaces everything else; a key that ends in `-` removes the label or annotation without it. Of some kinds only parts
//! are compared and replaced: of namespaces and service accounts nothing, of Services what a hash of the manifest says.
//! Owners of an object that is applied on the server are patched afterwards.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value, json};

use federate_dialect::scheduler_state::compute_digest;
use federate_dialect::{ControlPlaneAction, SyncOp};
use federate_kubernetes::Object;

use crate::agent::{FIELD_MANAGER, ManifestStep, ServerSideStep};
use crate::kinds::WORK_GROUP;

/// The annotation with a hash of the spec of a Service.
pub(crate) const SPEC_HASH: &str = "operator.openshift.io/spec-hash";

/// The annotation with a hash of a manifest of which fields are ignored.
pub(crate) const CONFIG_HASH: &str = "open-cluster-management.io/config-spec-hash";

/// The status of an action without problems.
const DONE: &str = "OK";

/// The name and uid of the work that owns an object which federate has applied.
const MARK: &str = "federate";

/// An object in a member that owns the objects of a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkOwner {
    /// The name of the `AppliedManifestWork`.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl WorkOwner {
    fn reference(&self) -> Value {
        json!({
            "apiVersion": "work.open-cluster-management.io/v1",
            "kind": OWNER_KIND,
            "name": self.name,
            "uid": self.uid,
        })
    }
}

/// A write of the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentWrite {
    /// The object is created.
    Create(Value),
    /// The object is replaced.
    Update(Value),
    /// The object is deleted, to be created anew.
    Delete,
    /// The manifest is applied on the server.
    Apply(Value),
    /// The owners are patched.
    Patch(Value),
}

/// The writes for a manifest, in order.
pub fn list_writes(
    step: &ManifestStep,
    manifest: &Value,
    owner: &WorkOwner,
    live: Option<&Value>,
) -> Vec<AgentWrite> {
    match (step.strategy.as_str(), &step.apply) {
        ("ReadOnly", _) => Vec::new(),
        ("CreateOnly", _) => match live {
            None => vec![AgentWrite::Create(new_object(step, manifest, owner))],
            Some(live) => patch_owners(step, owner, Some(live)).into_iter().collect(),
        },
        (_, Some(apply)) => apply_on_server(step, apply, manifest, owner, live),
        _ => match live {
            None => vec![AgentWrite::Create(new_object(step, manifest, owner))],
            Some(live) => update_object(step, manifest, owner, live),
        },
    }
}

/// A manifest as it is created.
fn new_object(step: &ManifestStep, manifest: &Value, owner: &WorkOwner) -> Value {
    let mut body = crate::agent::clean_manifest(manifest);
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for map in ["labels", "annotations"] {
            if let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) {
                entries.retain(|key, _| !key.ends_with('-'));
            }
        }
        if step.is_owned {
            metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
        } else if is_typed(&step.object.kind) {
            metadata.shift_remove("ownerReferences");
        }
    }
    if is_typed(&step.object.kind) {
        complete_typed(&step.object.kind, &mut body);
        if step.object.kind == "Service" {
            annotate(&mut body, SPEC_HASH, &compute_digest(&manifest["spec"]));
        }
    }
    body
}

/// The fields that a kind has in the types of Kubernetes, whatever a manifest says.
fn complete_typed(kind: &str, body: &mut Value) {
    let Some(map) = body.as_object_mut() else { return };
    if map.get("status").is_some_and(|status| *status == json!({})) || kind == "ServiceAccount" {
        map.shift_remove("status");
    }
    if kind == "Namespace" {
        map.entry("spec").or_insert_with(|| json!({}));
    }
    if kind == "Secret"
        && let Some(Value::Object(texts)) = map.shift_remove("stringData")
    {
        let data = map.entry("data").or_insert_with(|| json!({}));
        for (key, text) in texts {
            data[key.as_str()] = BASE64_STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
    }
}

/// Whether the agent knows the type of a kind, and compares its parts.
fn is_typed(kind: &str) -> bool {
    matches!(
        kind,
        "Namespace"
            | "Service"
            | "Pod"
            | "ServiceAccount"
            | "ConfigMap"
            | "Secret"
            | "NetworkPolicy"
            | "Role"
            | "RoleBinding"
            | "ClusterRole"
            | "ClusterRoleBinding"
    )
}

/// The fields beside the metadata that are compared and replaced.
fn compared_fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "ConfigMap" => &["data", "binaryData"],
        "Secret" => &["data", "type"],
        "Role" | "ClusterRole" => &["rules", "aggregationRule"],
        "RoleBinding" | "ClusterRoleBinding" => &["roleRef", "subjects"],
        "NetworkPolicy" | "Pod" => &["spec"],
        _ => &[],
    }
}

fn update_object(step: &ManifestStep, manifest: &Value, owner: &WorkOwner, live: &Value) -> Vec<AgentWrite> {
    let manifest = crate::agent::clean_manifest(manifest);
    if is_typed(&step.object.kind) {
        update_typed(step, manifest, owner, live)
    } else {
        update_generic(step, manifest, owner, live)
    }
}

/// The labels or annotations of an object.
fn metadata_map(body: &Value, map: &str) -> Map<String, Value> {
    body["metadata"][map].as_object().cloned().unwrap_or_default()
}

/// Merges labels or annotations into those of a live object. Returns whether they change.
fn merge_map(live: &Value, manifest: &Value, map: &str) -> (Map<String, Value>, bool) {
    let before = metadata_map(live, map);
    let mut merged = before.clone();
    for (key, value) in metadata_map(manifest, map) {
        match key.strip_suffix('-') {
            Some(removed) => drop(merged.shift_remove(removed)),
            None => drop(merged.insert(key, value)),
        }
    }
    let is_changed = merged != before;
    (merged, is_changed)
}

/// The owners of a live object with the work, or without it. Returns whether they change.
fn merge_owners(step: &ManifestStep, owner: &WorkOwner, live: &Value) -> (Vec<Value>, bool) {
    let before = live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let mut merged = before.clone();
    let is_own = |reference: &Value| reference["uid"] == owner.uid.as_str();
    if !step.is_owned {
        merged.retain(|reference| !is_own(reference));
    } else if !merged.iter().any(is_own) {
        merged.push(owner.reference());
    }
    let is_changed = merged != before;
    (merged, is_changed)
}

/// An object without its metadata and its status.
fn without_metadata(body: &Value) -> Map<String, Value> {
    let mut content = body.as_object().cloned().unwrap_or_default();
    content.shift_remove("metadata");
    content.shift_remove("status");
    content
}

/// Replaces everything but the metadata.
fn update_generic(
    step: &ManifestStep,
    mut manifest: Value,
    owner: &WorkOwner,
    live: &Value,
) -> Vec<AgentWrite> {
    let (labels, labels_change) = merge_map(live, &manifest, "labels");
    let (annotations, annotations_change) = merge_map(live, &manifest, "annotations");
    let (owners, owners_change) = merge_owners(step, owner, live);
    let same_metadata = !(labels_change || annotations_change || owners_change);
    if same_metadata && without_metadata(live) == without_metadata(&manifest) {
        return Vec::new();
    }
    let finalizers = live["metadata"].get("finalizers").cloned();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), labels.into());
        metadata.insert("annotations".to_owned(), annotations.into());
        metadata.insert("ownerReferences".to_owned(), owners.into());
        match finalizers {
            Some(finalizers) => drop(metadata.insert("finalizers".to_owned(), finalizers)),
            None => drop(metadata.shift_remove("finalizers")),
        }
    }
    if manifest.get("status").is_some_and(|status| *status == json!({})) {
        manifest.as_object_mut().map(|map| map.shift_remove("status"));
    }
    vec![AgentWrite::Update(manifest)]
}

fn service_type(body: &Value) -> &str {
    body["spec"]["type"].as_str().unwrap_or("ClusterIP")
}

/// Replaces the parts of a kind that are compared.
fn update_typed(
    step: &ManifestStep,
    mut manifest: Value,
    owner: &WorkOwner,
    live: &Value,
) -> Vec<AgentWrite> {
    let kind = step.object.kind.as_str();
    complete_typed(kind, &mut manifest);
    if kind == "Service" {
        let hash = compute_digest(&manifest["spec"]);
        annotate(&mut manifest, SPEC_HASH, &hash);
    }
    if kind == "Secret" && live["type"] != manifest["type"] && live.get("type").is_some() {
        return vec![AgentWrite::Delete, AgentWrite::Create(new_object(step, &manifest, owner))];
    }
    let mut body = live.clone();
    let mut is_changed = false;
    let mut metadata = body["metadata"].as_object().cloned().unwrap_or_default();
    for map in ["labels", "annotations"] {
        let (merged, differs) = merge_map(live, &manifest, map);
        is_changed |= differs;
        set_or_remove(&mut metadata, map, merged.into());
    }
    let (owners, differs) = merge_owners(step, owner, live);
    is_changed |= differs;
    set_or_remove(&mut metadata, "ownerReferences", owners.into());
    body["metadata"] = metadata.into();
    if kind == "Service" {
        is_changed |= live["spec"]["selector"] != manifest["spec"]["selector"];
        is_changed |= service_type(live) != service_type(&manifest);
        let address = live["spec"].get("clusterIP").cloned();
        body["spec"] = manifest["spec"].clone();
        if let Some(address) = address {
            body["spec"]["clusterIP"] = address;
        }
    }
    for field in compared_fields(kind) {
        let (wanted, found) = (manifest.get(*field), live.get(*field));
        is_changed |= wanted != found;
        if let Some(map) = body.as_object_mut() {
            match wanted {
                Some(wanted) => drop(map.insert((*field).to_owned(), wanted.clone())),
                None => drop(map.shift_remove(*field)),
            }
        }
    }
    complete_typed(kind, &mut body);
    if is_changed { vec![AgentWrite::Update(body)] } else { Vec::new() }
}

/// Sets a field, or removes it if its value is empty.
fn set_or_remove(metadata: &mut Map<String, Value>, field: &str, value: Value) {
    let is_empty =
        value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
    if is_empty {
        metadata.shift_remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

fn annotate(body: &mut Value, key: &str, value: &str) {
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(key.to_owned(), value.into());
    }
}

/// Applies a manifest on the server, and patches the owners.
fn apply_on_server(
    step: &ManifestStep,
    apply: &ServerSideStep,
    manifest: &Value,
    owner: &WorkOwner,
    live: Option<&Value>,
) -> Vec<AgentWrite> {
    let mut body = crate::agent::clean_manifest(manifest);
    if let (Some(_), Some(Ok(without))) = (live, &apply.without_ignored) {
        body = without.clone();
    }
    if let Some(map) = body.as_object_mut() {
        map.shift_remove("status");
    }
    if apply.without_ignored.is_some() {
        let hash = compute_digest(&body);
        annotate(&mut body, CONFIG_HASH, &hash);
    }
    let mut writes = vec![AgentWrite::Apply(body)];
    writes.extend(patch_owners(step, owner, live));
    writes
}

fn patch_owners(step: &ManifestStep, owner: &WorkOwner, live: Option<&Value>) -> Option<AgentWrite> {
    let none = Value::Null;
    let live = live.unwrap_or(&none);
    let (owners, is_changed) = merge_owners(step, owner, live);
    let mut metadata = json!({"ownerReferences": owners});
    if let Some(uid) = live["metadata"].get("uid") {
        metadata["uid"] = uid.clone();
    }
    is_changed.then(|| AgentWrite::Patch(json!({"metadata": metadata})))
}

/// What the agent does about an object that federate applies in its place.
pub(crate) fn reconcile(step: &ManifestStep, manifest: &Value, live: Option<&Object>) -> ControlPlaneAction {
    let owner = WorkOwner { name: String::new(), uid: String::new() };
    // Owners are the agent's own.
    let step = ManifestStep { is_owned: false, ..step.clone() };
    let adopts = live.is_some_and(|live| !is_owned_by_work(live));
    let act = |op| ControlPlaneAction { op, adopts, status: DONE, hint: None };
    if step.strategy == "ReadOnly" {
        return ControlPlaneAction::do_nothing("ReadOnly")
            .with_hint("its update strategy in the work is `ReadOnly`");
    }
    let writes = list_writes(&step, manifest, &owner, live.map(|live| &live.body));
    match (writes.into_iter().next(), &step.apply) {
        (Some(AgentWrite::Create(body)), _) => act(SyncOp::Create(body)),
        (Some(AgentWrite::Update(body)), _) => act(SyncOp::Update(body)),
        (Some(AgentWrite::Delete), _) => act(SyncOp::Delete(Map::new())),
        (Some(AgentWrite::Apply(manifest)), Some(apply)) => {
            act(SyncOp::Apply { manifest, manager: FIELD_MANAGER, force: apply.force })
        }
        _ => ControlPlaneAction { adopts, ..ControlPlaneAction::do_nothing(DONE) },
    }
}

/// The kind of the owner of objects that the agent applies.
const OWNER_KIND: &str = "AppliedManifestWork";

/// Whether a work owns a live object.
fn is_owned_by_work(live: &Object) -> bool {
    let owners = live.value_at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| {
        let group = owner["apiVersion"].as_str().and_then(|version| version.split_once('/'));
        owner["kind"] == OWNER_KIND && group.is_some_and(|(group, _)| group == WORK_GROUP)
    })
}

/// Marks a live object as one that the agent has applied: a work owns it.
pub(crate) fn mark_as_managed(live: &mut Object) {
    if is_owned_by_work(live) {
        return;
    }
    let owner = WorkOwner { name: MARK.to_owned(), uid: MARK.to_owned() };
    let Some(metadata) = live.body.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let owners = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
    if let Some(owners) = owners.as_array_mut() {
        owners.push(owner.reference());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_owns_what_the_agent_or_federate_has_applied() {
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}});
        let mut live = Object::from_manifest(body, "");
        assert!(!is_owned_by_work(&live));
        mark_as_managed(&mut live);
        mark_as_managed(&mut live);
        assert!(is_owned_by_work(&live));
        assert_eq!(live.body["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        let other = json!([{"apiVersion": "example.com/v1", "kind": OWNER_KIND, "name": "w", "uid": "w"}]);
        live.body["metadata"]["ownerReferences"] = other;
        assert!(!is_owned_by_work(&live));
    }

    #[test]
    fn keys_that_end_in_a_dash_remove_others() {
        let live = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        let manifest = json!({"metadata": {"labels": {"a-": "", "c": "3"}}});
        let (merged, is_changed) = merge_map(&live, &manifest, "labels");
        assert_eq!((Value::Object(merged), is_changed), (json!({"b": "2", "c": "3"}), true));
    }
}
