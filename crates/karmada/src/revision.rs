//! Writes one cluster's replicas into a manifest, before any override.
//!
//! Facts: built-in kinds have the field set only where it exists; third-party kinds always. A Job's
//! completions are divided in proportion to its replicas when the policy divides.

use serde_json::{Map, Value};

use super::interpreter::{Interpreter, InterpreterFailure};
use super::schedule::compute_shares;
use super::version::DivisionMethod;
use super::{kinds, server_defaults};
use federate_kubernetes::sops::is_ciphertext;
use federate_kubernetes::{Object, ObjectRef};

/// The numbers for one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReplicaRevision {
    /// The cluster's replicas.
    pub(super) replicas: i64,
    /// The cluster's share of the completions, where they are divided.
    pub(super) completions: Option<i64>,
}

/// Writes a revision as the object's interpreter does, of which scripts see the object as `seen`. A `Job` of any group has its completions written, too.
pub(super) fn write_revision(
    interpreter: &Interpreter<'_>,
    object: &mut Object,
    seen: &Object,
    revision: ReplicaRevision,
) -> Result<(), InterpreterFailure> {
    match interpreter.revise_replicas(seen, revision.replicas) {
        Some(revised) => {
            let restored = server_defaults::without_defaults(Some(&object.body), Some(&seen.body), revised?);
            object.body = restored.unwrap_or_default();
            without_nulls(&mut object.body);
        }
        None => revise_replicas(&mut object.body, revision.replicas),
    }
    if let Some(completions) = revision.completions {
        replace_number(&mut object.body, "completions", Value::from(completions));
    }
    Ok(())
}

/// Whether the replicas that are written into an object of a kind are those that it has then.
pub(super) fn is_counted_as_written(object: &ObjectRef) -> bool {
    matches!(
        (object.api_version.as_str(), object.kind.as_str()),
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") | ("batch/v1", "Job") | ("v1", "Pod")
    )
}

/// Writes a number of replicas into an object of a built-in kind.
pub(super) fn revise_replicas(manifest: &mut Value, replicas: i64) {
    let all = replicas;
    let replicas = Value::from(replicas);
    let (version, kind) = kinds::version_and_kind(manifest);
    let (version, kind) = (version.to_owned(), kind.to_owned());
    match (version.as_str(), kind.as_str()) {
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") => {
            replace_number(manifest, "replicas", replicas);
        }
        ("batch/v1", "Job") => replace_number(manifest, "parallelism", replicas),
        ("apps.kruise.io/v1alpha1", "CloneSet" | "UnitedDeployment")
        | ("apps.kruise.io/v1beta1", "StatefulSet") => set_spec_field(manifest, "replicas", replicas),
        ("apps.kruise.io/v1alpha1", "BroadcastJob") | ("argoproj.io/v1alpha1", "Workflow") => {
            set_spec_field(manifest, "parallelism", replicas);
        }
        ("ray.io/v1", "RayService") => share_workers(manifest, all),
        _ => return,
    }
    if !matches!(version.as_str(), "apps/v1" | "batch/v1") {
        without_nulls(manifest);
    }
}

/// Removes nulls: Karmada revises third-party kinds by scripts, which do not see them.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(without_nulls);
        }
        _ => {}
    }
}

/// Replaces a number, also one that SOPS encrypted: that it is another one then is an error.
fn replace_number(manifest: &mut Value, field: &str, value: Value) {
    let is_number = |present: &&mut Value| present.is_number() || present.as_str().is_some_and(is_ciphertext);
    let present = manifest.get_mut("spec").and_then(|spec| spec.get_mut(field));
    if let Some(present) = present.filter(is_number) {
        *present = value;
    }
}

fn set_spec_field(manifest: &mut Value, field: &str, value: Value) {
    let Some(manifest) = manifest.as_object_mut() else { return };
    let spec = manifest.entry("spec").or_insert_with(|| Value::Object(Map::new()));
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(field.to_owned(), value);
    }
}

/// Writes the workers of a Ray cluster: all replicas but the head. Several groups share them in proportion to
/// their present workers, or equally when there are none.
fn share_workers(manifest: &mut Value, replicas: i64) {
    let workers = (replicas - 1).max(0);
    let groups =
        manifest.pointer_mut("/spec/rayClusterConfig/workerGroupSpecs").and_then(Value::as_array_mut);
    let Some(groups) = groups else { return };
    let current: Vec<i64> =
        groups.iter().map(|g| g.get("replicas").and_then(Value::as_i64).unwrap_or(0)).collect();
    for (group, share) in
        groups.iter_mut().filter_map(Value::as_object_mut).zip(worker_shares(workers, &current))
    {
        group.insert("replicas".to_owned(), Value::from(share));
    }
}

fn worker_shares(workers: i64, current: &[i64]) -> Vec<i64> {
    let count = i64::try_from(current.len()).unwrap_or(i64::MAX);
    let sum: i64 = current.iter().sum();
    if workers == 0 || count == 0 {
        return vec![0; current.len()];
    }
    if sum == 0 {
        return (0..count).map(|at| workers / count + i64::from(at < workers % count)).collect();
    }
    let mut left = workers;
    let last = current.len() - 1;
    let mut shares = Vec::with_capacity(current.len());
    for (at, replicas) in current.iter().enumerate() {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "the rule is in floats"
        )]
        let rounded = (workers as f64 * (*replicas as f64 / sum as f64) + 0.5).floor() as i64;
        let share = if at == last { left } else { rounded };
        left -= share;
        shares.push(share);
    }
    shares
}

/// Each cluster's share of a Job's completions, in the order of `replicas` (clusters by name).
pub(super) fn divide_completions(
    template: &Value,
    replicas: &[i64],
    division: DivisionMethod,
    descending: bool,
) -> Option<Vec<i64>> {
    let is_job = template.get("kind")?.as_str()? == "Job";
    let completions = template.get("spec")?.get("completions")?.as_i64()?;
    is_job.then(|| compute_shares(division, completions, replicas, |_| 0, descending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn completions_follow_parallelism() {
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 4, "completions": 9}});
        assert_eq!(divide_completions(&job, &[3, 1], DivisionMethod::Webster, false), Some(vec![7, 2]));
    }

    #[test]
    fn workers_are_shared() {
        assert_eq!(worker_shares(5, &[0, 0]), [3, 2]);
        assert_eq!(worker_shares(5, &[1, 1, 1]), [2, 2, 1]);
        assert_eq!(worker_shares(0, &[3, 1]), [0, 0]);
        assert_eq!(worker_shares(4, &[7]), [4]);
    }

    #[test]
    fn built_in_kinds_get_no_new_field() {
        let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}});
        revise_replicas(&mut deployment, 3);
        assert_eq!(deployment["spec"], json!({}));
    }
}
