//! Whatever passes can be read: the readers never meet an object that fails them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{newest, object};
use crate::version::KarmadaBehaviour;
use crate::{api, cluster, defaults};
use federate_kubernetes::{Finding, Object};

/// Every way to put one of `values` in place of one value of `body`.
fn mutants(body: &Value, values: &[Value]) -> Vec<Value> {
    let mut found = values.to_vec();
    let children: Vec<(String, &Value)> = match body {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        for mutant in mutants(child, values) {
            let mut whole = body.clone();
            *whole.pointer_mut(&format!("/{key}")).unwrap() = mutant;
            found.push(whole);
        }
    }
    found
}

/// Checks every mutant of a valid object with every field that is read.
fn passing_is_readable(kind: &str, body: &Value, readable: impl Fn(&Object) -> bool) {
    let values = json!([null, true, -1, 1.5, u64::MAX, "x", [], [null], [{}], {}, {"x": null}]);
    assert_eq!(newest(&object(kind, body.clone())), []);
    let (mut passed, mut refused) = (0, 0);
    for mutant in mutants(body, values.as_array().unwrap()) {
        let mutant = object(kind, mutant);
        if newest(&mutant).iter().any(Finding::is_error) {
            refused += 1;
        } else {
            passed += 1;
            assert!(readable(&mutant), "{}", mutant.body);
        }
    }
    assert!(passed > 20 && refused > 100, "{passed} passed, {refused} refused");
}

fn affinity() -> Value {
    let requirement = json!({"key": "zone", "operator": "In", "values": ["a"]});
    json!({
        "clusterNames": ["m"],
        "exclude": ["n"],
        "fieldSelector": {"matchExpressions": [requirement]},
        "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [requirement]},
    })
}

#[test]
fn propagation_policies() {
    let mut term = affinity();
    term["affinityName"] = json!("a");
    term["overflowAffinities"] = json!([{"affinityName": "b", "exclude": ["m"]}]);
    let weights = json!({
        "dynamicWeight": "AvailableReplicas",
        "staticWeightList": [{"weight": 1, "targetCluster": affinity()}],
    });
    let toleration =
        json!({"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 3});
    let placement = json!({
        "clusterAffinities": [term],
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
        "clusterTolerations": [toleration],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": weights,
        },
    });
    let labels = json!({"matchLabels": {"a": "b"}});
    let spec = json!({
        "resourceSelectors":
            [{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "x", "labelSelector": labels}],
        "placement": placement,
        "priority": 1,
        "preemption": "Always",
        "propagateDeps": true,
        "dependentOverrides": ["o"],
        "schedulerName": "s",
        "conflictResolution": "Abort",
        "preserveResourcesOnDeletion": true,
        "failover": {"application": {}, "cluster": {}},
        "suspension": {"dispatching": false, "dispatchingOnClusters": {"clusterNames": ["m"]}},
    });
    let body = json!({"spec": spec});
    passing_is_readable("PropagationPolicy", &body, |o| {
        defaults::propagation_spec(o, &KarmadaBehaviour::for_newest_release()).is_ok()
    });
    let single = json!({"spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}],
        "placement": {"clusterAffinity": affinity()},
    }});
    passing_is_readable("ClusterPropagationPolicy", &single, |o| {
        defaults::propagation_spec(o, &KarmadaBehaviour::for_newest_release()).is_ok()
    });
}

#[test]
fn override_policies() {
    let arguments = json!([{"containerName": "c", "operator": "add", "value": ["x"]}]);
    let metadata = json!([{"operator": "add", "value": {"a": "b"}}]);
    let patch = json!([{"subPath": "/a", "operator": "add", "value": 1}]);
    let overriders = json!({
        "plaintext": [{"path": "/a", "operator": "add", "value": 1}],
        "imageOverrider":
            [{"predicate": {"path": "/a"}, "component": "Tag", "operator": "add", "value": "1"}],
        "commandOverrider": arguments,
        "argsOverrider": arguments,
        "labelsOverrider": metadata,
        "annotationsOverrider": metadata,
        "fieldOverrider": [{"fieldPath": "/a", "json": patch}, {"fieldPath": "/a", "yaml": patch}],
    });
    let rule = json!({"targetCluster": affinity(), "overriders": overriders});
    for spec in [rule.clone(), json!({"overrideRules": [rule]})] {
        passing_is_readable("OverridePolicy", &json!({"spec": spec}), |o| {
            api::KarmadaOverrideSpec::deserialize(&o.body["spec"]).is_ok()
        });
    }
}

#[test]
fn clusters() {
    let ranges = json!([{"name": "cpu", "min": "0", "max": "1"}]);
    let body = json!({
        "spec": {
            "provider": "p", "region": "r", "zone": "z", "zones": ["z"],
            "taints": [{"key": "a", "value": "b", "effect": "NoExecute"}],
            "resourceModels": [{"grade": 0, "ranges": ranges}],
        },
        "status": {
            "apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}],
            "resourceSummary": {
                "allocatable": {"cpu": "1"}, "allocated": {"cpu": 0}, "allocating": {},
                "allocatableModelings": [{"grade": 0, "count": 1}],
            },
        },
    });
    passing_is_readable("Cluster", &body, |o| cluster::read_cluster(o, true).is_ok());
}
