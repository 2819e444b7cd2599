//! `federate sync` over a repo of Open Cluster Management: the rollout strategy of a set of works decides which cluster is
//! next.

use std::fs;
use std::process::Command;

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox};
use crate::sync_rollout::{CLUSTERS, values};

const GROUP: &str = "open-cluster-management.io";

/// A repo whose placement `web` selects all clusters, with `c1` in the decision group `canary`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::simulated(&CLUSTERS);
    let cluster = |name: &str| {
        let group = if name == "c1" { "canary" } else { "rest" };
        json!({"apiVersion": format!("cluster.{GROUP}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": {"group": group}}})
    };
    write(&sandbox, "clusters.yaml", &CLUSTERS.map(cluster));
    let selector = json!({"labelSelector": {"matchLabels": {"group": "canary"}}});
    let canary = json!({"groupName": "canary", "groupClusterSelector": selector});
    let placement = json!({
        "apiVersion": format!("cluster.{GROUP}/v1beta1"), "kind": "Placement",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}},
    });
    let binding = json!({
        "apiVersion": format!("cluster.{GROUP}/v1beta2"), "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "global", "namespace": "shop"}, "spec": {"clusterSet": "global"},
    });
    write(&sandbox, "policy.yaml", &[placement, binding]);
    sandbox.remove("web.yaml");
    git(&sandbox, "init -q -b main");
    sandbox
}

fn write(sandbox: &Sandbox, name: &str, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    sandbox.write(name, &texts.join("\n---\n"));
}

fn git(sandbox: &Sandbox, arguments: &str) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments.split(' '));
    let ran = command.current_dir(sandbox.path("repo")).output().unwrap();
    assert!(ran.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Commits a set of works with this value, and does a round.
fn roll_out(sandbox: &Sandbox, strategy: &Value, value: &str) -> Ran {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "shop"}, "data": {"k": value}});
    let works = json!({
        "apiVersion": format!("work.{GROUP}/v1alpha1"), "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "placementRefs": [{"name": "web", "rolloutStrategy": strategy}],
            "manifestWorkTemplate": {"workload": {"manifests": [namespace, config]}},
        },
    });
    write(sandbox, "works.yaml", &[works]);
    git(sandbox, "add -A");
    git(sandbox, "commit -q --allow-empty -m change");
    once(sandbox)
}

fn once(sandbox: &Sandbox) -> Ran {
    let sync = json!({
        "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "metadata": {"name": "web"},
        "spec": {
            "source": {"url": "repo", "ref": {"branch": "main"}}, "interval": "1m",
            "apply": {"pruneLimit": 100, "applySet": sandbox.applyset()},
            "rollout": {"byPlacements": true},
        },
    });
    fs::write(sandbox.path("sync.yaml"), sync.to_string()).unwrap();
    sandbox.ran(&mut sandbox.sync("--once"))
}

/// Lets a number of patches of the `ConfigMap` fail.
fn fail(sandbox: &Sandbox, cluster: &str, times: usize) {
    let fault = InjectedFault::new("patch", FaultKind::Status(500)).with_times(times).on_path("configmaps/a");
    sandbox.fleet.lock_cluster(cluster).add_fault(fault);
}

#[test]
fn clusters_follow_each_other_as_long_as_a_success_must_last() {
    let sandbox = sandbox();
    let progressive = |min_success_time: &str| {
        let limits = json!({"maxConcurrency": 1, "minSuccessTime": min_success_time});
        json!({"type": "Progressive", "progressive": limits})
    };
    roll_out(&sandbox, &progressive("0s"), "1").code(0);
    assert_eq!(values(&sandbox), ["1", "1", "1"]);
    let ran = roll_out(&sandbox, &progressive("1h"), "2").code(1);
    assert!(ran.out.contains("ManifestWorkReplicaSet shop/web: 1 of 3 clusters updated"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    once(&sandbox).code(1);
    assert_eq!(values(&sandbox), ["2", "1", "1"], "an hour is not over");
    roll_out(&sandbox, &progressive("0s"), "2").code(0);
    assert_eq!(values(&sandbox), ["2", "2", "2"]);
}

#[test]
fn a_failure_halts_the_rollout_unless_the_strategy_tolerates_it() {
    let sandbox = sandbox();
    let canary = json!([{"groupName": "canary"}]);
    let careful = json!({"type": "ProgressivePerGroup",
        "progressivePerGroup": {"mandatoryDecisionGroups": canary}});
    roll_out(&sandbox, &careful, "1").code(0);
    fail(&sandbox, "c1", 2);
    let ran = roll_out(&sandbox, &careful, "2").code(2);
    let said = "RolloutHalted: the rollout is halted: ManifestWorkReplicaSet shop/web: c1: ";
    assert!(ran.out.contains(said), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "1", "1"], "the canary is mandatory");
    for _ in 0..4 {
        once(&sandbox);
    }
    once(&sandbox).code(0);
    assert_eq!(values(&sandbox), ["2", "2", "2"]);
    let tolerant = json!({"type": "Progressive",
        "progressive": {"maxConcurrency": 2, "maxFailures": 1}});
    fail(&sandbox, "c1", 20);
    roll_out(&sandbox, &tolerant, "3");
    let [c1, r1, r2] = values(&sandbox);
    assert_eq!([c1.as_str(), r1.as_str(), r2.as_str()], ["2", "3", "3"], "the others go on");
}
