//! What releases differ in when clusters fail.

use serde_json::{Value, json};

use super::*;

const START: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn cluster(name: &str, ready: &str, taints: &Value) -> Object {
    let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": START});
    let enablement = json!({"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]});
    let body = json!({
        "spec": {"taints": taints},
        "status": {"conditions": [condition], "apiEnablements": [enablement]},
    });
    Object::from_path("cluster.karmada.io/v1alpha1", "Cluster", name, body)
}

/// A binding on two clusters, whose policy evicts at once from clusters that fail.
fn binding() -> Object {
    let placement = json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}});
    let body = json!({
        "metadata": {"annotations": {"policy.karmada.io/applied-placement": placement.to_string()}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "clusters": [{"name": "m1"}, {"name": "m2"}],
            "placement": placement,
            "failover": {"cluster": {"purgeMode": "Directly"}},
        },
    });
    Object::from_path("work.karmada.io/v1alpha2", "ResourceBinding", "shop/web-deployment", body)
}

fn options(release: &str) -> FailoverOptions {
    FailoverOptions {
        failover: true,
        ..FailoverOptions::for_release(RELEASES.parse_release(release).unwrap())
    }
}

#[test]
fn before_1_14_the_control_plane_taints_and_evicts() {
    let run = |release: &str| {
        let objects = [cluster("m1", "False", &json!([])), cluster("m2", "True", &json!([])), binding()];
        let mut plane = FailoverModel::new(&objects, options(release)).unwrap();
        let effects = |plane: &FailoverModel| {
            plane.members()[0].taints().iter().map(|taint| taint.effect.clone()).collect::<Vec<_>>()
        };
        let first = plane.run_until_stable(at(10));
        assert_eq!(effects(&plane), ["NoSchedule"]);
        plane.run_until_stable(at(301));
        let tainted = effects(&plane);
        // Admission of these releases adds a toleration for 300 seconds.
        let kept = plane.run_until_stable(at(600)).evicted;
        (first.next, tainted.len(), kept.len(), plane.run_until_stable(at(602)).evicted)
    };
    let minutes = SignedDuration::from_secs(290);
    assert_eq!(run("1.13"), (Some(minutes), 2, 0, vec![(0, "m1".to_owned())]));
    assert_eq!(run("1.14"), (None, 1, 0, Vec::new()));
}

#[test]
fn before_1_15_the_flag_says_how_taints_evict() {
    let mode = |release: &str| {
        let taint = json!([{"key": "broken", "effect": "NoExecute", "timeAdded": START}]);
        let objects = [cluster("m1", "True", &taint), cluster("m2", "True", &json!([])), binding()];
        let options = FailoverOptions { taint_eviction: true, ..options(release) };
        let mut plane = FailoverModel::new(&objects, options).unwrap();
        plane.run_until_stable(at(10));
        plane.bindings[0].tasks[0].purge_mode.clone()
    };
    assert_eq!([mode("1.14"), mode("1.15")], ["Graciously", "Directly"]);
}
