//! Where refusals point, and which objects are not refused.

use super::*;
use serde_json::{Value, json};

fn pointers(kind: &str, spec: &Value) -> Vec<String> {
    let object = Object::from_path("placement.kubernetes-fleet.io/v1", kind, "a", json!({"spec": spec}));
    validate_object(&object, &KubeFleetBehaviour::for_newest()).into_iter().map(|f| f.pointer).collect()
}

fn placement(policy: &Value) -> Vec<String> {
    let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]);
    pointers("ClusterResourcePlacement", &json!({"resourceSelectors": selectors, "policy": policy}))
}

#[test]
fn each_placement_type_has_its_fields() {
    assert!(placement(&json!(null)).is_empty() && placement(&json!({})).is_empty());
    assert_eq!(placement(&json!({"placementType": "PickN"})), ["/spec/policy"]);
    assert_eq!(placement(&json!({"numberOfClusters": 0})), ["/spec/policy/numberOfClusters"]);
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["a", "a"], "tolerations": [{"operator": "Exists"}]});
    assert_eq!(placement(&fixed), ["/spec/policy/tolerations", "/spec/policy/clusterNames/1"]);
    assert!(placement(&json!({"clusterNames": [], "topologySpreadConstraints": []})).is_empty());
}

#[test]
fn clusters_are_named_by_dns_subdomains() {
    let fixed = |names: &[&str]| placement(&json!({"placementType": "PickFixed", "clusterNames": names}));
    assert!(fixed(&["eu-1", "eu.west-1", "1"]).is_empty());
    for bad in ["Bad_Name", "-a", "a-", "a..b", "a.", ""] {
        assert_eq!(fixed(&["eu-1", bad]), ["/spec/policy/clusterNames/1"], "{bad:?}");
    }
    assert_eq!(fixed(&[&"a".repeat(64)]), ["/spec/policy/clusterNames/0"]);
}

#[test]
fn equal_tolerations_are_found_after_defaulting() {
    let twice =
        json!({"tolerations": [{"key": "a", "value": "x"}, {"key": "a", "operator": "Equal", "value": "x"}]});
    assert_eq!(placement(&twice), ["/spec/policy/tolerations/1"]);
}

#[test]
fn what_the_schema_refuses_no_rule_refuses_again() {
    let unknown = json!({"tolerations": [{"key": "a", "operator": "Maybe"}], "numberOfCluster": 3});
    assert_eq!(placement(&unknown), ["/spec/policy/tolerations/0/operator", "/spec/policy/numberOfCluster"]);
    let negative = json!({"placementType": "PickN", "numberOfClusters": -1});
    assert_eq!(placement(&negative), ["/spec/policy/numberOfClusters"]);
}

#[test]
fn taints_of_clusters_are_checked() {
    let twice =
        json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "", "effect": "NoSchedule"}]);
    assert_eq!(pointers("MemberCluster", &json!({"taints": twice})), ["/spec/taints/1"]);
    let values =
        json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]);
    assert!(pointers("MemberCluster", &json!({"taints": values})).is_empty());
    let effect = json!([{"key": "a", "effect": "NoExecute"}]);
    assert_eq!(pointers("MemberCluster", &json!({"taints": effect})), ["/spec/taints/0/effect"]);
}

/// The pointers of the findings about such an object in a release, and whether each is an error.
fn in_release(release: &str, kind: &str, spec: &Value) -> Vec<(String, bool)> {
    let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
    let object = Object::from_path("placement.kubernetes-fleet.io/v1beta1", kind, "a", json!({"spec": spec}));
    validate_object(&object, &behaviour).into_iter().map(|f| (f.pointer.clone(), f.is_error())).collect()
}

#[test]
fn the_state_of_a_run_has_other_names_in_each_release() {
    let state = |release: &str, state: &str| {
        let found = in_release(release, "ClusterStagedUpdateRun", &json!({"state": state}));
        found.first().map(|(_, refused)| *refused)
    };
    assert_eq!([state("0.1.0", "Started"), state("0.1.0", "Run")], [None, Some(true)]);
    assert_eq!([state("0.1.2", "Execute"), state("0.1.2", "Initialize")], [None, Some(false)]);
    assert_eq!(
        [state("0.2", "Run"), state("0.2", "Execute"), state("0.2", "")],
        [None, Some(true), Some(false)]
    );
}

#[test]
fn what_older_releases_do_not_know_is_refused() {
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop",
        "selectionScope": "NamespaceWithResourceSelectors"});
    let scoped = json!({"resourceSelectors": [selector]});
    let at = "/spec/resourceSelectors/0/selectionScope".to_owned();
    assert_eq!(in_release("0.2", "ClusterResourcePlacement", &scoped), [(at, true)]);
    assert_eq!(in_release("0.3", "ClusterResourcePlacement", &scoped), []);
    let plain = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
    let none =
        json!({"resourceSelectors": [plain], "policy": {"placementType": "PickFixed", "clusterNames": []}});
    assert_eq!(in_release("0.3", "ClusterResourcePlacement", &none), [("/spec/policy".to_owned(), true)]);
    assert_eq!(in_release("azure", "ClusterResourcePlacement", &none), []);
}

#[test]
fn wait_times_and_concurrency_are_checked_by_release() {
    let found = |release: &str, wait: &str, most: &Value| {
        let task = json!({"type": "TimedWait", "waitTime": wait});
        let stage = json!({"name": "all", "maxConcurrency": most, "afterStageTasks": [task]});
        let found = in_release(release, "ClusterStagedUpdateStrategy", &json!({"stages": [stage]}));
        found.into_iter().map(|(pointer, _)| pointer).collect::<Vec<_>>()
    };
    let wait = "/spec/stages/0/afterStageTasks/0/waitTime";
    for text in ["0", "0 or more", "about 5m", "1h30m"] {
        assert!(found("0.3", text, &json!(1)).is_empty(), "{text}");
    }
    for text in ["soon", "5d", "5m later"] {
        assert_eq!(found("0.3", text, &json!(1)), [wait], "{text}");
    }
    for text in ["0", "0 or more", "about 5m", "m", ""] {
        assert_eq!(found("azure", text, &json!(1)), [wait], "{text}");
    }
    assert!(found("azure", "1h30m0.5s", &json!("50%")).is_empty());
    let most = "/spec/stages/0/maxConcurrency";
    for value in [json!(0), json!("0%"), json!("101%")] {
        assert!(found("0.1", "1m", &value).is_empty(), "{value}");
        assert_eq!(found("0.2", "1m", &value), [most], "{value}");
    }
}

#[test]
fn the_period_of_unavailability_has_a_minimum_since_main() {
    let plain = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
    let strategy = json!({"rollingUpdate": {"unavailablePeriodSeconds": -1}});
    let spec = json!({"resourceSelectors": [plain], "strategy": strategy});
    assert_eq!(in_release("azure", "ClusterResourcePlacement", &spec), []);
    assert_eq!(in_release("main", "ClusterResourcePlacement", &spec).len(), 1);
}
