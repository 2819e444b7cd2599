//! Whether an action replaces pods: only a change of the pod template does, in kinds that roll it out.
//!
//! Facts: `Deployment`, `StatefulSet` and `DaemonSet` of `apps/v1`; with the update strategy `OnDelete` pods stay as
//! they are until they are deleted, and a paused Deployment waits. `metadata.generation` does not tell:
//! explicit defaults or annotations can raise it without a restart.

use serde_json::Value;

use federate_apiserver_model::values::text_at;

/// Whether pods are replaced when `live` becomes `result`. `rolling` are further kinds that roll out their
/// `spec.template`, as `Kind.group`.
pub fn restarts_pods(live: &Value, result: &Value, rolling: &[String]) -> bool {
    let (api_version, kind) = (text_at(result, "/apiVersion"), text_at(result, "/kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let known = group == "apps" && matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet");
    if !known && !rolling.iter().any(|name| name.split_once('.') == Some((kind, group)) || name == kind) {
        return false;
    }
    let waits = text_at(result, "/spec/updateStrategy/type") == "OnDelete"
        || (kind == "Deployment" && result.pointer("/spec/paused") == Some(&Value::Bool(true)));
    let none = result.pointer("/spec/replicas") == Some(&Value::from(0))
        && live.pointer("/spec/replicas") == Some(&Value::from(0));
    !waits && !none && live.pointer("/spec/template") != result.pointer("/spec/template")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_rolled_out_template_restarts() {
        let object = |kind: &str, image: &str, more: Value| {
            let mut object =
                json!({"apiVersion": "apps/v1", "kind": kind, "spec": {"template": {"image": image}}});
            for (key, value) in more.as_object().unwrap() {
                object["spec"][key] = value.clone();
            }
            object
        };
        let restarts = |kind: &str, more: Value| {
            restarts_pods(
                &object(kind, "a", more.clone()),
                &object(kind, "b", more),
                &["Rollout.apps".to_owned()],
            )
        };
        assert!(restarts("Deployment", json!({})) && restarts("Rollout", json!({})));
        assert!(!restarts("Deployment", json!({"paused": true})) && !restarts("ReplicaSet", json!({})));
        assert!(!restarts("StatefulSet", json!({"updateStrategy": {"type": "OnDelete"}})));
        assert!(!restarts("Deployment", json!({"replicas": 0})), "there are no pods");
        let (one, two) = (
            object("Deployment", "a", json!({"replicas": 1})),
            object("Deployment", "a", json!({"replicas": 2})),
        );
        assert!(!restarts_pods(&one, &two, &[]));
    }
}
