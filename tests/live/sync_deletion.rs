//! Deleting a Sync: it ends, and reaches every object that was applied, whatever has become of the source, the spec, the
//! inventory, the namespace and the parents of `ApplySet`s.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::{WEB, config};
use crate::sync_objects::{Hub, Running, SYNCS, until};

const PARENT: &str = "/api/v1/namespaces/default/configmaps/federate.shop.web";
const A: &str = "/api/v1/namespaces/shop/configmaps/a";

/// A Sync that is ready and deletes its objects with itself. The repo has no namespace, which would stay.
fn applied(more: &Value) -> (Hub, Running) {
    let hub = Hub::new();
    for member in ["m1", "m2"] {
        hub.sandbox.create_namespace(member);
    }
    hub.sandbox.remove("namespace.yaml");
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("a");
    let mut spec = json!({"deletionPolicy": "Delete", "apply": {"prune": true, "pruneLimit": 100}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    hub.create(&hub.sync("web", &spec));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    (hub, running)
}

fn delete(hub: &Hub) {
    hub.sandbox.ask("hub", "DELETE", &format!("{SYNCS}/web"), "test", "application/json", &Value::Null);
}

fn reconcile(hub: &Hub, time: &str) {
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/requestedAt": time}}}));
    until("the request is handled", || hub.status("web")["lastHandledReconcileAt"] == time);
}

fn log(hub: &Hub) -> String {
    fs::read_to_string(hub.sandbox.path("log")).unwrap()
}

#[track_caller]
fn is_gone_everywhere(hub: &Hub) {
    until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
    for member in ["m1", "m2"] {
        for path in [WEB, A, PARENT] {
            assert!(!hub.sandbox.has(member, path), "{member}: {path}\n{}", log(hub));
        }
    }
}

/// Removes a cluster from the inventory of the repo.
fn remove_cluster(hub: &Hub, name: &str) {
    let clusters = hub.sandbox.read_file("clusters.yaml");
    let name = format!("{{name: {name}}}");
    let rest: Vec<&str> = clusters.split("---\n").filter(|text| !text.contains(&name)).collect();
    hub.sandbox.write("clusters.yaml", &rest.join("---\n"));
    hub.push("smaller");
}

#[test]
fn deletion_needs_no_source() {
    let (hub, running) = applied(&json!({}));
    fs::remove_dir_all(hub.sandbox.path("origin.git")).unwrap();
    fs::remove_dir_all(hub.sandbox.path("caches")).unwrap();
    delete(&hub);
    is_gone_everywhere(&hub);
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn deletion_needs_no_rendering_and_no_memory() {
    let (hub, running) = applied(&json!({}));
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    reconcile(&hub, "1");
    until("it is said", || hub.ready("web")["reason"] == "BuildFailed");
    // Another process has nothing in memory.
    assert_eq!(running.end("-TERM"), Some(0));
    let memory = "/api/v1/namespaces/shop/configmaps/federate.web";
    hub.sandbox.ask("hub", "DELETE", memory, "test", "application/json", &Value::Null);
    let running = Running::start(&hub, "log");
    delete(&hub);
    is_gone_everywhere(&hub);
    drop(running);
}

#[test]
fn a_suspended_sync_leaves_its_objects() {
    let (hub, running) = applied(&json!({}));
    hub.patch("web", &json!({"spec": {"suspend": true}}));
    until("it is suspended", || log(&hub).contains("suspended"));
    delete(&hub);
    until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
    assert!(hub.sandbox.has("m1", WEB) && hub.sandbox.has("m2", PARENT));
    drop(running);
}

#[test]
fn a_sync_whose_spec_became_invalid_is_deleted_by_the_last_valid_one() {
    for (policy, stays) in [("Delete", false), ("Orphan", true)] {
        let (hub, running) = applied(&json!({}));
        // The definition cannot say what git takes for a branch.
        let spec = json!({"source": {"ref": {"branch": "a*b"}}, "deletionPolicy": policy});
        hub.patch("web", &json!({"spec": spec}));
        until("it is invalid", || hub.ready("web")["reason"] == "InvalidSpec");
        delete(&hub);
        if stays {
            until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
            assert!(hub.sandbox.has("m1", WEB));
        } else {
            is_gone_everywhere(&hub);
        }
        drop(running);
    }
}

/// Whoever may write ConfigMaps in a namespace may not thereby have a Sync act with credentials of others.
#[test]
fn a_recorded_spec_asks_for_no_more_than_a_sync_may() {
    let (hub, running) = applied(&json!({}));
    hub.patch("web", &json!({"spec": {"source": {"ref": {"branch": "a*b"}}}}));
    until("it is invalid", || hub.ready("web")["reason"] == "InvalidSpec");
    let memory = "/api/v1/namespaces/shop/configmaps/federate.web";
    let stored = hub.sandbox.get("hub", memory);
    let mut record: Value = serde_json::from_str(stored["data"]["record"].as_str().unwrap()).unwrap();
    let spec = record["valid_spec"].as_object_mut().unwrap();
    assert!(spec.remove("kubeConfig").is_some(), "{record}");
    record["valid_spec"]["hub"] = json!({});
    let edit = json!({"data": {"record": record.to_string()}});
    hub.sandbox.ask("hub", "PATCH", memory, "tenant", "application/merge-patch+json", &edit);
    delete(&hub);
    until("it is refused", || log(&hub).contains("may not be carried out: spec.serviceAccountName"));
    assert!(hub.sandbox.has("hub", &format!("{SYNCS}/web")), "{}", log(&hub));
    assert!(hub.sandbox.has("m1", WEB) && hub.sandbox.has("m2", WEB));
    hub.patch("web", &json!({"spec": {"deletionPolicy": "Orphan"}}));
    until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
    assert!(hub.sandbox.has("m1", WEB) && hub.sandbox.has("m2", WEB));
    drop(running);
}

#[test]
fn clusters_that_left_are_named_and_reached() {
    let (hub, running) = applied(&json!({}));
    remove_cluster(&hub, "m2");
    reconcile(&hub, "1");
    until("it is named", || hub.status("web")["orphans"]["clusters"] == json!(["m2"]));
    assert!(hub.sandbox.has("m2", WEB), "its objects stay");
    until("an Event says so", || {
        let events = hub.sandbox.get("hub", "/api/v1/namespaces/shop/events");
        let events = events["items"].as_array().unwrap().clone();
        events.iter().any(|event| {
            event["reason"] == "ClusterLeft" && event["message"].as_str().unwrap().contains("m2")
        })
    });
    assert_eq!(hub.status("web")["clusters"]["ready"], 1);
    delete(&hub);
    is_gone_everywhere(&hub);
    drop(running);
}

#[test]
fn clusters_that_left_are_cleaned() {
    let (hub, running) =
        applied(&json!({"apply": {"prune": true, "pruneLimit": 100, "pruneClusters": true}}));
    remove_cluster(&hub, "m2");
    reconcile(&hub, "1");
    until("its objects are gone", || !hub.sandbox.has("m2", WEB) && !hub.sandbox.has("m2", A));
    until("it is not named any more", || hub.status("web")["orphans"]["clusters"].is_null());
    assert!(hub.sandbox.has("m1", WEB));
    drop(running);
}

#[test]
fn clusters_that_left_are_given_up() {
    let (hub, running) = applied(&json!({}));
    remove_cluster(&hub, "m2");
    reconcile(&hub, "1");
    until("it is named", || hub.status("web")["orphans"]["clusters"] == json!(["m2"]));
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/forget": "m2"}}}));
    reconcile(&hub, "2");
    until("it is given up", || hub.status("web")["orphans"]["clusters"].is_null());
    delete(&hub);
    until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
    assert!(!hub.sandbox.has("m1", WEB) && hub.sandbox.has("m2", WEB));
    drop(running);
}

#[test]
fn a_sync_goes_with_its_namespace() {
    let (hub, running) = applied(&json!({}));
    if hub.sandbox.is_real() {
        let path = "/api/v1/namespaces/shop";
        hub.sandbox.ask("hub", "DELETE", path, "test", "application/json", &Value::Null);
        is_gone_everywhere(&hub);
        return drop(running);
    }
    // What the namespace controller deletes meanwhile.
    let secret = "/api/v1/namespaces/shop/secrets/members";
    let memory = "/api/v1/namespaces/shop/configmaps/federate.web";
    for path in [secret, memory] {
        hub.sandbox.ask("hub", "DELETE", path, "test", "application/json", &Value::Null);
    }
    delete(&hub);
    is_gone_everywhere(&hub);
    drop(running);
}

#[test]
fn parents_go_last_and_are_not_needed() {
    let (hub, running) = applied(&json!({}));
    let hold = |finalizers: Value| {
        hub.sandbox.edit("m1", "test", A, &json!({"metadata": {"finalizers": finalizers}}));
    };
    hold(json!(["example.com/held"]));
    // A person has deleted the parent of m2.
    hub.sandbox.ask("m2", "DELETE", PARENT, "test", "application/json", &Value::Null);
    delete(&hub);
    until("it waits for the object", || {
        hub.ready("web")["message"].as_str().unwrap_or_default().contains("still being deleted")
    });
    std::thread::sleep(Duration::from_secs(3));
    assert!(hub.sandbox.has("hub", &format!("{SYNCS}/web")), "{}", log(&hub));
    assert!(hub.sandbox.has("m1", PARENT), "{}", log(&hub));
    hold(Value::Null);
    is_gone_everywhere(&hub);
    drop(running);
}
