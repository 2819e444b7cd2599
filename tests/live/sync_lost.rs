//! Clusters that are lost while something else keeps a round from going on: each is looked at at every interval, whatever
//! has become of its credentials, of the git server, of other Syncs and of the revision.

use std::fs;
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::{Value, json};

use crate::sandbox::WEB;
use crate::sync_objects::{Hub, Running, events, image, until};

const SECRET: &str = "/api/v1/namespaces/shop/secrets/members";

/// A Sync that is ready, with its loop.
fn ready(more: &Value) -> (Hub, Running) {
    let hub = Hub::new();
    let mut spec = json!({"interval": "1s", "retryInterval": "1s", "drift": {"mode": "report"}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    hub.create(&hub.sync("web", &spec));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    (hub, running)
}

/// Checks that the loss of a cluster is known, and that it is over, while `Ready` has a reason.
#[track_caller]
fn is_known_lost(hub: &Hub, reason: &str) {
    hub.lose_m1();
    until("the cluster is lost", || hub.status("web")["clusters"]["errApplied"] == 1);
    let status = hub.status("web");
    assert_eq!(status["clusters"]["ready"], 1, "{status:#}");
    assert_eq!(status["failing"][0]["name"], "m1", "{status:#}");
    until("the reason stays", || hub.ready("web")["reason"] == reason);
    hub.restore_m1();
    until("the cluster is back", || hub.status("web")["clusters"]["ready"] == 2);
    assert!(hub.status("web")["failing"].is_null(), "{:#}", hub.status("web"));
}

#[test]
fn clusters_whose_credentials_are_gone_are_not_ready() {
    let (hub, running) = ready(&json!({}));
    hub.watched("m1");
    let secret = hub.sandbox.get("hub", SECRET);
    hub.sandbox.delete("hub", SECRET);
    until("no cluster is ready", || hub.status("web")["clusters"]["errApplied"] == 2);
    let status = hub.status("web");
    assert!(status["clusters"]["ready"] == 0 && hub.ready("web")["status"] == "False", "{status:#}");
    for (at, name) in ["m1", "m2"].iter().enumerate() {
        assert_eq!(status["failing"][at]["name"], *name, "{status:#}");
        let message = status["failing"][at]["message"].as_str().unwrap();
        assert!(message.contains("the Secret shop/members does not exist"), "{message}");
    }
    let data = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "members"}, "data": secret["data"]});
    hub.sandbox.create("hub", "/api/v1/namespaces/shop/secrets", "test", &data);
    until("they are back", || hub.ready("web")["status"] == "True");
    assert_eq!(hub.status("web")["clusters"]["ready"], 2);
    // A revision does not get far either.
    hub.sandbox.delete("hub", SECRET);
    hub.sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.28"));
    hub.push("next");
    until("the revision is in no cluster", || {
        let status = hub.status("web");
        status["clusters"]["errApplied"] == 2
            && status["lastAttemptedRevision"] != status["lastAppliedRevision"]
    });
    hub.sandbox.create("hub", "/api/v1/namespaces/shop/secrets", "test", &data);
    until("the revision is applied", || image(&hub.sandbox, "m1") == "nginx:1.28");
    until("they are back", || hub.ready("web")["status"] == "True");
    is_known_lost(&hub, "ReconciliationFailed");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_cluster_is_looked_at_while_the_git_server_is_away() {
    let (hub, running) = ready(&json!({}));
    fs::rename(hub.sandbox.path("origin.git"), hub.sandbox.path("away.git")).unwrap();
    until("the source is away", || hub.ready("web")["reason"] == "GitOperationFailed");
    is_known_lost(&hub, "GitOperationFailed");
    // Another process has nothing in memory, and finds the revision in its cache.
    assert_eq!(running.end("-TERM"), Some(0));
    let running = Running::start(&hub, "log");
    is_known_lost(&hub, "GitOperationFailed");
    // Without the cache, the inventory says which clusters there are.
    assert_eq!(running.end("-TERM"), Some(0));
    fs::remove_dir_all(hub.sandbox.path("caches")).unwrap();
    let running = Running::start(&hub, "log");
    is_known_lost(&hub, "GitOperationFailed");
    fs::rename(hub.sandbox.path("away.git"), hub.sandbox.path("origin.git")).unwrap();
    until("the Sync is ready again", || hub.ready("web")["status"] == "True");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_cluster_is_looked_at_while_another_sync_is_not_ready() {
    let (hub, running) = ready(&json!({}));
    hub.patch("web", &json!({"spec": {"dependsOn": [{"name": "missing"}]}}));
    until("it waits", || hub.ready("web")["reason"] == "DependencyNotReady");
    is_known_lost(&hub, "DependencyNotReady");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_cluster_is_looked_at_although_drift_is_ignored() {
    let (hub, running) = ready(&json!({"drift": {"mode": "ignore"}}));
    is_known_lost(&hub, "ReconciliationFailed");
    until("the Sync is ready again", || hub.ready("web")["status"] == "True");
    // A process that has read nothing looks at them, too.
    assert_eq!(running.end("-TERM"), Some(0));
    let running = Running::start(&hub, "log");
    is_known_lost(&hub, "ReconciliationFailed");
    until("the Sync is ready again", || hub.ready("web")["status"] == "True");
    assert_eq!(running.end("-TERM"), Some(0));
}

/// A spec that is edited has its revision applied again, which a broken commit prevents.
#[test]
fn correction_goes_on_after_a_broken_commit_and_an_edited_spec() {
    let (hub, running) = ready(&json!({"drift": {"mode": "correct"}}));
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    until("the commit is refused", || hub.ready("web")["reason"] == "BuildFailed");
    hub.patch("web", &json!({"spec": {"timeout": "2m"}}));
    until("the spec is read", || hub.status("web")["observedGeneration"] == 2);
    let mine = json!({"spec": {"replicas": 7}});
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &mine);
    until("it is put back", || hub.sandbox.get("m1", WEB)["spec"]["replicas"] == 2);
    is_known_lost(&hub, "BuildFailed");
    assert_eq!(running.end("-TERM"), Some(0));
}

/// Without watches, so that only the interval counts.
#[test]
fn correction_goes_on_without_the_git_server_and_without_watches() {
    let hub = Hub::simulated();
    for member in ["m1", "m2"] {
        let refused = InjectedFault::new("watch", FaultKind::Status(403)).with_times(1_000_000);
        hub.sandbox.fleet.lock_cluster(member).add_fault(refused);
    }
    hub.create(&hub.sync("web", &json!({"interval": "2s", "drift": {"mode": "correct"}})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    fs::remove_dir_all(hub.sandbox.path("origin.git")).unwrap();
    until("the source is away", || hub.ready("web")["reason"] == "GitOperationFailed");
    for replicas in [5, 6] {
        hub.sandbox.edit("m1", "kubectl-edit", WEB, &json!({"spec": {"replicas": replicas}}));
        let edited = Instant::now();
        until("it is put back", || hub.sandbox.get("m1", WEB)["spec"]["replicas"] == 2);
        assert!(edited.elapsed() < Duration::from_secs(30), "{:?}", edited.elapsed());
    }
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn drift_is_reported_once_with_who_and_when() {
    let (hub, running) = ready(&json!({}));
    hub.watched("m1");
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &json!({"spec": {"replicas": 7}}));
    until("an Event says so", || !events(&hub, "shop", "DriftDetected").is_empty());
    let said = events(&hub, "shop", "DriftDetected").remove(0);
    assert!(said.contains("changed by kubectl-edit in m1; changed at 20"), "{said}");
    let drift = hub.status("web")["drift"].clone();
    assert!(drift["changed"].as_str().is_some_and(|time| said.ends_with(time)), "{said}: {drift}");
    // The same fields are changed again.
    std::thread::sleep(Duration::from_millis(1200));
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &json!({"spec": {"replicas": 8}}));
    until("the time is that of the last change", || {
        hub.status("web")["drift"]["changed"] != drift["changed"]
    });
    assert_eq!(events(&hub, "shop", "DriftDetected").len(), 1, "it is the same drift");
    let log = fs::read_to_string(hub.sandbox.path("log")).unwrap();
    assert!(log.lines().any(|line| line.contains("drifted") && line.contains("changed=\"20")), "{log}");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn what_a_person_adds_is_put_back_and_what_is_ignored_survives_a_revision() {
    let ignored =
        json!({"mode": "correct", "ignore": [{"kinds": ["Deployment"], "paths": ["/spec/replicas"]}]});
    let (hub, running) = ready(&json!({"drift": ignored}));
    hub.watched("m1");
    let uid = hub.sandbox.get("m1", WEB)["metadata"]["uid"].clone();
    let added = json!({
        "metadata": {"labels": {"added": "label"}},
        "spec": {"replicas": 7, "template": {"spec": {"containers": [{"name": "added", "image": "busybox"}]}}},
    });
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &added);
    until("it is put back", || {
        let web = hub.sandbox.get("m1", WEB);
        web["metadata"]["labels"]["added"].is_null()
            && web["spec"]["template"]["spec"]["containers"].as_array().unwrap().len() == 1
    });
    hub.sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.28"));
    hub.push("next");
    until("the next revision is applied", || image(&hub.sandbox, "m1") == "nginx:1.28");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let web = hub.sandbox.get("m1", WEB);
    assert_eq!((&web["spec"]["replicas"], &web["metadata"]["uid"]), (&json!(7), &uid));
    assert_eq!(hub.sandbox.get("m2", WEB)["spec"]["replicas"], 2);
    assert_eq!(running.end("-TERM"), Some(0));
}
