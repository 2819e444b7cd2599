//! `federate sync` over a `KubeFleet` repo: update runs and rolling strategies decide which cluster is next, and a process
//! that takes over goes on where the former one was.

use serde_json::{Value, json};

use crate::sandbox::{WEB, config, deployment};
use crate::sync_objects::{Hub, Running, image, until};
use crate::sync_rollout::A;

const API: &str = "placement.kubernetes-fleet.io/v1beta1";
const MEMBERS: [&str; 6] = ["m1", "m2", "m3", "m4", "m5", "m6"];

/// A repo whose placement has this strategy. The cluster `m1` is in the stage `canary`, the others are in `rest`.
pub(crate) fn hub(strategy: &Value) -> Hub {
    let hub = Hub::with(&MEMBERS);
    let cluster = |name: &str| {
        let stage = if name == "m1" { "canary" } else { "rest" };
        json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster",
            "metadata": {"name": name, "labels": {"stage": stage}},
            "spec": {"identity": {"kind": "ServiceAccount", "name": name}}})
    };
    write(&hub, "clusters.yaml", &MEMBERS.map(cluster));
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "shop"});
    let placement = json!({
        "apiVersion": API, "kind": "ClusterResourcePlacement", "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}, "strategy": strategy},
    });
    write(&hub, "policy.yaml", &[placement]);
    let stages = json!([
        {"name": "canary", "labelSelector": {"matchLabels": {"stage": "canary"}},
         "afterStageTasks": [{"type": "Approval"}]},
        {"name": "rest", "labelSelector": {"matchLabels": {"stage": "rest"}}, "maxConcurrency": 2},
    ]);
    let stages = json!({
        "apiVersion": API, "kind": "ClusterStagedUpdateStrategy", "metadata": {"name": "careful"},
        "spec": {"stages": stages},
    });
    write(&hub, "strategy.yaml", &[stages]);
    hub.sandbox.remove("web.yaml");
    hub
}

fn write(hub: &Hub, name: &str, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    hub.sandbox.write(name, &texts.join("\n---\n"));
}

/// Pushes a value, and a run of this name.
pub(crate) fn push(hub: &Hub, run: &str, value: &str) {
    let body = json!({
        "apiVersion": API, "kind": "ClusterStagedUpdateRun", "metadata": {"name": run},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "careful", "state": "Run"},
    });
    write(hub, &format!("run-{run}.yaml"), &[body]);
    hub.sandbox.write("a.yaml", &config("a", value));
    hub.push(run);
}

/// The values in the clusters; empty where there is none.
pub(crate) fn values(hub: &Hub) -> [String; 6] {
    MEMBERS.map(|member| {
        let found = hub.sandbox.has(member, A).then(|| hub.sandbox.get(member, A));
        found.map(|found| found["data"]["k"].as_str().unwrap().to_owned()).unwrap_or_default()
    })
}

/// Waits until the run asks for approval, and approves it.
pub(crate) fn approve(hub: &Hub, run: &str) {
    let asked = || hub.status("web")["rollout"]["approval"].as_str().unwrap_or_default().to_owned();
    until("it waits for approval", || asked().ends_with(&format!("-{run}-after-canary")));
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/approve": asked()}}}));
}

fn is_ready(hub: &Hub) -> bool {
    let ready = hub.ready("web");
    ready["status"] == "True" && ready["message"].as_str().unwrap_or_default().contains("applied")
}

fn reconcile(hub: &Hub, time: &str) {
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/requestedAt": time}}}));
}

#[test]
fn a_standby_goes_on_with_an_update_run() {
    let hub = hub(&json!({"type": "External"}));
    push(&hub, "first", "1");
    let short = "--leader-election-lease-duration 5";
    let former = Running::with(&hub, short, "former");
    hub.create(&hub.sync("web", &json!({"interval": "5s", "apply": {"pruneLimit": 100}})));
    approve(&hub, "first");
    until("the first run is over", || values(&hub) == ["1"; 6].map(str::to_owned));
    until("the Sync is ready", || is_ready(&hub));
    push(&hub, "second", "2");
    reconcile(&hub, "2");
    until("the canary is updated", || values(&hub)[0] == "2");
    assert_eq!(values(&hub)[1..], ["1"; 5].map(str::to_owned), "the others wait");
    // The leader is killed while the run waits for a person, and the next one in the middle of a stage.
    let standby = Running::with(&hub, short, "standby");
    former.end("-KILL");
    approve(&hub, "second");
    until("a cluster of the stage is updated", || values(&hub)[1..].iter().any(|value| value == "2"));
    standby.end("-KILL");
    let last = Running::with(&hub, short, "last");
    until("the run is over", || values(&hub) == ["2"; 6].map(str::to_owned));
    until("the Sync is ready", || is_ready(&hub));
    assert_eq!(hub.status("web")["clusters"]["ready"], 6);
    drop(last);
}

#[test]
fn rolling_strategies_are_carried_out() {
    let limits = json!({"maxUnavailable": 2, "maxSurge": 1, "unavailablePeriodSeconds": 1});
    let hub = hub(&json!({"type": "RollingUpdate", "rollingUpdate": limits}));
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("first");
    let running = Running::start(&hub, "log");
    hub.create(&hub.sync("web", &json!({"rollout": {"byPlacements": true}})));
    until("the Sync is ready", || is_ready(&hub));
    for value in ["2", "3"] {
        hub.sandbox.write("a.yaml", &config("a", value));
        hub.push("next");
        reconcile(&hub, value);
        until("all clusters are updated", || values(&hub).iter().all(|found| found == value));
        until("the Sync is ready", || is_ready(&hub));
    }
    drop(running);
}

/// Lets the pods of all clusters run, one after the other, until all have this image.
fn run_pods(hub: &Hub, tag: &str) {
    until("all clusters are updated", || {
        let updated = |member: &&str| hub.sandbox.has(member, WEB) && image(&hub.sandbox, member) == tag;
        let all: Vec<&str> = MEMBERS.into_iter().filter(updated).collect();
        for member in &all {
            hub.sandbox.start_pods(member);
        }
        all.len() == MEMBERS.len()
    });
    until("the Sync is ready", || is_ready(hub));
}

#[test]
fn a_run_is_held_by_a_new_pod_that_does_not_start() {
    let hub = hub(&json!({"type": "External"}));
    let web = |image: &str| deployment(image).replace("replicas: 2", "replicas: 1");
    hub.sandbox.write("web.yaml", &web("nginx:1.27"));
    push(&hub, "first", "1");
    let running = Running::start(&hub, "log");
    hub.create(&hub.sync("web", &json!({"interval": "2s", "apply": {"pruneLimit": 100}})));
    until("the canary is updated", || hub.sandbox.has("m1", WEB));
    hub.sandbox.start_pods("m1");
    approve(&hub, "first");
    run_pods(&hub, "nginx:1.27");

    hub.sandbox.write("web.yaml", &web("nginx:1.28"));
    push(&hub, "second", "2");
    until("the canary is updated", || image(&hub.sandbox, "m1") == "nginx:1.28");
    hub.sandbox.hold_new_pod("m1");
    std::thread::sleep(std::time::Duration::from_secs(6));
    let status = hub.status("web");
    assert!(status["rollout"]["approval"].is_null(), "the canary is not healthy: {status:#}");
    assert_eq!(hub.ready("web")["reason"], "Progressing", "{status:#}");
    assert_eq!(status["clusters"]["notReady"], 1, "{status:#}");
    for member in &MEMBERS[1..] {
        assert_eq!(image(&hub.sandbox, member), "nginx:1.27", "{member}");
    }
    hub.sandbox.start_pods("m1");
    approve(&hub, "second");
    run_pods(&hub, "nginx:1.28");
    assert_eq!(running.end("-TERM"), Some(0));
}
