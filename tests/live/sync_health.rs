//! What holds the stages of `federate sync`: objects that are not healthy, people, windows, and the end of the process.

use std::cell::Cell;
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::sandbox::{WEB, config, deployment};
use crate::sync_objects::{Hub, Running, image, until};
use crate::sync_rollout::A;
use crate::sync_windows::{closing, revision, sleep_until};

/// A repo with a Deployment of one replica for `m1`, the first stage, and `m2`, the second one.
fn staged(dialect: &str) -> Hub {
    let hub = Hub::new();
    let cluster = |name: &str| {
        let metadata = json!({"name": name, "labels": {"stage": name}});
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": {}})
    };
    if dialect == "karmada" {
        let clusters = ["m1", "m2"].map(|name| cluster(name).to_string());
        hub.sandbox.write("clusters.yaml", &clusters.join("\n---\n"));
    } else {
        hub.sandbox.remove("clusters.yaml");
        hub.sandbox.remove("policy.yaml");
        let clusters = ["m1", "m2"].map(|name| json!({"name": name, "labels": {"stage": name}}));
        hub.sandbox.set("unplaced", &json!("everywhere"));
        hub.sandbox.set("clusters", &json!(clusters));
    }
    push(&hub, "nginx:1.27");
    hub
}

/// Pushes a revision with this image.
fn push(hub: &Hub, image: &str) {
    hub.sandbox.write("web.yaml", &deployment(image).replace("replicas: 2", "replicas: 1"));
    hub.push("next");
}

fn message(hub: &Hub) -> String {
    hub.ready("web")["message"].as_str().unwrap_or_default().to_owned()
}

/// Lets the pods of both stages run, one after the other.
fn run_both(hub: &Hub, tag: &str) {
    for member in ["m1", "m2"] {
        until("the stage is updated", || hub.sandbox.has(member, WEB) && image(&hub.sandbox, member) == tag);
        hub.sandbox.start_pods(member);
    }
    until("the rollout is over", || hub.ready("web")["status"] == "True");
}

/// One pod runs, and the next revision gets a second one that does not start: the old pod is available, and as many pods as
/// desired are updated.
#[test]
fn a_stage_is_held_by_a_new_pod_that_does_not_start() {
    for dialect in ["karmada", "none"] {
        let hub = staged(dialect);
        let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
        let rollout = json!({"stages": [stage("m1"), stage("m2")]});
        let spec = json!({"interval": "1s", "retryInterval": "1s", "timeout": "20s", "rollout": rollout});
        hub.create(&hub.sync("web", &spec));
        let running = Running::start(&hub, "log");
        run_both(&hub, "nginx:1.27");

        push(&hub, "nginx:1.28");
        until("the first stage is updated", || image(&hub.sandbox, "m1") == "nginx:1.28");
        hub.sandbox.hold_new_pod("m1");
        until("the stage waits", || {
            message(&hub).contains("waits for m1: Deployment shop/web: not healthy yet: ")
        });
        assert_eq!(hub.ready("web")["reason"], "Progressing", "{dialect}: {}", message(&hub));
        let counts = hub.status("web")["clusters"].clone();
        let sum: u64 = counts.as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!((sum, &counts["notReady"], &counts["pending"]), (2, &json!(1), &json!(1)), "{counts}");
        until("the stage is halted", || hub.ready("web")["reason"] == "RolloutHalted");
        let halted = message(&hub);
        assert!(
            halted.contains("is halted in stage `m1`: m1: Deployment shop/web: not healthy after 2"),
            "{halted}"
        );
        assert!(halted.contains("1 old pod"), "{dialect}: {halted}");
        assert!(halted.contains("1 cluster keeps its former revision"), "{halted}");
        assert_eq!(image(&hub.sandbox, "m2"), "nginx:1.27", "{dialect}: the second stage has not begun");
        // Each cluster is shown with the revision that it has.
        let tree: Value = serde_json::from_str(&hub.ask("tree web -o json").code(1).out).unwrap();
        let (former, own) = (&tree["clusters"][1]["revision"], &tree["clusters"][0]["revision"]);
        assert!(former.is_string() && *former != revision(&hub), "{tree:#}");
        assert!(own.is_null() || *own != *former, "{tree:#}");

        hub.sandbox.start_pods("m1");
        run_both(&hub, "nginx:1.28");
        assert_eq!(hub.status("web")["clusters"]["ready"], 2);
        assert_eq!(running.end("-TERM"), Some(0));
    }
}

/// A rollout over many clusters, each of which takes a moment.
fn rolling(windows: &Value) -> (Hub, Running, Vec<String>) {
    let members: Vec<String> = (1..=12).map(|number| format!("m{number:02}")).collect();
    let hub = Hub::with(&members.iter().map(String::as_str).collect::<Vec<_>>());
    hub.sandbox.remove("web.yaml");
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("first");
    let rollout = json!({"stages": [{"name": "all", "labelSelector": {}, "maxConcurrency": 1}]});
    hub.create(&hub.sync("web", &json!({"rollout": rollout, "windows": windows})));
    let running = Running::start(&hub, "log");
    until("the first revision is everywhere", || hub.ready("web")["status"] == "True");
    for member in &members {
        let slow = FaultKind::Slow(Duration::from_millis(600));
        let slow = InjectedFault::new("patch", slow).with_times(10).on_path("configmaps/a");
        hub.sandbox.fleet.lock_cluster(member).add_fault(slow);
    }
    hub.sandbox.write("a.yaml", &config("a", "2"));
    hub.push("second");
    let requested = json!({"federate.dev/requestedAt": "1"});
    hub.patch("web", &json!({"metadata": {"annotations": requested}}));
    (hub, running, members)
}

fn count_updated(hub: &Hub, members: &[String]) -> usize {
    members.iter().filter(|member| hub.sandbox.get(member, A)["data"]["k"] == "2").count()
}

#[test]
fn a_rollout_whose_clusters_are_healthy_at_once_can_be_aborted() {
    let (hub, running, members) = rolling(&json!([]));
    until("some clusters are updated", || count_updated(&hub, &members) >= 2);
    let abort = json!({"federate.dev/abort": revision(&hub)[..8]});
    hub.patch("web", &json!({"metadata": {"annotations": abort}}));
    let most = Cell::new(0);
    until("it is aborted", || {
        most.set(most.get().max(count_updated(&hub, &members)));
        hub.ready("web")["reason"] == "RolloutAborted"
    });
    assert!(most.get() < 8, "{} clusters were updated", most.get());
    assert_eq!(count_updated(&hub, &members), 0);
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_rollout_whose_clusters_are_healthy_at_once_ends_with_its_window_and_its_process() {
    let (windows, closes) = closing(25);
    let (hub, running, members) = rolling(&windows);
    until("some clusters are updated", || count_updated(&hub, &members) >= 1);
    let begun = Instant::now();
    assert_eq!(running.end("-TERM"), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let updated = count_updated(&hub, &members);
    assert!(updated < 8, "{updated} clusters are updated");
    // It goes on two clusters before the window closes.
    sleep_until(closes - SignedDuration::from_secs(2));
    let running = Running::start(&hub, "log");
    until("the rollout waits", || message(&hub).contains("waits for the window that opens at"));
    let waiting = count_updated(&hub, &members);
    assert!((updated..11).contains(&waiting), "{waiting} clusters are updated");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(count_updated(&hub, &members), waiting);
    assert_eq!(running.end("-TERM"), Some(0));
}
