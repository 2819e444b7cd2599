//! How many pods an object asks for: one rule for plans, diffs, scenarios and reports.
//!
//! Facts: the defaults of the Kubernetes API (`spec.replicas` and `spec.parallelism` are 1), and the `scale` subresource, by
//! whose convention custom resources have `spec.replicas`.

use federate_kubernetes::ObjectRef;
use serde_json::Value;

/// The replicas that an object asks for in one cluster: what its spec says, or the API server's default. `None` for objects
/// without replicas, such as a `ConfigMap`, and for those whose pods are counted by something else: a `DaemonSet` has one on
/// each node, a `CronJob` has a Job at its times.
pub fn replicas(object: &ObjectRef, body: &Value) -> Option<i64> {
    let field = replicas_field(object)?;
    let stated = body.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_i64);
    stated.or_else(|| is_workload(object).then_some(1))
}

/// The field of the spec that has the replicas of an object; `None` if none has.
pub fn replicas_field(object: &ObjectRef) -> Option<&'static str> {
    match (object.group(), object.kind.as_str()) {
        ("batch", "Job") => Some("parallelism"),
        ("apps" | "extensions", "DaemonSet") | ("batch", "CronJob") => None,
        _ => Some("replicas"),
    }
}

/// Whether the API server sets the replicas of an object that does not name them.
pub fn is_workload(object: &ObjectRef) -> bool {
    matches!(
        (object.group(), object.kind.as_str()),
        ("apps" | "extensions", "Deployment" | "ReplicaSet")
            | ("apps", "StatefulSet")
            | ("", "ReplicationController")
            | ("batch", "Job")
            | ("argoproj.io", "Rollout")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workloads_without_replicas_have_the_default_and_other_objects_none() {
        let count = |api_version: &str, kind: &str, spec: Value| {
            let object = ObjectRef {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: None,
                name: "a".to_owned(),
            };
            replicas(&object, &json!({"spec": spec}))
        };
        assert_eq!(count("apps/v1", "Deployment", json!({})), Some(1));
        assert_eq!(count("apps/v1", "Deployment", json!({"replicas": 0})), Some(0));
        assert_eq!(count("apps/v1", "StatefulSet", json!({"replicas": 3})), Some(3));
        assert_eq!(count("batch/v1", "Job", json!({"parallelism": 4, "replicas": 7})), Some(4));
        assert_eq!(count("batch/v1", "Job", json!({})), Some(1));
        assert_eq!(count("batch/v1", "CronJob", json!({"replicas": 3})), None);
        assert_eq!(count("apps/v1", "DaemonSet", json!({"replicas": 3})), None);
        assert_eq!(count("v1", "ConfigMap", json!({})), None);
        assert_eq!(count("monitoring.coreos.com/v1", "Prometheus", json!({"replicas": 2})), Some(2));
    }
}
