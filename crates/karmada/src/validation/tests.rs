//! Invalid objects and where each is refused.

use serde_json::{Value, json};

use super::*;
use federate_kubernetes::Severity;

mod readable;

fn object(kind: &str, body: Value) -> Object {
    let path = if matches!(kind, "PropagationPolicy" | "OverridePolicy") { "shop/a" } else { "a" };
    Object::from_path("policy.karmada.io/v1alpha1", kind, path, body)
}

/// By the rules of the newest release.
fn newest(object: &Object) -> Vec<Finding> {
    validate_object(object, &KarmadaBehaviour::for_newest_release())
}

/// Where the spec of such an object is refused.
fn refused(kind: &str, spec: &Value) -> Vec<String> {
    let findings = newest(&object(kind, json!({"spec": spec})));
    assert!(findings.iter().all(Finding::is_error), "{findings:?}");
    findings.into_iter().map(|f| f.pointer).collect()
}

/// A propagation policy's spec with some fields set.
fn propagation(fields: &Value) -> Value {
    let mut spec = json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]});
    for (key, value) in fields.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn refuses(rows: &[(Value, &[&str])], kind: &str, spec: impl Fn(&Value) -> Value) {
    for (fields, pointers) in rows {
        assert_eq!(refused(kind, &spec(fields)), *pointers, "{fields}");
    }
}

#[test]
fn propagation_policies() {
    let selectors = |selector: Value| json!({"resourceSelectors": [selector]});
    let pod = |key: &str, value: Value| {
        let mut selector = json!({"apiVersion": "v1", "kind": "Pod"});
        selector[key] = value;
        selectors(selector)
    };
    let rows: &[(Value, &[&str])] = &[
        (json!({}), &[]),
        (json!({"resourceSelectors": []}), &["/spec/resourceSelectors"]),
        (json!({"resourceSelectors": null}), &["/spec"]),
        (selectors(json!({"name": "x"})), &["/spec/resourceSelectors/0", "/spec/resourceSelectors/0"]),
        (pod("namespace", json!("shop")), &[]),
        (pod("namespace", json!("bank")), &["/spec/resourceSelectors/0/namespace"]),
        (json!({"priority": 3_000_000_000_i64}), &["/spec/priority"]),
        (json!({"preemption": "Sometimes"}), &["/spec/preemption"]),
        (json!({"preemption": "Always"}), &["/spec/resourceSelectors/0"]),
        (json!({"conflictResolution": "overwrite"}), &["/spec/conflictResolution"]),
        (json!({"suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": []}}}), &[]),
        (
            json!({"suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m"]}}}),
            &["/spec/suspension/dispatchingOnClusters"],
        ),
        (json!({"failover": {"application": {}}}), &["/spec/failover/application"]),
        (json!({"failover": {"application": {}}, "propagateDeps": true}), &[]),
        (
            json!({"propagateDeps": true, "failover": {"application":
                {"gracePeriodSeconds": 5, "purgeMode": "Never", "decisionConditions": {"tolerationSeconds": -1}}}}),
            &[
                "/spec/failover/application/decisionConditions/tolerationSeconds",
                "/spec/failover/application/gracePeriodSeconds",
            ],
        ),
        (
            json!({"failover": {"application": {}}, "resourceSelectors":
                [{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"}]}),
            &[],
        ),
    ];
    refuses(rows, "PropagationPolicy", propagation);
}

#[test]
fn cluster_wide_policies_select_in_any_namespace() {
    let selector = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "bank"});
    let spec = json!({"resourceSelectors": [selector]});
    assert_eq!(refused("ClusterPropagationPolicy", &spec), Vec::<String>::new());
    assert_eq!(refused("OverridePolicy", &spec), ["/spec/resourceSelectors/0/namespace"]);
}

#[test]
fn placements() {
    let rows: &[(Value, &[&str])] = &[
        (
            json!({"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}),
            &["/spec/placement/clusterAffinities"],
        ),
        (json!({"clusterAffinity": {}, "clusterAffinities": []}), &[]),
        (
            json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}, {"affinityName": "-"}, {}]}),
            &[
                "/spec/placement/clusterAffinities/3",
                "/spec/placement/clusterAffinities/1/affinityName",
                "/spec/placement/clusterAffinities/2/affinityName",
            ],
        ),
        (
            json!({"clusterAffinities": [{"affinityName": "a".repeat(33)}]}),
            &["/spec/placement/clusterAffinities/0/affinityName"],
        ),
        (
            json!({"clusterAffinity": {"fieldSelector": {"matchExpressions":
                [{"key": "city", "operator": "In"}, {"key": "zone", "operator": "Exists"}, {"key": "zone"}]}}}),
            &[
                "/spec/placement/clusterAffinity/fieldSelector/matchExpressions/2",
                "/spec/placement/clusterAffinity/fieldSelector/matchExpressions/0/key",
                "/spec/placement/clusterAffinity/fieldSelector/matchExpressions/1/operator",
            ],
        ),
        (
            json!({"clusterAffinity": {"clusterNames": [1]}}),
            &["/spec/placement/clusterAffinity/clusterNames/0"],
        ),
        (
            json!({"clusterAffinity": {"clusterNames": "m"}}),
            &["/spec/placement/clusterAffinity/clusterNames"],
        ),
        (
            json!({"replicaScheduling": {"replicaSchedulingType": "Divide", "replicaDivisionPreference": "weighted"}}),
            &[
                "/spec/placement/replicaScheduling/replicaSchedulingType",
                "/spec/placement/replicaScheduling/replicaDivisionPreference",
            ],
        ),
        (
            json!({"replicaScheduling": {"weightPreference": {"dynamicWeight": "Free", "staticWeightList":
                [{"weight": 0, "targetCluster": {}}, {"targetCluster": {}}, {"weight": 1}]}}}),
            &[
                "/spec/placement/replicaScheduling/weightPreference/dynamicWeight",
                "/spec/placement/replicaScheduling/weightPreference/staticWeightList/0/weight",
                "/spec/placement/replicaScheduling/weightPreference/staticWeightList/1",
            ],
        ),
    ];
    refuses(rows, "ClusterPropagationPolicy", |placement| propagation(&json!({"placement": placement})));
}

#[test]
fn spread_constraints() {
    let rows: &[(Value, &[&str])] = &[
        (json!([{"spreadByField": "region"}, {"maxGroups": 2}]), &[]),
        (json!([{"spreadByLabel": "city"}]), &[]),
        (json!([{"spreadByField": "city"}]), &["/0/spreadByField", ""]),
        (json!([{"spreadByField": "region"}]), &[""]),
        (json!([{}, {"spreadByField": "cluster"}]), &["/1/spreadByField"]),
        (json!([{"spreadByField": "cluster", "spreadByLabel": "a"}]), &["/0/spreadByLabel"]),
        (json!([{"minGroups": -1}]), &["/0/minGroups"]),
        (json!([{"maxGroups": -1}]), &["/0/maxGroups"]),
        (json!([{"minGroups": 3, "maxGroups": 2}]), &["/0/maxGroups"]),
        (json!([{"minGroups": 3, "maxGroups": 0}]), &[]),
    ];
    for (constraints, below) in rows {
        let pointers: Vec<String> =
            below.iter().map(|p| format!("/spec/placement/spreadConstraints{p}")).collect();
        let spec = propagation(&json!({"placement": {"spreadConstraints": constraints}}));
        assert_eq!(refused("PropagationPolicy", &spec), pointers, "{constraints}");
    }
}

#[test]
fn tolerations() {
    let rows: &[(Value, &[&str])] = &[
        (json!([{"key": "a"}, {"operator": "Exists", "effect": "NoExecute"}]), &[]),
        (json!([{"operator": "Lt", "key": "a", "value": "1"}]), &["/0/operator"]),
        (json!([{"key": "a", "value": 1, "tolerationSeconds": "5"}]), &["/0/value", "/0/tolerationSeconds"]),
    ];
    for (tolerations, below) in rows {
        let pointers: Vec<String> =
            below.iter().map(|p| format!("/spec/placement/clusterTolerations{p}")).collect();
        let spec = propagation(&json!({"placement": {"clusterTolerations": tolerations}}));
        assert_eq!(refused("PropagationPolicy", &spec), pointers, "{tolerations}");
    }
}

/// Admission does not look at these, which then have no effect.
#[test]
fn what_has_no_effect_is_accepted_with_a_warning() {
    let pod = |selector: Value| json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "labelSelector": selector}]});
    let tolerates = |toleration: Value| json!({"placement": {"clusterTolerations": [toleration]}});
    let weighted = |target: Value| {
        let weights = json!({"staticWeightList": [{"targetCluster": target, "weight": 1}]});
        json!({"placement": {"replicaScheduling": {"weightPreference": weights}}})
    };
    let target = "/spec/placement/replicaScheduling/weightPreference/staticWeightList/0/targetCluster";
    let rows = [
        (
            pod(json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})),
            "/spec/resourceSelectors/0/labelSelector/matchExpressions/0".to_owned(),
        ),
        (
            pod(json!({"matchLabels": {"a/b": "c d"}})),
            "/spec/resourceSelectors/0/labelSelector/matchLabels/a~1b".to_owned(),
        ),
        (
            tolerates(json!({"operator": "Exists", "value": "1"})),
            "/spec/placement/clusterTolerations/0/value".to_owned(),
        ),
        (
            tolerates(json!({"key": "a", "effect": "NoEntry"})),
            "/spec/placement/clusterTolerations/0/effect".to_owned(),
        ),
        (
            tolerates(json!({"key": "a", "operator": "Like"})),
            "/spec/placement/clusterTolerations/0/operator".to_owned(),
        ),
        (
            weighted(json!({"fieldSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}})),
            format!("{target}/fieldSelector/matchExpressions/0/key"),
        ),
        (
            json!({"placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"a b": "c"}}}}}),
            "/spec/placement/clusterAffinity/labelSelector/matchLabels/a b".to_owned(),
        ),
    ];
    for (fields, pointer) in rows {
        let found = newest(&object("PropagationPolicy", json!({"spec": propagation(&fields)})));
        let found: Vec<_> = found.iter().map(|f| (f.severity, f.code, f.pointer.as_str())).collect();
        assert_eq!(found, [(Severity::Warning, "no-effect", pointer.as_str())], "{fields}");
    }
}

#[test]
fn overflow_affinities() {
    let dynamic = json!({"weightPreference": {"dynamicWeight": "AvailableReplicas"}});
    let aggregated = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let duplicated =
        json!({"replicaSchedulingType": "Duplicated", "replicaDivisionPreference": "Aggregated"});
    let good =
        json!({"affinityName": "a", "clusterNames": ["m"], "overflowAffinities": [{"affinityName": "b"}]});
    let all = json!({"affinityName": "a", "overflowAffinities": [{"affinityName": "b"}]});
    let same = json!({"affinityName": "a", "exclude": ["m"], "overflowAffinities":
        [{"affinityName": "a"}, {"affinityName": "b"}, {"affinityName": "b"}]});
    let rows: &[(&Value, &Value, &[&str])] = &[
        (&dynamic, &good, &[]),
        (&aggregated, &good, &[]),
        (&duplicated, &good, &[""]),
        (&Value::Null, &good, &[""]),
        (&json!({}), &good, &[""]),
        (&aggregated, &all, &[""]),
        (&aggregated, &same, &["/0/affinityName", "/2/affinityName"]),
    ];
    for (scheduling, term, below) in rows {
        let at = |p: &&str| format!("/spec/placement/clusterAffinities/0/overflowAffinities{p}");
        let placement = json!({"clusterAffinities": [term], "replicaScheduling": scheduling});
        let spec = propagation(&json!({"placement": placement}));
        let pointers: Vec<String> = below.iter().map(at).collect();
        assert_eq!(refused("PropagationPolicy", &spec), pointers, "{scheduling} {term}");
    }
}

#[test]
fn override_policies() {
    let plaintext = json!({"plaintext": [{"path": "/x", "operator": "remove"}]});
    let empty_field = json!({"fieldOverrider": [{"fieldPath": "/data/x"}]});
    let rows: &[(Value, &[&str])] = &[
        (json!({}), &[]),
        (json!({"targetCluster": {}, "overriders": plaintext}), &[]),
        (json!({"overriders": empty_field}), &[]),
        (
            json!({"targetCluster": {}, "overriders": plaintext, "overrideRules": [{"overriders": {}}]}),
            &["/spec/targetCluster", "/spec/overriders"],
        ),
        (json!({"overriders": {"imageOverrider": [{}]}}), &["/spec/overriders/imageOverrider/0"; 2]),
        (json!({"overrideRules": [{}]}), &["/spec/overrideRules/0"]),
        (
            json!({"overrideRules": [{"overriders": {}, "targetCluster": {"fieldSelector":
                {"matchExpressions": [{"key": "x", "operator": "In"}]}}}]}),
            &["/spec/overrideRules/0/targetCluster/fieldSelector/matchExpressions/0/key"],
        ),
    ];
    refuses(rows, "ClusterOverridePolicy", Value::clone);
}

#[test]
fn overriders() {
    let image = |component: &str, path: &str| json!({"imageOverrider": [{"component": component, "operator": "add", "predicate": {"path": path}}]});
    let field = |fields: Value| json!({"fieldOverrider": [fields]});
    let patch = json!([{"subPath": "/a", "operator": "add", "value": false}]);
    let rows: &[(Value, &[&str])] = &[
        (image("Tag", "/spec/image"), &[]),
        (image("tag", "spec.image"), &["/imageOverrider/0/component", "/imageOverrider/0/predicate/path"]),
        (
            json!({"plaintext": [{"path": "/x", "operator": "set"}, {"operator": "add"}]}),
            &["/plaintext/0/operator", "/plaintext/1"],
        ),
        (
            json!({"argsOverrider": [{"containerName": "c", "operator": "replace", "value": [1]}]}),
            &["/argsOverrider/0/operator", "/argsOverrider/0/value/0"],
        ),
        (
            json!({"labelsOverrider": [{"operator": "add", "value": {"a b": "c", "d": "e f", "g": "h"}}]}),
            &["/labelsOverrider/0/value/a b", "/labelsOverrider/0/value/d"],
        ),
        (
            json!({"annotationsOverrider": [{"operator": "add", "value": {"Ex.io/a": "e f", "a b": ""}}]}),
            &["/annotationsOverrider/0/value/a b"],
        ),
        (field(json!({"fieldPath": "/data/x", "json": patch})), &[]),
        (field(json!({"fieldPath": "data", "yaml": patch})), &["/fieldOverrider/0/fieldPath"]),
        (field(json!({"fieldPath": "/data/x", "json": []})), &["/fieldOverrider/0"]),
        (field(json!({"fieldPath": "/data/x", "json": patch, "yaml": patch})), &["/fieldOverrider/0/json"]),
        (
            field(json!({"fieldPath": "/data/x", "yaml": [
                {"subPath": "a", "operator": "remove", "value": 1},
                {"subPath": "", "operator": "replace", "value": null}]})),
            &[
                "/fieldOverrider/0/yaml/0/subPath",
                "/fieldOverrider/0/yaml/0/value",
                "/fieldOverrider/0/yaml/1/value",
            ],
        ),
    ];
    for (overriders, below) in rows {
        let at = |p: &&str| format!("/spec/overrideRules/0/overriders{p}");
        let spec = json!({"overrideRules": [{"overriders": overriders}]});
        let pointers: Vec<String> = below.iter().map(at).collect();
        assert_eq!(refused("OverridePolicy", &spec), pointers, "{overriders}");
    }
}

#[test]
fn clusters_and_rebalancers() {
    let taint = json!({"taints": [{"key": "a", "effect": "NoEntry"}, {"effect": "NoExecute"}]});
    assert_eq!(refused("Cluster", &taint), ["/spec/taints/0/effect", "/spec/taints/1"]);
    let taints = json!([{"key": "a b", "effect": "NoExecute", "value": "c d"},
        {"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]);
    assert_eq!(
        refused("Cluster", &json!({"region": "e u", "zones": ["a", "-"], "taints": taints})),
        ["/spec/region", "/spec/zones/1", "/spec/taints/0/key", "/spec/taints/0/value", "/spec/taints/3"]
    );
    assert_eq!(refused("WorkloadRebalancer", &json!({"workloads": []})), ["/spec/workloads"]);
    let found =
        newest(&object("Cluster", json!({"status": {"resourceSummary": {"allocatable": {"cpu": "x"}}}})));
    assert_eq!(
        found.iter().map(|f| (f.code, &*f.pointer)).collect::<Vec<_>>(),
        [("invalid-cluster", "/status/resourceSummary/allocatable/cpu")]
    );
}

#[test]
fn a_typo_is_a_warning_with_what_was_meant() {
    let spec = propagation(&json!({"placement": {"clusterAffinty": {"clusterNames": ["m"]}}}));
    let found = newest(&object("PropagationPolicy", json!({"spec": spec})));
    assert_eq!(
        found.iter().map(|f| (f.severity, f.code, &*f.pointer, f.help.as_deref())).collect::<Vec<_>>(),
        [(
            Severity::Warning,
            "unknown-field",
            "/spec/placement/clusterAffinty",
            Some("did you mean `clusterAffinity`?")
        )]
    );
}

/// What is said of the spec of such an object in a release: where, and whether it is refused.
fn in_release(release: &str, kind: &str, spec: &Value) -> Vec<(String, bool)> {
    let behaviour = KarmadaBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
    let found = validate_object(&object(kind, json!({"spec": spec})), &behaviour);
    found.into_iter().map(|f| (f.pointer.clone(), f.is_error())).collect()
}

fn said(at: &str, refused: bool) -> Vec<(String, bool)> {
    vec![(at.to_owned(), refused)]
}

#[test]
fn what_has_no_effect_was_accepted_before_it_was_refused() {
    let foreign = propagation(
        &json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "namespace": "other"}]}),
    );
    let at = "/spec/resourceSelectors/0/namespace";
    assert_eq!(in_release("1.16", "PropagationPolicy", &foreign), said(at, false));
    assert_eq!(in_release("1.17", "PropagationPolicy", &foreign), said(at, true));
    let tolerations = json!([{"key": "a", "operator": "Gt", "value": "1"}]);
    let numeric = propagation(&json!({"placement": {"clusterTolerations": tolerations}}));
    let at = "/spec/placement/clusterTolerations/0/operator";
    assert_eq!(in_release("1.17", "PropagationPolicy", &numeric), said(at, false));
    assert_eq!(in_release("1.18", "PropagationPolicy", &numeric), said(at, true));
    let empty = json!({"overrideRules": [{"overriders": {"fieldOverrider": [{"fieldPath": "/data/a"}]}}]});
    let at = "/spec/overrideRules/0/overriders/fieldOverrider/0";
    assert_eq!(in_release("1.17", "OverridePolicy", &empty), said(at, false));
    assert_eq!(in_release("1.18", "OverridePolicy", &empty), said(at, true));
}

#[test]
fn purge_modes_were_renamed() {
    let mode = |release: &str, mode: &str| {
        let failover = json!({"application": {"purgeMode": mode}});
        let spec = propagation(&json!({"propagateDeps": true, "failover": failover}));
        in_release(release, "PropagationPolicy", &spec).is_empty()
    };
    for (release, old, new) in
        [("1.14", true, false), ("1.15", true, true), ("1.18", true, true), ("main", false, true)]
    {
        assert_eq!([mode(release, "Immediately"), mode(release, "Graciously")], [old; 2], "{release}");
        assert_eq!([mode(release, "Directly"), mode(release, "Gracefully")], [new; 2], "{release}");
        assert!(mode(release, "Never") && !mode(release, "Sometimes"));
    }
}

#[test]
fn fields_that_came_later_are_dropped() {
    let term = json!({"affinityName": "a", "clusterNames": ["m"], "overflowAffinities": 3});
    let fields = json!({
        "placement": {"clusterAffinities": [term], "workloadAffinity": {"affinity": {"groupByLabelKey": "a"}}},
        "failover": {"cluster": {"purgeMode": "Directly"}},
    });
    let spec = propagation(&fields);
    let overflow = "/spec/placement/clusterAffinities/0/overflowAffinities";
    let dropped = |release: &str| in_release(release, "PropagationPolicy", &spec);
    assert_eq!(dropped("1.18"), said(overflow, true), "it is of the wrong type");
    assert_eq!(dropped("1.17"), said(overflow, false));
    assert_eq!(dropped("1.14").len(), 3);
    assert!(dropped("1.14").iter().all(|(_, refused)| !refused));
}
