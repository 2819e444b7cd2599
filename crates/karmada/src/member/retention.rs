//! The retention of fields of the live object when it is updated.
//!
//! Facts: finalizers and owners are the member's; labels and annotations that the member added stay,
//! those that had been sent before go; some kinds have fields that belong to the member.

use std::collections::BTreeSet;

use serde_json::Value;

pub use super::body::RetainFailure;
use super::body::ensure_object;
use super::{pod, stamp};
use crate::interpreter::Interpreter;
use crate::kinds;
use crate::version::{KarmadaBehaviour, ServiceAccounts};
use federate_dialect::release::Release;
use federate_kubernetes::Object;
use federate_kubernetes::object::value_at;

/// The object that a release sends instead of `desired`, given the live object.
pub fn retain_fields(mut desired: Value, live: &Object, release: Release) -> Result<Value, RetainFailure> {
    retain_metadata(&mut desired, live);
    retain_by_kind(&mut desired, live, KarmadaBehaviour::for_release(release).service_accounts)?;
    Ok(desired)
}

/// The same with customizations: a retention script takes precedence over the built-in rules.
pub(crate) fn retain_with_scripts(
    interpreter: &Interpreter<'_>,
    mut desired: Value,
    live: &Object,
    release: Release,
) -> Result<Value, RetainFailure> {
    retain_metadata(&mut desired, live);
    match interpreter.retain_live_fields(&desired, &live.body, &live.id) {
        Some(retained) => retained.map_err(|failed| RetainFailure { why: Some(failed.message) }),
        None => retain_by_kind(&mut desired, live, KarmadaBehaviour::for_release(release).service_accounts)
            .map(|()| desired),
    }
}

/// Retains metadata.
pub(super) fn retain_metadata(body: &mut Value, live: &Object) {
    for key in ["resourceVersion", "finalizers", "ownerReferences"] {
        let kept = live.value_at(&["metadata", key]).filter(|kept| !kept.is_null() && *kept != "");
        let Some(metadata) = ensure_object(body, &["metadata"]) else { return };
        match kept {
            Some(kept) => drop(metadata.insert(key.to_owned(), kept.clone())),
            None => drop(metadata.shift_remove(key)),
        }
    }
    merge_entries(body, live, "annotations", stamp::SENT_ANNOTATIONS);
    merge_entries(body, live, "labels", stamp::SENT_LABELS);
}

/// Merges the member's entries into the map that is sent, which wins. Entries that had been sent before go.
fn merge_entries(body: &mut Value, live: &Object, field: &str, sent: &str) {
    let gone: BTreeSet<&str> = live.annotation(sent).unwrap_or_default().split(',').collect();
    let theirs = live.value_at(&["metadata", field]).and_then(Value::as_object);
    for (key, value) in theirs.into_iter().flatten() {
        let desired = value_at(body, &["metadata", field, key]);
        if desired.is_none()
            && !gone.contains(key.as_str())
            && let Some(map) = ensure_object(body, &["metadata", field])
        {
            map.insert(key.clone(), value.clone());
        }
    }
}

/// Retains the fields of built-in kinds that belong to the member.
pub(crate) fn retain_by_kind(
    body: &mut Value,
    live: &Object,
    accounts: ServiceAccounts,
) -> Result<(), RetainFailure> {
    match kinds::version_and_kind(body) {
        ("apps/v1", "Deployment") => retain_replicas(body, live),
        ("v1", "Pod") => pod::retain_pod(body, live),
        ("v1", "Service") => retain_service(body, live),
        ("v1", "ServiceAccount") => {
            merge_secrets(body, live, "secrets")?;
            match accounts {
                ServiceAccounts::Secrets => Ok(()),
                ServiceAccounts::BothLists => merge_secrets(body, live, "imagePullSecrets"),
            }
        }
        ("v1", "PersistentVolumeClaim") => {
            let volume = read_typed(live, &["spec", "volumeName"], Value::as_str)?;
            keep_field(body, &["spec"], "volumeName", volume.filter(|name| !name.is_empty()).map(Value::from))
        }
        ("v1", "PersistentVolume") => {
            keep_field(body, &["spec"], "claimRef", live.value_at(&["spec", "claimRef"]).cloned())
        }
        ("batch/v1", "Job") => retain_job(body, live),
        ("v1", "Secret") => retain_token(body, live),
        _ => retain_thirdparty(body, live),
    }
}

/// Retains fields of third-party kinds: suspension, and what controllers write.
fn retain_thirdparty(body: &mut Value, live: &Object) -> Result<(), RetainFailure> {
    match kinds::version_and_kind(body) {
        ("argoproj.io/v1alpha1", "Workflow") => {
            keep_field(body, &["spec"], "suspend", given_value(live, &["spec", "suspend"]))?;
            keep_field(body, &[], "status", given_value(live, &["status"]))
        }
        ("apps.kruise.io/v1alpha1", "BroadcastJob") => {
            let path = ["spec", "template", "metadata"];
            keep_field(body, &path, "labels", given_value(live, &["spec", "template", "metadata", "labels"]))
        }
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        | ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease")
        | ("source.toolkit.fluxcd.io/v1", "GitRepository")
        | ("source.toolkit.fluxcd.io/v1beta2", "OCIRepository" | "HelmRepository" | "Bucket" | "HelmChart") => {
            keep_field(body, &["spec"], "suspend", given_value(live, &["spec", "suspend"]))
        }
        _ => Ok(()),
    }
}

/// The value at a path of the live object, unless it is null.
fn given_value(live: &Object, path: &[&str]) -> Option<Value> {
    live.value_at(path).filter(|value| !value.is_null()).cloned()
}

/// Sets a field below `path` to the member's value, if there is one.
fn keep_field(body: &mut Value, path: &[&str], key: &str, value: Option<Value>) -> Result<(), RetainFailure> {
    let Some(value) = value else { return Ok(()) };
    ensure_object(body, path).ok_or_else(RetainFailure::default)?.insert(key.to_owned(), value);
    Ok(())
}

/// A value of the live object, read as its type.
fn read_typed<'o, T>(
    live: &'o Object,
    path: &[&str],
    read: impl Fn(&'o Value) -> Option<T>,
) -> Result<Option<T>, RetainFailure> {
    live.value_at(path).map(|found| read(found).ok_or_else(RetainFailure::default)).transpose()
}

/// Retains replicas where a label requests it; they must exist then.
fn retain_replicas(body: &mut Value, live: &Object) -> Result<(), RetainFailure> {
    let label = value_at(body, &["metadata", "labels", "resourcetemplate.karmada.io/retain-replicas"]);
    if label.and_then(Value::as_str) != Some("true") {
        return Ok(());
    }
    let replicas =
        read_typed(live, &["spec", "replicas"], Value::as_i64)?.ok_or_else(RetainFailure::default)?;
    keep_field(body, &["spec"], "replicas", Some(replicas.into()))
}

fn retain_service(body: &mut Value, live: &Object) -> Result<(), RetainFailure> {
    let port = read_typed(live, &["spec", "healthCheckNodePort"], Value::as_i64)?.filter(|port| *port > 0);
    keep_field(body, &["spec"], "healthCheckNodePort", port.map(Value::from))?;
    let address =
        read_typed(live, &["spec", "clusterIP"], Value::as_str)?.filter(|address| !address.is_empty());
    keep_field(body, &["spec"], "clusterIP", address.map(Value::from))
}

/// Merges a list of Secrets: those that are sent, then the others of the member; an empty list is `null`.
fn merge_secrets(body: &mut Value, live: &Object, field: &str) -> Result<(), RetainFailure> {
    let desired =
        body.get(field).map(|list| list.as_array().ok_or_else(RetainFailure::default)).transpose()?;
    let mut all = desired.cloned().unwrap_or_default();
    for one in read_typed(live, &[field], Value::as_array)?.into_iter().flatten() {
        if !all.iter().any(|other| other.get("name") == one.get("name")) {
            all.push(one.clone());
        }
    }
    let all = if all.is_empty() { Value::Null } else { Value::Array(all) };
    keep_field(body, &[], field, Some(all))
}

/// Retains the labels by which the Job's controller finds its pods.
fn retain_job(body: &mut Value, live: &Object) -> Result<(), RetainFailure> {
    let labels = read_typed(live, &["spec", "selector", "matchLabels"], Value::as_object)?.cloned();
    keep_field(body, &["spec", "selector"], "matchLabels", labels.map(Value::Object))?;
    let labels = read_typed(live, &["spec", "template", "metadata", "labels"], Value::as_object)?.cloned();
    keep_field(body, &["spec", "template", "metadata"], "labels", labels.map(Value::Object))
}

/// Retains the data of a token, which belongs to the cluster that issued it.
fn retain_token(body: &mut Value, live: &Object) -> Result<(), RetainFailure> {
    if body.get("type").and_then(Value::as_str) != Some("kubernetes.io/service-account-token") {
        return Ok(());
    }
    let data = read_typed(live, &["data"], Value::as_object)?.cloned();
    keep_field(body, &[], "data", data.map(Value::Object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::RELEASES;

    fn newest(sent: Value, live: &Object) -> Result<Value, RetainFailure> {
        retain_fields(sent, live, RELEASES.find_latest())
    }

    fn live(body: Value) -> Object {
        Object::from_path("v1", "X", "n", body)
    }

    #[test]
    fn what_had_been_sent_goes_and_what_the_member_added_stays() {
        let there = live(json!({"metadata": {
            "annotations": {"resourcetemplate.karmada.io/managed-labels": "old,app"},
            "labels": {"old": "1", "app": "1", "own": "1"}
        }}));
        let sent = json!({"metadata": {"labels": {"app": "2"}, "finalizers": ["x"]}});
        let kept = newest(sent, &there).unwrap();
        assert_eq!(kept["metadata"]["labels"], json!({"app": "2", "own": "1"}));
        assert_eq!(kept["metadata"].get("finalizers"), None);
    }

    #[test]
    fn replicas_that_are_to_stay_have_to_be_there() {
        let labels = json!({"resourcetemplate.karmada.io/retain-replicas": "true"});
        let sent = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": labels}});
        let there = live(json!({"spec": {"replicas": 7}}));
        assert_eq!(newest(sent.clone(), &there).unwrap()["spec"]["replicas"], 7);
        assert!(newest(sent, &live(json!({"spec": {}}))).is_err());
    }

    #[test]
    fn pods_come_back_as_their_type_is_written() {
        let container = json!({"name": "a", "resources": {"requests": {"cpu": "1000m"}}, "unknown": 1});
        let sent = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [container, {"name": "b"}]}});
        let mounts = json!([{"name": "v", "mountPath": "/v"}]);
        let there =
            live(json!({"spec": {"nodeName": "n", "containers": [{"name": "b", "volumeMounts": mounts}]}}));
        let want = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {}, "spec": {
            "nodeName": "n",
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1"}}},
                {"name": "b", "resources": {}, "volumeMounts": mounts}
            ]
        }});
        assert_eq!(newest(sent, &there).unwrap(), want);
    }

    #[test]
    fn no_secrets_are_null() {
        let sent =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {}, "secrets": [{"name": "a"}]});
        let kept = newest(sent, &live(json!({"secrets": [{"name": "b"}, {"name": "a"}]}))).unwrap();
        assert_eq!(kept["secrets"], json!([{"name": "a"}, {"name": "b"}]));
        assert_eq!(kept["imagePullSecrets"], json!(null));
    }

    #[test]
    fn pull_secrets_of_an_account_stay_since_a_release() {
        let secrets = |name: &str| json!([{"name": name}]);
        let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": secrets(name), "imagePullSecrets": secrets(name)});
        let kept = |release: &str| {
            let release = RELEASES.parse_release(release).unwrap();
            let body = retain_fields(account("sent"), &live(account("there")), release).unwrap();
            ["secrets", "imagePullSecrets"].map(|list| body[list].as_array().map_or(0, Vec::len))
        };
        assert_eq!([kept("1.14"), kept("1.15")], [[2, 1], [2, 2]]);
    }
}
