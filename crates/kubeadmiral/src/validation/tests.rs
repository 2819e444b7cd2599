//! What the definitions refuse and drop, and what never works.

use serde_json::{Value, json};

use super::*;
use federate_kubernetes::Severity;

fn check_one(kind: &str, name: &str, spec: &Value) -> Vec<(Severity, String)> {
    let api_version = "core.kubeadmiral.io/v1alpha1";
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    check_object(&Object::from_manifest(body, "a.yaml"))
        .into_iter()
        .map(|f| (f.severity, f.pointer))
        .collect()
}

#[test]
fn the_definitions_bounds_hold() {
    let error = |kind, spec: Value, pointer: &str| {
        let found = check_one(kind, "p", &spec);
        assert_eq!(found, [(Severity::Error, pointer.to_owned())], "{spec}");
    };
    let policy = "PropagationPolicy";
    error(policy, json!({}), "/spec");
    error(policy, json!({"schedulingMode": "Some"}), "/spec/schedulingMode");
    error(
        policy,
        json!({"schedulingMode": "Divide", "placement": [{"cluster": "a", "preferences": {"weight": -1}}]}),
        "/spec/placement/0/preferences/weight",
    );
    error(
        policy,
        json!({"schedulingMode": "Divide", "clusterAffinity": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}),
        "/spec/clusterAffinity/0/matchExpressions/0",
    );
    error(
        "OverridePolicy",
        json!({"overrideRules": [{"overriders": {"image": [{}]}}]}),
        "/spec/overrideRules/0/overriders/image/0",
    );
    error("FederatedCluster", json!({"taints": [{"key": "a"}]}), "/spec/taints/0");
    error("FederatedTypeConfig", json!({}), "/spec");
}

#[test]
fn malformed_requirements_have_no_effect() {
    for (operator, values, found) in [
        ("Gt", json!(["high"]), 1),
        ("Gt", json!(["5"]), 0),
        ("In", json!([]), 1),
        ("Exists", json!(["a"]), 1),
    ] {
        let expression = json!({"key": "nodes", "operator": operator, "values": values});
        let spec =
            json!({"schedulingMode": "Duplicate", "clusterAffinity": [{"matchExpressions": [expression]}]});
        let place = (Severity::Warning, "/spec/clusterAffinity/0/matchExpressions/0".to_owned());
        assert_eq!(check_one("PropagationPolicy", "p", &spec), vec![place; found], "{operator} {values}");
    }
}

#[test]
fn a_field_at_a_wrong_place_is_dropped_with_a_warning() {
    let spec = json!({"schedulingMode": "Duplicate", "replicaRescheduling": {"avoidDisruption": true}});
    let found = check_one("PropagationPolicy", "p", &spec);
    assert_eq!(found, [(Severity::Warning, "/spec/replicaRescheduling".to_owned())]);
}

#[test]
fn names_fit_a_label() {
    let found = check_one("ClusterPropagationPolicy", &"a".repeat(64), &json!({"schedulingMode": "Divide"}));
    assert_eq!(found, [(Severity::Error, "/metadata/name".to_owned())]);
}

#[test]
fn a_profile_that_cannot_be_built_is_told() {
    let spec = json!({"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}});
    assert_eq!(check_one("SchedulingProfile", "p", &spec), [(Severity::Warning, "/spec/plugins".to_owned())]);
}
