//! The health of an object by its status alone, for kinds of Kubernetes and for custom resources.
//!
//! These rules are stricter than those of control planes, which are made for showing a status: a Deployment whose new pods
//! fail while its old ones still run is healthy for Karmada, and not for someone who waits for a change. An object is well
//! if [both say so](compute_readiness).
//!
//! Facts: the API conventions of Kubernetes (`observedGeneration`, the conditions `Ready`, `Available`, `Reconciling`,
//! `Stalled`), what the controllers of built-in kinds write, and the rules of kstatus.

use federate_kubernetes::Object;
use serde_json::Value;

pub use crate::health::Readiness;
use crate::health_checks::HealthChecks;
use crate::{Health, HealthState};

/// The readiness of an object for someone who waits until a change has arrived: ready only if its control plane, where it has a
/// rule, and its status both say so. A health check of the repo replaces the rules about the status.
pub fn compute_readiness(control_plane: Health, object: &Object, checks: &HealthChecks) -> Readiness {
    if let Some(why) = stale_status_reason(object) {
        return Readiness::InProgress(why.to_owned());
    }
    if let Some(by_check) = checks.evaluate_object(object) {
        return match control_plane {
            Health { state: HealthState::Unhealthy, reason } if by_check == Readiness::Ready => {
                Readiness::InProgress(reason)
            }
            _ => by_check,
        };
    }
    if let Some(why) = final_failure(object) {
        return Readiness::Failed(why);
    }
    match combine_health(control_plane, object) {
        Health { state: HealthState::Healthy, .. } => Readiness::Ready,
        Health { reason, .. } => Readiness::InProgress(reason),
    }
}

/// The health of an object by its control plane, where it has a rule, and by its status: healthy only if both say so.
fn combine_health(control_plane: Health, object: &Object) -> Health {
    let by_status = health_by_status(object);
    match (control_plane.state, by_status.state) {
        // What the status says is more exact than what a control plane concludes from it.
        (_, HealthState::Unhealthy) | (HealthState::Unknown, _) => by_status,
        _ => control_plane,
    }
}

/// Why an object will never become healthy, whatever time it is given.
fn final_failure(object: &Object) -> Option<String> {
    let (_, why) = match (object.id.group(), object.id.kind.as_str()) {
        ("batch", "Job") => find_condition(object, "Failed", "True")?,
        ("apps", "Deployment") => find_condition(object, "Progressing", "False")
            .filter(|(reason, _)| *reason == "ProgressDeadlineExceeded")?,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            find_condition(object, "NamesAccepted", "False")?
        }
        ("", "Pod") if object.text_at(&["status", "phase"]) == "Failed" => {
            ("Failed", object.text_at(&["status", "message"]))
        }
        ("", "PersistentVolumeClaim") if object.text_at(&["status", "phase"]) == "Lost" => {
            ("Lost", "its volume is lost")
        }
        _ => find_condition(object, "Stalled", "True")?,
    };
    Some(format!("it failed: {why}"))
}

/// Why the status of an object does not describe its desired state.
fn stale_status_reason(object: &Object) -> Option<&'static str> {
    if object.is_deleting() {
        return Some("it is being deleted");
    }
    let generation = read_integer(object, &["metadata", "generation"]);
    let observed = read_integer(object, &["status", "observedGeneration"]);
    generation.zip(observed).filter(|(generation, observed)| observed < generation)?;
    Some("its controller has not seen it yet")
}

/// The health of an object by its status.
fn health_by_status(object: &Object) -> Health {
    if let Some(why) = stale_status_reason(object) {
        return Health::unhealthy(why);
    }
    if let Some((_, message)) = find_condition(object, "Stalled", "True") {
        return Health::unhealthy(format!("it is stalled: {message}"));
    }
    match (object.id.group(), object.id.kind.as_str()) {
        ("apps", "Deployment") => deployment_health(object),
        ("apps", "StatefulSet") => stateful_set_health(object),
        ("apps", "DaemonSet") => daemon_set_health(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set_health(object),
        ("batch", "Job") => job_health(object),
        ("", "Pod") => {
            let done = object.text_at(&["status", "phase"]) == "Succeeded";
            Health::healthy_if(done || find_condition(object, "Ready", "True").is_some(), "it is not ready")
        }
        ("", "PersistentVolumeClaim") => {
            Health::healthy_if(object.text_at(&["status", "phase"]) == "Bound", "it is not bound")
        }
        ("", "Service") if object.text_at(&["spec", "type"]) == "LoadBalancer" => {
            let ingress = object.value_at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
            Health::healthy_if(ingress.is_some_and(|list| !list.is_empty()), "it has no address yet")
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Health::healthy_if(
            find_condition(object, "Established", "True").is_some(),
            "it is not established",
        ),
        ("apiregistration.k8s.io", "APIService") => {
            Health::healthy_if(find_condition(object, "Available", "True").is_some(), "it is not available")
        }
        _ => health_by_conditions(object),
    }
}

/// Objects of other kinds are healthy unless a condition says otherwise.
fn health_by_conditions(object: &Object) -> Health {
    for (kind, bad) in
        [("Reconciling", "True"), ("Ready", "False"), ("Ready", "Unknown"), ("Available", "False")]
    {
        if let Some((_, message)) = find_condition(object, kind, bad) {
            return Health::unhealthy(format!("its condition {kind} is {bad}: {message}"));
        }
    }
    Health::healthy()
}

fn deployment_health(object: &Object) -> Health {
    let Some(counts) = StatusCounts::from_status(object) else { return unobserved_health() };
    if let Some(("ProgressDeadlineExceeded", message)) = find_condition(object, "Progressing", "False") {
        return Health::unhealthy(format!("it makes no progress: {message}"));
    }
    if counts.read_count("replicas") > counts.read_count("updatedReplicas") {
        let old = counts.read_count("replicas") - counts.read_count("updatedReplicas");
        return Health::unhealthy(format!(
            "{old} old {} {}",
            pod_noun(old),
            if old == 1 { "remains" } else { "remain" }
        ));
    }
    counts.check_counts(&[("updatedReplicas", "updated"), ("availableReplicas", "available")])
}

fn stateful_set_health(object: &Object) -> Health {
    let Some(counts) = StatusCounts::from_status(object) else { return unobserved_health() };
    if object.text_at(&["spec", "updateStrategy", "type"]) != "OnDelete" {
        let partition = read_integer(object, &["spec", "updateStrategy", "rollingUpdate", "partition"]);
        let to_update = (counts.desired - partition.unwrap_or(0)).max(0);
        let is_updated =
            object.text_at(&["status", "currentRevision"]) == object.text_at(&["status", "updateRevision"]);
        let updated = counts.read_count("updatedReplicas");
        if !is_updated && updated < to_update {
            return Health::unhealthy(format!(
                "{updated} of {to_update} {} are updated",
                pod_noun(to_update)
            ));
        }
        // Without a partition, the set takes the new revision when every pod has it.
        if !is_updated && partition.unwrap_or(0) == 0 {
            return Health::unhealthy("its update is not finished");
        }
    }
    // A set whose pods need not stay ready for a time counts only ready ones in old releases.
    let available =
        read_integer(object, &["status", "availableReplicas"]).map(|_| ("availableReplicas", "available"));
    let numbers: Vec<_> = std::iter::once(("readyReplicas", "ready")).chain(available).collect();
    counts.check_counts(&numbers)
}

fn daemon_set_health(object: &Object) -> Health {
    let Some(counts) = StatusCounts::from_status(object) else { return unobserved_health() };
    let counts = StatusCounts { desired: counts.read_count("desiredNumberScheduled"), ..counts };
    let updates = object.text_at(&["spec", "updateStrategy", "type"]) != "OnDelete";
    let updated = [("updatedNumberScheduled", "updated")];
    let running = [("numberAvailable", "available")];
    let numbers: Vec<_> = updated.iter().filter(|_| updates).chain(&running).copied().collect();
    counts.check_counts(&numbers)
}

fn replica_set_health(object: &Object) -> Health {
    let Some(counts) = StatusCounts::from_status(object) else { return unobserved_health() };
    if let Some((_, message)) = find_condition(object, "ReplicaFailure", "True") {
        return Health::unhealthy(format!("its pods cannot be created: {message}"));
    }
    counts.check_counts(&[("availableReplicas", "available")])
}

/// A Job is well when it is complete, or when it is meant to wait.
fn job_health(object: &Object) -> Health {
    if let Some((_, message)) = find_condition(object, "Failed", "True") {
        return Health::unhealthy(format!("it failed: {message}"));
    }
    let suspended = object.value_at(&["spec", "suspend"]).and_then(Value::as_bool) == Some(true);
    Health::healthy_if(
        suspended || find_condition(object, "Complete", "True").is_some(),
        "it is not complete",
    )
}

/// The pods of a workload, as its controller counts them.
struct StatusCounts<'o> {
    object: &'o Object,
    /// How many pods there are to be.
    desired: i64,
}

impl<'o> StatusCounts<'o> {
    /// `None` if the controller has not written a status yet.
    fn from_status(object: &'o Object) -> Option<Self> {
        read_integer(object, &["status", "observedGeneration"])?;
        let desired = read_integer(object, &["spec", "replicas"]).unwrap_or(1);
        Some(Self { object, desired })
    }

    fn read_count(&self, field: &str) -> i64 {
        read_integer(self.object, &["status", field]).unwrap_or(0)
    }

    /// Healthy if each field of the status reaches the desired number, and no surplus pod is left.
    fn check_counts(&self, fields: &[(&str, &str)]) -> Health {
        for (field, what) in fields {
            let count = self.read_count(field);
            if count < self.desired {
                return Health::unhealthy(format!(
                    "{count} of {} {} are {what}",
                    self.desired,
                    pod_noun(self.desired)
                ));
            }
        }
        let surplus = self.read_count("replicas") - self.desired;
        if surplus > 0 {
            return Health::unhealthy(format!("{surplus} surplus {} to be removed", pod_noun(surplus)));
        }
        Health::healthy()
    }
}

fn pod_noun(count: i64) -> &'static str {
    if count == 1 { "pod" } else { "pods" }
}

fn unobserved_health() -> Health {
    Health::unhealthy("its controller has not seen it yet")
}

fn read_integer(object: &Object, path: &[&str]) -> Option<i64> {
    object.value_at(path).and_then(Value::as_i64)
}

/// Reason and message of a condition, if it has that status.
fn find_condition<'o>(object: &'o Object, kind: &str, status: &str) -> Option<(&'o str, &'o str)> {
    let conditions = object.value_at(&["status", "conditions"]).and_then(Value::as_array)?;
    let found = conditions.iter().find(|c| c["type"] == kind && c["status"] == status)?;
    Some((found["reason"].as_str().unwrap_or_default(), found["message"].as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn health_of(api_version: &str, kind: &str, body: Value) -> String {
        let health = health_by_status(&Object::from_path(api_version, kind, "a/b", body));
        if health.state == HealthState::Healthy { "healthy".to_owned() } else { health.reason }
    }

    #[test]
    fn pods_are_counted() {
        let deployment = |status: Value| {
            let body = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": status});
            health_of("apps/v1", "Deployment", body)
        };
        assert_eq!(deployment(json!({})), "its controller has not seen it yet");
        assert_eq!(deployment(json!({"observedGeneration": 1})), "its controller has not seen it yet");
        let status = |all: i64, updated: i64, available: i64| json!({"observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "availableReplicas": available});
        assert_eq!(deployment(status(4, 3, 3)), "1 old pod remains");
        assert_eq!(deployment(status(3, 3, 2)), "2 of 3 pods are available");
        assert_eq!(deployment(status(3, 3, 3)), "healthy");
        let set = json!({"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}, "status":
            {"observedGeneration": 1, "currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1, "readyReplicas": 3}});
        assert_eq!(health_of("apps/v1", "StatefulSet", set), "healthy", "two stay as they are");
        let daemons = json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2}});
        assert_eq!(health_of("apps/v1", "DaemonSet", daemons), "0 of 2 pods are available");
    }

    #[test]
    fn a_control_plane_that_calls_a_stuck_update_healthy_does_not_decide_alone() {
        let status = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
        let body = json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": status});
        let stuck = Object::from_path("apps/v1", "Deployment", "a/b", body);
        assert_eq!(combine_health(Health::healthy(), &stuck).reason, "1 old pod remains");
        let well = Object::from_path("v1", "ConfigMap", "a/b", json!({}));
        assert_eq!(
            combine_health(Health::unhealthy("its script says so"), &well).reason,
            "its script says so"
        );
        assert_eq!(combine_health(Health::unknown(""), &well), Health::healthy());
    }

    #[test]
    fn sets_and_jobs_are_well_when_their_controllers_are_done() {
        let set = |spec: Value, status: Value| {
            health_of("apps/v1", "StatefulSet", json!({"spec": spec, "status": status}))
        };
        let status = |updated: i64, ready: i64, revision: &str| {
            json!({
                "observedGeneration": 1, "replicas": 2, "updatedReplicas": updated, "readyReplicas": ready,
                "availableReplicas": ready, "currentRevision": revision, "updateRevision": "b",
            })
        };
        assert_eq!(set(json!({"replicas": 2}), status(1, 2, "a")), "1 of 2 pods are updated");
        assert_eq!(set(json!({"replicas": 2}), status(2, 2, "a")), "its update is not finished");
        assert_eq!(set(json!({"replicas": 2}), status(2, 2, "b")), "healthy");
        assert_eq!(
            set(json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}}), status(0, 2, "a")),
            "healthy"
        );
        assert_eq!(set(json!({"replicas": 1}), status(2, 2, "b")), "1 surplus pod to be removed");
        let daemons = |strategy: &str| {
            let status = json!({
                "observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberReady": 2,
                "numberAvailable": 2,
            });
            health_of(
                "apps/v1",
                "DaemonSet",
                json!({"spec": {"updateStrategy": {"type": strategy}}, "status": status}),
            )
        };
        assert_eq!(
            (&*daemons("RollingUpdate"), &*daemons("OnDelete")),
            ("1 of 2 pods are updated", "healthy")
        );
        assert_eq!(
            health_of("batch/v1", "Job", json!({"spec": {"suspend": true}})),
            "healthy",
            "it is meant to wait"
        );
    }

    #[test]
    fn other_kinds_are_healthy_unless_a_condition_says_otherwise() {
        assert_eq!(health_of("v1", "ConfigMap", json!({})), "healthy");
        let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "message": "no disk"}]}});
        assert_eq!(health_of("example.com/v1", "Store", ready("True")), "healthy");
        assert_eq!(
            health_of("example.com/v1", "Store", ready("False")),
            "its condition Ready is False: no disk"
        );
        assert_eq!(health_of("batch/v1", "Job", json!({"status": {}})), "it is not complete");
    }
}
