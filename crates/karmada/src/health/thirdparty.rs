//! The health of third-party kinds that Karmada interprets out of the box.
//!
//! Facts: the behaviour of the interpreters shipped with Karmada for Kruise, Argo Workflows, Volcano,
//! Flink, Flux, Kubeflow, Kyverno, Ray and Spark. An interpreter that compares a
//! missing value fails, and the health is unknown.

use std::cmp::Ordering;

use serde_json::Value;

use super::super::version::{FlinkHealth, KarmadaBehaviour};
use super::{read_conditions, read_text};
use federate_dialect::Health;
use federate_kubernetes::Object;
use federate_kubernetes::object::value_at;

/// The health of an object of a third-party kind.
pub(super) fn interpret_thirdparty(live: &Object, behaviour: &KarmadaBehaviour) -> Health {
    if !behaviour.has_interpreter(&live.id.api_version, &live.id.kind) {
        return Health::unknown("this release has no interpreter for this kind");
    }
    let verdict = match (live.id.api_version.as_str(), live.id.kind.as_str()) {
        ("apps.kruise.io/v1alpha1", "CloneSet") | ("apps.kruise.io/v1beta1", "StatefulSet") => {
            are_replicas_ready(live)
        }
        ("apps.kruise.io/v1alpha1", "UnitedDeployment") if has_no_status(live) => Some(false),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment") => are_replicas_ready(live),
        ("apps.kruise.io/v1alpha1", "DaemonSet") => daemon_set(live),
        ("apps.kruise.io/v1alpha1", "BroadcastJob") => broadcast_job(live),
        ("apps.kruise.io/v1alpha1", "SidecarSet") => Some(sidecar_set(live)),
        ("argoproj.io/v1alpha1", "Workflow") => {
            let phase = live.text_at(&["status", "phase"]);
            let error = behaviour.workflow_error_is_unhealthy && phase == "Error";
            Some(!error && !matches!(phase, "" | "Failed"))
        }
        ("batch.volcano.sh/v1alpha1", "Job") => Some(matches!(
            live.text_at(&["status", "state", "phase"]),
            "Running"
                | "Completed"
                | "Pending"
                | "Aborting"
                | "Aborted"
                | "Restarting"
                | "Completing"
                | "Terminating"
                | "Terminated"
        )),
        ("flink.apache.org/v1beta1", "FlinkDeployment") => {
            Some(is_flink_healthy(live, behaviour.flink_health))
        }
        ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease")
        | ("kustomize.toolkit.fluxcd.io/v1", "Kustomization") => {
            Some(is_ready(live, &["ReconciliationSucceeded"]))
        }
        ("source.toolkit.fluxcd.io/v1", "GitRepository")
        | ("source.toolkit.fluxcd.io/v1beta2", "Bucket" | "HelmRepository" | "OCIRepository") => {
            Some(is_ready(live, &["Succeeded"]))
        }
        ("source.toolkit.fluxcd.io/v1beta2", "HelmChart") => {
            Some(is_ready(live, &["Succeeded", "ChartPullSucceeded"]))
        }
        ("kubeflow.org/v1", "Notebook") => Some(is_notebook_healthy(live)),
        ("kubeflow.org/v1", "PyTorchJob" | "TFJob") => Some(
            live.value_at(&["status", "conditions"]).is_some_and(|list| !list.is_null()) && !has_failed(live),
        ),
        ("kubeflow.org/v2beta1", "MPIJob") => Some(!read_conditions(live).is_empty() && !has_failed(live)),
        ("kyverno.io/v1", "ClusterPolicy" | "Policy") => Some(
            live.value_at(&["status", "ready"])
                .and_then(Value::as_bool)
                .unwrap_or_else(|| is_ready(live, &["Succeeded"])),
        ),
        ("ray.io/v1", "RayCluster") => Some(
            has_true_condition(live, "HeadPodReady")
                && has_true_condition(live, "RayClusterProvisioned")
                && !has_true_condition(live, "RayClusterReplicaFailure"),
        ),
        ("ray.io/v1", "RayJob") => Some(ray_job(live)),
        ("ray.io/v1", "RayService") => Some(has_true_condition(live, "Ready")),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication") => {
            let state =
                live.value_at(&["status", "applicationState", "state"]).filter(|state| !state.is_null());
            Some(state.is_some_and(|state| state != "FAILED"))
        }
        _ => return Health::unknown("this kind has no interpreter of health"),
    };
    match verdict {
        Some(healthy) => Health::healthy_if(healthy, "its status does not say that it is well"),
        None => Health::unknown("its status lacks what its interpreter looks at"),
    }
}

fn has_no_status(live: &Object) -> bool {
    live.value_at(&["status"]).is_none_or(Value::is_null)
}

/// Whether any condition of a type is true.
fn has_true_condition(live: &Object, of_type: &str) -> bool {
    read_conditions(live)
        .iter()
        .any(|one| read_text(one, "type") == of_type && read_text(one, "status") == "True")
}

fn has_failed(live: &Object) -> bool {
    has_true_condition(live, "Failed")
}

/// Whether the object is ready for one of these reasons.
fn is_ready(live: &Object, reasons: &[&str]) -> bool {
    read_conditions(live).iter().any(|one| {
        read_text(one, "type") == "Ready"
            && read_text(one, "status") == "True"
            && reasons.contains(&read_text(one, "reason"))
    })
}

/// A value that is not `null`.
fn find_value<'o>(live: &'o Object, path: &[&str]) -> Option<&'o Value> {
    live.value_at(path).filter(|value| !value.is_null())
}

/// How two numbers compare; `None` for other values.
fn compare_numbers(a: Option<&Value>, b: Option<&Value>) -> Option<Ordering> {
    a?.as_f64()?.partial_cmp(&b?.as_f64()?)
}

fn is_observed(live: &Object) -> Option<bool> {
    let status = find_value(live, &["status"])?;
    let seen = value_at(status, &["observedGeneration"]).filter(|seen| !seen.is_null());
    Some(seen == find_value(live, &["metadata", "generation"]))
}

fn are_replicas_ready(live: &Object) -> Option<bool> {
    if !is_observed(live)? {
        return Some(false);
    }
    let updated = find_value(live, &["status", "updatedReplicas"]);
    if let Some(wanted) = find_value(live, &["spec", "replicas"])
        && compare_numbers(updated, Some(wanted))?.is_lt()
    {
        return Some(false);
    }
    Some(compare_numbers(find_value(live, &["status", "availableReplicas"]), updated)?.is_ge())
}

fn daemon_set(live: &Object) -> Option<bool> {
    if !is_observed(live)? {
        return Some(false);
    }
    let updated = find_value(live, &["status", "updatedNumberScheduled"]);
    if compare_numbers(updated, find_value(live, &["status", "desiredNumberScheduled"]))?.is_lt() {
        return Some(false);
    }
    Some(compare_numbers(find_value(live, &["status", "numberAvailable"]), updated)?.is_ge())
}

fn broadcast_job(live: &Object) -> Option<bool> {
    let status = find_value(live, &["status"])?;
    Some(
        !is_zero(status, "desired")
            && is_zero(status, "failed")
            && !(is_zero(status, "succeeded") && is_zero(status, "active")),
    )
}

fn is_zero(status: &Value, key: &str) -> bool {
    status.get(key).and_then(Value::as_f64).is_some_and(|number| number == 0.0)
}

fn sidecar_set(live: &Object) -> bool {
    let [matched, updated] = ["matchedPods", "updatedPods"]
        .map(|key| live.value_at(&["status", key]).and_then(Value::as_i64).unwrap_or(0));
    !has_no_status(live) && (matched == 0 || updated == matched)
}

fn is_flink_healthy(live: &Object, rule: FlinkHealth) -> bool {
    let state = live.text_at(&["status", "jobStatus", "state"]);
    let fails = !live.text_at(&["status", "error"]).is_empty();
    match (rule, state) {
        (FlinkHealth::KnownStates, state) => flink_by_known_state(live, state),
        (FlinkHealth::State, "") => false,
        (FlinkHealth::StateOrError, "") => fails,
        (_, "CREATED" | "INITIALIZING" | "RECONCILING") => {
            fails || live.text_at(&["status", "jobManagerDeploymentStatus"]) == "ERROR"
        }
        _ => true,
    }
}

/// A job in a transition counts as healthy; one that does not come up only if the user is to blame.
fn flink_by_known_state(live: &Object, state: &str) -> bool {
    match state {
        "" => {
            live.text_at(&["status", "jobManagerDeploymentStatus"]) == "READY"
                && live.text_at(&["status", "lifecycleState"]) == "STABLE"
        }
        "RUNNING" | "FINISHED" | "FAILED" | "CANCELED" | "SUSPENDED" | "CANCELLING" | "FAILING"
        | "RESTARTING" => true,
        "CREATED" | "INITIALIZING" | "RECONCILING" => {
            let error = live.text_at(&["status", "error"]);
            ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"].iter().any(|one| error.contains(one))
        }
        _ => false,
    }
}

fn is_notebook_healthy(live: &Object) -> bool {
    if find_value(live, &["status", "containerState", "running"]).is_some() {
        return true;
    }
    if let Some(waiting) = find_value(live, &["status", "containerState", "waiting"]) {
        return read_text(waiting, "reason") == "ContainerCreating";
    }
    find_value(live, &["status", "containerState", "terminated"]).is_some_and(|terminated| {
        let failed = matches!(read_text(terminated, "reason"), "Error" | "OOMKilled" | "ContainerCannotRun");
        !failed && terminated.get("exitCode").and_then(Value::as_i64).unwrap_or(0) == 0
    })
}

fn ray_job(live: &Object) -> bool {
    match live.text_at(&["status", "jobDeploymentStatus"]) {
        "Running" => true,
        "Complete" => live.text_at(&["status", "jobStatus"]) == "SUCCEEDED",
        _ => false,
    }
}
