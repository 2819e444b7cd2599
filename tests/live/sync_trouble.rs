//! What `federate sync` does about remotes that are slow, shallow or lose their branch, and about members that refuse, are
//! busy or forget who federate is.

use std::cell::Cell;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::json;

use crate::sandbox::{WEB, config, deployment};
use crate::sync_objects::{Hub, Running, git, image, until};

#[test]
fn a_remote_that_does_not_answer_costs_the_timeout() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"timeout": "2s"})));
    hub.once().code(0);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/origin.git", silent.local_addr().unwrap());
    hub.patch("web", &json!({"spec": {"source": {"url": url}}}));
    let begun = Instant::now();
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: "), "{ran:#?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    drop(silent);
}

#[test]
fn a_gap_in_the_shallow_history_is_no_rewritten_history_and_a_lost_branch_changes_nothing() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    for _ in 0..30 {
        git(&hub.sandbox, "-C repo commit -q --allow-empty -m step");
    }
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("last");
    let ran = hub.once().code(0);
    assert!(!ran.err.contains("rewritten"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28");
    git(&hub.sandbox, "-C origin.git update-ref -d refs/heads/main");
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: ") && ran.out.contains("has no branch `main`"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28");
    hub.push("back");
    hub.once().code(0);
}

#[test]
fn members_that_are_busy_or_forget_who_asks_get_what_they_missed() {
    let hub = Hub::simulated();
    hub.create(&hub.sync("web", &json!({"interval": "1s", "drift": {"mode": "correct"}})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    until("the cluster is watched", || hub.sandbox.count("m1", "watch") >= 2);
    for (verb, kind) in [
        ("list", FaultKind::Stranger),
        ("get", FaultKind::Stranger),
        ("watch", FaultKind::Stranger),
        ("patch", FaultKind::TooMany { seconds: 1 }),
        ("patch", FaultKind::Status(503)),
        ("patch", FaultKind::Lose),
        ("get", FaultKind::Slow(Duration::from_millis(300))),
    ] {
        hub.sandbox.fleet.lock_cluster("m1").add_fault(InjectedFault::new(verb, kind).with_times(2));
    }
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("next");
    for member in ["m2", "m1"] {
        until("the revision is applied", || {
            image(&hub.sandbox, member) == "nginx:1.28"
                && hub.sandbox.has(member, "/api/v1/namespaces/shop/configmaps/a")
        });
    }
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &mine);
    until("it is put back", || image(&hub.sandbox, "m1") == "nginx:1.28");
    assert_eq!(running.end("-TERM"), Some(0));
}

/// A bad commit is waited for up to the timeout; what comes after it is not put off until then.
#[test]
fn a_wait_ends_with_the_next_revision_a_request_and_the_process() {
    let hub = Hub::simulated();
    let spec = json!({"interval": "1s", "timeout": "10m", "apply": {"wait": true}});
    hub.create(&hub.sync("web", &spec));
    let running = Running::start(&hub, "log");
    until("the first revision is applied", || hub.sandbox.has("m1", WEB));
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("fix");
    until("the fix is applied", || hub.sandbox.has("m1", WEB) && image(&hub.sandbox, "m1") == "nginx:1.28");
    // A request is noted when the round that handles it ends, which the next request brings about.
    let number = Cell::new(0);
    until("a request ends the wait of the round before it", || {
        number.set(number.get() + 1);
        let requested = json!({"federate.dev/requestedAt": number.get().to_string()});
        hub.patch("web", &json!({"metadata": {"annotations": requested}}));
        std::thread::sleep(Duration::from_millis(500));
        hub.status("web")["lastHandledReconcileAt"].is_string()
    });
    let begun = Instant::now();
    assert_eq!(running.end("-TERM"), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// A watch that goes on, or is silent, says nothing about a cluster that no longer answers or admits federate.
#[test]
fn a_cluster_that_is_lost_while_it_is_watched_is_not_ready_and_comes_back() {
    let hub = Hub::simulated();
    let spec = json!({"interval": "1s", "retryInterval": "1s", "drift": {"mode": "report"}});
    hub.create(&hub.sync("web", &spec));
    let running = Running::start(&hub, "log");
    for kind in [FaultKind::Stranger, FaultKind::Status(403), FaultKind::Drop] {
        until("the Sync is ready", || hub.ready("web")["status"] == "True");
        hub.watched("m1");
        hub.sandbox.fleet.lock_cluster("m1").add_fault(InjectedFault::new("*", kind.clone()).with_times(20));
        until("the cluster is not ready", || hub.ready("web")["status"] == "False");
        let status = hub.status("web");
        assert_eq!(status["clusters"]["ready"], 1, "{kind:?}: {status:#}");
        assert_eq!(status["failing"][0]["name"], "m1", "{kind:?}: {status:#}");
    }
    until("the Sync is ready again", || hub.ready("web")["status"] == "True");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_broken_commit_does_not_stop_correction_to_the_last_good_one() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"interval": "2s", "drift": {"mode": "correct"}})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    until("the commit is refused", || hub.ready("web")["reason"] == "BuildFailed");
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &mine);
    until("it is put back", || image(&hub.sandbox, "m1") == "nginx:1.27");
    // A round under way says `Progressing` for a moment.
    until("the commit is broken anyway", || hub.ready("web")["reason"] == "BuildFailed");
    hub.sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.28"));
    hub.push("mended");
    until("the next one is applied", || image(&hub.sandbox, "m1") == "nginx:1.28");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    drop(running);
}

/// The API server of the Syncs may be restarted at any time.
#[test]
fn a_hub_that_is_away_longer_than_the_lease_does_not_end_the_process() {
    let hub = Hub::simulated();
    hub.create(&hub.sync("web", &json!({"interval": "1s", "drift": {"mode": "correct"}})));
    let running = Running::with(&hub, "--leader-election-lease-duration 5", "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    hub.sandbox
        .fleet
        .lock_cluster("hub")
        .add_fault(InjectedFault::new("*", FaultKind::Drop).with_times(1_000_000));
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("next");
    let log = || std::fs::read_to_string(hub.sandbox.path("log")).unwrap();
    until("it is known", || log().contains("the Lease could not be renewed for 4 s"));
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27", "another process may lead");
    hub.sandbox.fleet.lock_cluster("hub").repair();
    until("the revision is applied", || image(&hub.sandbox, "m1") == "nginx:1.28");
    until("the Sync is ready again", || hub.ready("web")["status"] == "True");
    assert!(log().contains("leading again"), "{}", log());
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn without_the_right_to_watch_clusters_are_compared_at_the_interval() {
    let hub = Hub::simulated();
    for member in ["m1", "m2"] {
        let refused = InjectedFault::new("watch", FaultKind::Status(403)).with_times(1_000_000);
        hub.sandbox.fleet.lock_cluster(member).add_fault(refused);
    }
    hub.create(&hub.sync("web", &json!({"interval": "2s", "drift": {"mode": "correct"}})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    for replicas in [5, 6] {
        hub.sandbox.edit("m1", "kubectl-edit", WEB, &json!({"spec": {"replicas": replicas}}));
        let edited = Instant::now();
        until("it is put back", || hub.sandbox.get("m1", WEB)["spec"]["replicas"] == 2);
        assert!(edited.elapsed() < Duration::from_secs(30), "{:?}", edited.elapsed());
    }
    assert_eq!(running.end("-TERM"), Some(0));
}

/// Alerts look at errors: a rollout that waits is none.
#[test]
fn what_goes_on_is_never_logged_as_an_error() {
    let hub = Hub::new();
    let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
    let cluster = |name: &str| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}, labels: {{stage: \
             {name}}}}}\nspec: {{}}\n"
        )
    };
    let clusters = [cluster("m1"), cluster("m2")].concat();
    // Real clusters have no nodes, so that the Deployment never becomes healthy: the first stage goes on.
    hub.sandbox.write("clusters.yaml", &clusters);
    hub.push("stages");
    let rollout = json!({"interval": "1s", "rollout": {"stages": [stage("m1"), stage("m2")]}});
    hub.create(&hub.sync("web", &rollout));
    let running = Running::start(&hub, "log");
    until("it waits for the first stage", || {
        hub.ready("web")["message"].as_str().unwrap_or_default().contains("waits for m1: ")
    });
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(hub.ready("web")["reason"], "Progressing");
    let log = std::fs::read_to_string(hub.sandbox.path("log")).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" ERROR ")).collect();
    assert!(lines.is_empty(), "{lines:#?}");
    assert!(!hub.sandbox.has("m2", WEB), "the second stage waits");
    assert_eq!(running.end("-TERM"), Some(0));
}
