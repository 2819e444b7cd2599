//! Whether an object in a member cluster is healthy, by Karmada's own interpreters.
//!
//! Facts: missing numbers count as 0, but missing `spec.replicas` as satisfied; a kind without an
//! interpreter has no health.

use serde_json::Value;

use super::version::KarmadaBehaviour;
use federate_dialect::Health;
use federate_kubernetes::Object;

mod thirdparty;

/// The health of an object in a member cluster, by the rules of a release.
pub(super) fn interpret_health(live: &Object, behaviour: &KarmadaBehaviour) -> Health {
    match (live.id.api_version.as_str(), live.id.kind.as_str()) {
        ("apps/v1", "Deployment" | "StatefulSet") => check_replicas(live),
        ("apps/v1", "ReplicaSet") => replica_set(live),
        ("apps/v1", "DaemonSet") => daemon_set(live),
        ("v1", "Service") if live.text_at(&["spec", "type"]) != "LoadBalancer" => Health::healthy(),
        ("v1", "Service") | ("networking.k8s.io/v1", "Ingress") => check_address(live),
        ("v1", "PersistentVolumeClaim") => check_bound(live),
        ("v1", "Pod") => check_pod(live),
        ("policy/v1", "PodDisruptionBudget") => at_least(
            "pods are healthy",
            read_status_integer(live, "currentHealthy"),
            read_status_integer(live, "desiredHealthy"),
        ),
        _ => thirdparty::interpret_thirdparty(live, behaviour),
    }
}

fn read_integer(live: &Object, path: &[&str]) -> i64 {
    live.value_at(path).and_then(Value::as_i64).unwrap_or(0)
}

fn read_status_integer(live: &Object, key: &str) -> i64 {
    read_integer(live, &["status", key])
}

fn at_least(what: &str, found: i64, desired: i64) -> Health {
    Health::healthy_if(found >= desired, format!("{found} of {desired} {what}"))
}

/// The first result that is not healthy.
fn first_unhealthy(verdicts: impl IntoIterator<Item = Health>) -> Health {
    let healthy = Health::healthy();
    verdicts.into_iter().find(|verdict| *verdict != healthy).unwrap_or(healthy)
}

/// Whether the status is about the present generation of the object.
fn check_observed_generation(live: &Object) -> Health {
    let (seen, generation) =
        (read_status_integer(live, "observedGeneration"), read_integer(live, &["metadata", "generation"]));
    Health::healthy_if(seen == generation, format!("the status is about generation {seen}, not {generation}"))
}

/// The desired replicas; 0, which is always satisfied, where none are given.
fn read_desired_replicas(live: &Object) -> i64 {
    read_integer(live, &["spec", "replicas"])
}

fn check_replicas(live: &Object) -> Health {
    let (updated, available) =
        (read_status_integer(live, "updatedReplicas"), read_status_integer(live, "availableReplicas"));
    let given = live.value_at(&["spec", "replicas"]).is_some_and(|replicas| !replicas.is_null());
    let desired = if given { read_desired_replicas(live) } else { updated };
    first_unhealthy([
        check_observed_generation(live),
        at_least("replicas are updated", updated, desired),
        at_least("updated replicas are available", available, updated),
    ])
}

fn replica_set(live: &Object) -> Health {
    let available = read_status_integer(live, "availableReplicas");
    first_unhealthy([
        check_observed_generation(live),
        at_least("replicas are available", available, read_desired_replicas(live)),
    ])
}

fn daemon_set(live: &Object) -> Health {
    let updated = read_status_integer(live, "updatedNumberScheduled");
    first_unhealthy([
        check_observed_generation(live),
        at_least("pods are updated", updated, read_status_integer(live, "desiredNumberScheduled")),
        at_least("updated pods are available", read_status_integer(live, "numberAvailable"), updated),
    ])
}

fn check_address(live: &Object) -> Health {
    let entries = live.value_at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let found = entries
        .into_iter()
        .flatten()
        .any(|entry| !read_text(entry, "hostname").is_empty() || !read_text(entry, "ip").is_empty());
    Health::healthy_if(found, "the load balancer has no address yet")
}

fn check_bound(live: &Object) -> Health {
    let phase = live.text_at(&["status", "phase"]);
    Health::healthy_if(phase == "Bound", format!("the claim is not bound: its phase is `{phase}`"))
}

fn check_pod(live: &Object) -> Health {
    let phase = live.text_at(&["status", "phase"]);
    let ready = find_condition(live, "Ready").is_some_and(|one| read_text(one, "status") == "True");
    match phase {
        "Succeeded" => Health::healthy(),
        "Running" => Health::healthy_if(ready, "the pod runs and is not ready"),
        _ => Health::unhealthy(format!("the pod's phase is `{phase}`")),
    }
}

fn read_text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn read_conditions(live: &Object) -> &[Value] {
    live.value_at(&["status", "conditions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first condition of a type.
fn find_condition<'o>(live: &'o Object, of_type: &str) -> Option<&'o Value> {
    read_conditions(live).iter().find(|one| read_text(one, "type") == of_type)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_dialect::HealthState;

    fn of(api_version: &str, kind: &str, body: Value) -> Health {
        interpret_health(
            &Object::from_path(api_version, kind, "n", body),
            &KarmadaBehaviour::for_newest_release(),
        )
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
            let object = Object::from_path(api_version, kind, "n", json!({"status": status}));
            interpret_health(
                &object,
                &KarmadaBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap()),
            )
            .state
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
