//! Whether an object in a member cluster is healthy, by Karmada's own interpreters.
//!
//! Facts: missing numbers count as 0, but missing `spec.replicas` as satisfied; a kind without an
//! interpreter has no health.

use serde_json::Value;

use super::version::Behaviour;
use federate_dialect::Health;
use federate_kubernetes::Object;
use federate_kubernetes::object::at;

mod thirdparty;

/// The health of an object in a member cluster, by the rules of a release.
pub(super) fn health(live: &Object, behaviour: &Behaviour) -> Health {
    match (live.id.api_version.as_str(), live.id.kind.as_str()) {
        ("apps/v1", "Deployment" | "StatefulSet") => replicated(live),
        ("apps/v1", "ReplicaSet") => replica_set(live),
        ("apps/v1", "DaemonSet") => daemon_set(live),
        ("v1", "Service") if live.text(&["spec", "type"]) != "LoadBalancer" => Health::healthy(),
        ("v1", "Service") | ("networking.k8s.io/v1", "Ingress") => has_address(live),
        ("v1", "PersistentVolumeClaim") => is_bound(live),
        ("v1", "Pod") => pod(live),
        ("policy/v1", "PodDisruptionBudget") => {
            at_least("pods are healthy", status(live, "currentHealthy"), status(live, "desiredHealthy"))
        }
        _ => thirdparty::health(live, behaviour),
    }
}

fn number(live: &Object, path: &[&str]) -> i64 {
    live.at(path).and_then(Value::as_i64).unwrap_or(0)
}

fn status(live: &Object, key: &str) -> i64 {
    number(live, &["status", key])
}

fn at_least(what: &str, found: i64, wanted: i64) -> Health {
    Health::of(found >= wanted, format!("{found} of {wanted} {what}"))
}

/// The first result that is not healthy.
fn all(verdicts: impl IntoIterator<Item = Health>) -> Health {
    let healthy = Health::healthy();
    verdicts.into_iter().find(|verdict| *verdict != healthy).unwrap_or(healthy)
}

/// Whether the status is about the present generation of the object.
fn observed(live: &Object) -> Health {
    let (seen, generation) = (status(live, "observedGeneration"), number(live, &["metadata", "generation"]));
    Health::of(seen == generation, format!("the status is about generation {seen}, not {generation}"))
}

/// The desired replicas; 0, which is always satisfied, where none are given.
fn wanted(live: &Object) -> i64 {
    number(live, &["spec", "replicas"])
}

fn replicated(live: &Object) -> Health {
    let (updated, available) = (status(live, "updatedReplicas"), status(live, "availableReplicas"));
    let given = live.at(&["spec", "replicas"]).is_some_and(|replicas| !replicas.is_null());
    let wanted = if given { wanted(live) } else { updated };
    all([
        observed(live),
        at_least("replicas are updated", updated, wanted),
        at_least("updated replicas are available", available, updated),
    ])
}

fn replica_set(live: &Object) -> Health {
    let available = status(live, "availableReplicas");
    all([observed(live), at_least("replicas are available", available, wanted(live))])
}

fn daemon_set(live: &Object) -> Health {
    let updated = status(live, "updatedNumberScheduled");
    all([
        observed(live),
        at_least("pods are updated", updated, status(live, "desiredNumberScheduled")),
        at_least("updated pods are available", status(live, "numberAvailable"), updated),
    ])
}

fn has_address(live: &Object) -> Health {
    let entries = live.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let filled =
        |entry: &Value, key| at(entry, &[key]).and_then(Value::as_str).is_some_and(|s| !s.is_empty());
    let found = entries.into_iter().flatten().any(|entry| filled(entry, "hostname") || filled(entry, "ip"));
    Health::of(found, "the load balancer has no address yet")
}

fn is_bound(live: &Object) -> Health {
    let phase = live.text(&["status", "phase"]);
    Health::of(phase == "Bound", format!("the claim is not bound: its phase is `{phase}`"))
}

fn pod(live: &Object) -> Health {
    let phase = live.text(&["status", "phase"]);
    let ready = condition(live, "Ready").is_some_and(|one| text(one, "status") == "True");
    match phase {
        "Succeeded" => Health::healthy(),
        "Running" => Health::of(ready, "the pod runs and is not ready"),
        _ => Health::unhealthy(format!("the pod's phase is `{phase}`")),
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn conditions(live: &Object) -> &[Value] {
    live.at(&["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first condition of a type.
fn condition<'o>(live: &'o Object, of_type: &str) -> Option<&'o Value> {
    conditions(live).iter().find(|one| text(one, "type") == of_type)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_dialect::HealthState;

    fn of(api_version: &str, kind: &str, body: Value) -> Health {
        health(&Object::named(api_version, kind, "n", body), &Behaviour::newest())
    }

    #[test]
    fn a_deployment_is_updated_and_then_available() {
        let deployment = |replicas: Value, updated: i64, available: i64| {
            let status = json!({"updatedReplicas": updated, "availableReplicas": available});
            of("apps/v1", "Deployment", json!({"spec": {"replicas": replicas}, "status": status}))
        };
        assert_eq!(deployment(json!(2), 2, 2), Health::healthy());
        assert_eq!(deployment(json!(null), 0, 0), Health::healthy());
        assert_eq!(deployment(json!(3), 2, 2).reason, "2 of 3 replicas are updated");
        assert_eq!(deployment(json!(2), 2, 1).reason, "1 of 2 updated replicas are available");
        let behind = of("apps/v1", "Deployment", json!({"metadata": {"generation": 2}}));
        assert_eq!(behind.reason, "the status is about generation 0, not 2");
    }

    #[test]
    fn what_has_no_interpreter_has_no_health() {
        assert_eq!(of("batch/v1", "Job", json!({})).state, HealthState::Unknown);
        assert_eq!(of("v1", "Service", json!({})).state, HealthState::Healthy);
        assert_eq!(
            of("v1", "Service", json!({"spec": {"type": "LoadBalancer"}})).state,
            HealthState::Unhealthy
        );
    }

    #[test]
    fn releases_judge_third_party_kinds_differently() {
        use HealthState::{Healthy, Unhealthy, Unknown};
        let of = |release: &str, api_version: &str, kind: &str, status: Value| {
            let object = Object::named(api_version, kind, "n", json!({"status": status}));
            health(&object, &Behaviour::of(crate::RELEASES.read(release).unwrap())).state
        };
        let flink =
            |release: &str, status: Value| of(release, "flink.apache.org/v1beta1", "FlinkDeployment", status);
        let starting = json!({"jobStatus": {"state": "CREATED"}, "error": "quota"});
        assert_eq!([flink("1.17", starting.clone()), flink("1.18", starting)], [Healthy, Unhealthy]);
        let silent = json!({"error": "quota"});
        assert_eq!([flink("1.13", silent.clone()), flink("1.14", silent)], [Unhealthy, Healthy]);
        let ready = json!({"jobManagerDeploymentStatus": "READY", "lifecycleState": "STABLE"});
        assert_eq!([flink("1.17", ready.clone()), flink("1.18", ready)], [Unhealthy, Healthy]);
        let workflow =
            |release: &str| of(release, "argoproj.io/v1alpha1", "Workflow", json!({"phase": "Error"}));
        assert_eq!([workflow("1.16"), workflow("1.17")], [Healthy, Unhealthy]);
        let ray = |release: &str| of(release, "ray.io/v1", "RayService", json!({}));
        assert_eq!([ray("1.16"), ray("1.17")], [Unknown, Unhealthy]);
    }
}
