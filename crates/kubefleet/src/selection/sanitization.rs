//! Removes from an object what the hub's API server wrote, before it leaves the hub.
//!
//! Facts: labels, finalizers, other annotations and the spec stay. Services lose the addresses and node ports
//! of the hub. Jobs lose the generated selector, unless `manualSelector` is set.

use serde_json::{Map, Value};

use federate_kubernetes::object::value_at;

/// What the hub's API server writes into every object's metadata.
const STAMPS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
];

const ANNOTATIONS: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"];

const CONTROLLER_UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Returns the manifest of an object of the hub.
pub(crate) fn sanitize_manifest(body: &Value) -> Value {
    let mut body = body.clone();
    remove_keys(&mut body, &[], &["status"]);
    remove_keys(&mut body, &["metadata"], &STAMPS);
    remove_keys(&mut body, &["metadata", "annotations"], &ANNOTATIONS);
    let empty =
        value_at(&body, &["metadata", "annotations"]).and_then(Value::as_object).is_some_and(Map::is_empty);
    if empty {
        remove_keys(&mut body, &["metadata"], &["annotations"]);
    }
    match (body["apiVersion"].as_str(), body["kind"].as_str()) {
        (Some("v1"), Some("Service")) => sanitize_service(&mut body),
        (Some("batch/v1"), Some("Job")) => sanitize_job(&mut body),
        _ => {}
    }
    body
}

fn sanitize_service(body: &mut Value) {
    let address = value_at(body, &["spec", "clusterIP"]).and_then(Value::as_str);
    if address.is_some_and(|address| address != "None") {
        remove_keys(body, &["spec"], &["clusterIP", "clusterIPs"]);
    }
    remove_keys(body, &["spec"], &["healthCheckNodePort"]);
    let ports = body.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.shift_remove("nodePort");
    }
}

fn sanitize_job(body: &mut Value) {
    if value_at(body, &["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    remove_keys(body, &["spec", "selector", "matchLabels"], &CONTROLLER_UIDS);
    remove_keys(body, &["spec", "template", "metadata"], &["creationTimestamp"]);
    remove_keys(body, &["spec", "template", "metadata", "labels"], &CONTROLLER_UIDS);
}

/// Removes keys of the mapping at a path, if there is one.
fn remove_keys(body: &mut Value, path: &[&str], keys: &[&str]) {
    let target = path.iter().try_fold(body, |value, key| value.get_mut(key));
    if let Some(map) = target.and_then(Value::as_object_mut) {
        for key in keys {
            map.shift_remove(*key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stamps_go_and_the_rest_stays() {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "status": {},
            "metadata": {
                "name": "a", "uid": "u", "ownerReferences": [{}], "finalizers": ["x/y"],
                "labels": {"a": "b"}, "deletionGracePeriodSeconds": 3,
                "annotations": {"deployment.kubernetes.io/revision": "1"}
            }
        });
        let want = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "finalizers": ["x/y"], "labels": {"a": "b"}, "deletionGracePeriodSeconds": 3
            }
        });
        assert_eq!(sanitize_manifest(&body), want);
    }

    #[test]
    fn services_lose_addresses_and_ports_unless_headless() {
        let service = |spec: Value| {
            let body = json!({"apiVersion": "v1", "kind": "Service", "spec": spec});
            sanitize_manifest(&body)["spec"].clone()
        };
        let spec = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "healthCheckNodePort": 1,
            "ports": [{"port": 80, "nodePort": 30000}, {"port": 81}]});
        assert_eq!(service(spec), json!({"ports": [{"port": 80}, {"port": 81}]}));
        let headless = json!({"clusterIP": "None", "clusterIPs": ["None"]});
        assert_eq!(service(headless.clone()), headless);
    }

    #[test]
    fn jobs_lose_their_controllers_identity_unless_they_select_by_hand() {
        let spec = json!({
            "selector": {"matchLabels": {"controller-uid": "u"}},
            "template": {"metadata": {
                "creationTimestamp": null,
                "labels": {"batch.kubernetes.io/controller-uid": "u", "job-name": "a"}
            }}
        });
        let body = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec});
        let want = json!({
            "selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {"job-name": "a"}}}
        });
        assert_eq!(sanitize_manifest(&body)["spec"], want);
        let mut by_hand = body.clone();
        by_hand["spec"]["manualSelector"] = json!(true);
        assert_eq!(sanitize_manifest(&by_hand), by_hand);
    }
}
