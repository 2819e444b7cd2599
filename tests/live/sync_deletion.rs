//! Deleting a Sync: it ends, and reaches every object that was applied, whatever has become of the source, the spec, the
//! inventory, the namespace and the parents of `ApplySet`s.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::{WEB, config};
use crate::sync_objects::{Hub, Running, SYNCS, events, until};

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
    let memory = "/apis/federate.dev/v1alpha1/namespaces/shop/syncrecords/federate.web";
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
    let memory = "/apis/federate.dev/v1alpha1/namespaces/shop/syncrecords/federate.web";
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
fn clusters_that_left_are_cleaned_although_another_one_fails() {
    let (hub, running) = applied(&json!({
        "interval": "1s", "apply": {"prune": true, "pruneLimit": 100, "pruneClusters": true},
    }));
    hub.lose_m1();
    until("a cluster is lost", || hub.ready("web")["status"] == "False");
    remove_cluster(&hub, "m2");
    until("the other one is cleaned", || !hub.sandbox.has("m2", WEB) && !hub.sandbox.has("m2", A));
    until("it is not named any more", || hub.status("web")["orphans"]["clusters"].is_null());
    assert!(hub.ready("web")["status"] == "False" && hub.sandbox.has("m1", WEB));
    drop(running);
}

#[test]
fn more_clusters_than_may_be_cleaned_are_said_to_stay() {
    let spec = json!({"interval": "1s", "apply": {"prune": true, "pruneLimit": 30, "pruneClusters": true}});
    let (hub, running) = applied(&spec);
    hub.patch("web", &json!({"spec": {"clusters": {"names": ["m1"]}}}));
    let expected =
        "; not cleaned: 1 of 2 clusters has left the inventory, more than `apply.pruneLimit` allows";
    until("the message says so", || hub.ready("web")["message"].as_str().unwrap().contains(expected));
    until("an Event says so", || {
        events(&hub, "shop", "ReconciliationSucceeded").iter().any(|event| event.contains(expected))
    });
    std::thread::sleep(Duration::from_secs(3));
    let message = hub.ready("web")["message"].as_str().unwrap().to_owned();
    assert_eq!(message.matches("not cleaned").count(), 1, "{message}");
    assert!(hub.sandbox.has("m2", WEB) && hub.ready("web")["status"] == "True");
    hub.patch("web", &json!({"spec": {"apply": {"pruneLimit": 100}}}));
    until("it is cleaned", || !hub.sandbox.has("m2", WEB));
    until("that is not said any more", || {
        !hub.ready("web")["message"].as_str().unwrap().contains("not cleaned")
    });
    drop(running);
}

/// A process that is killed may have noted that a cluster has left, and not have said so.
#[test]
fn a_cluster_that_left_is_reported_by_the_next_process() {
    let (hub, running) = applied(&json!({}));
    assert_eq!(running.end("-TERM"), Some(0));
    remove_cluster(&hub, "m2");
    hub.once().code(0);
    assert_eq!(hub.status("web")["orphans"]["clusters"], json!(["m2"]));
    assert!(events(&hub, "shop", "ClusterLeft").is_empty());
    let running = Running::start(&hub, "log");
    until("an Event says so", || !events(&hub, "shop", "ClusterLeft").is_empty());
    assert_eq!(running.end("-TERM"), Some(0));
    let running = Running::start(&hub, "log");
    reconcile(&hub, "1");
    assert_eq!(events(&hub, "shop", "ClusterLeft").len(), 1, "it is reported once");
    drop(running);
}

#[test]
fn a_sync_that_no_longer_applies_names_what_it_leaves() {
    let (hub, running) = applied(&json!({}));
    hub.patch("web", &json!({"spec": {"apply": null}}));
    until("the clusters are named", || hub.status("web")["orphans"]["clusters"] == json!(["m1", "m2"]));
    until("an Event says so", || {
        let said = events(&hub, "shop", "ClusterLeft");
        said.iter().any(|event| event.contains("no longer applies to m1, m2, which still have objects of it"))
    });
    assert!(hub.sandbox.has("m1", WEB) && hub.sandbox.has("m2", WEB));
    hub.patch("web", &json!({"spec": {"apply": {}}}));
    until("it applies again", || hub.status("web")["orphans"]["clusters"].is_null());
    delete(&hub);
    is_gone_everywhere(&hub);
    drop(running);
}

/// Of two Syncs with one ApplySet, the older one has the objects.
#[test]
fn a_sync_whose_objects_an_older_one_has_taken_is_released() {
    for policy in ["Delete", "Orphan"] {
        let hub = Hub::new();
        let on =
            |name: &str| json!({"clusters": {"names": [name]}, "deletionPolicy": policy, "interval": "1s"});
        hub.create(&hub.sync("a-old", &on("m1")));
        hub.create(&hub.sync("b-young", &on("m2")));
        let running = Running::start(&hub, "log");
        until("both are ready", || {
            ["a-old", "b-young"].iter().all(|name| hub.ready(name)["status"] == "True")
        });
        hub.patch("a-old", &json!({"spec": {"apply": {"applySet": "default/federate.shop.b-young"}}}));
        until("the younger one clashes", || hub.ready("b-young")["reason"] == "InvalidSpec");
        let young = format!("{SYNCS}/b-young");
        hub.sandbox.ask("hub", "DELETE", &young, "test", "application/json", &Value::Null);
        until("the younger one is gone", || !hub.sandbox.has("hub", &young));
        assert!(hub.sandbox.has("m2", WEB), "{policy}: its objects belong to the other");
        until("the older one is ready", || hub.ready("a-old")["status"] == "True");
        drop(running);
    }
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
    let memory = "/apis/federate.dev/v1alpha1/namespaces/shop/syncrecords/federate.web";
    for path in [secret, memory] {
        hub.sandbox.ask("hub", "DELETE", path, "test", "application/json", &Value::Null);
    }
    delete(&hub);
    is_gone_everywhere(&hub);
    drop(running);
}

/// Nothing can be written to a namespace that is being deleted.
#[test]
fn what_stays_when_credentials_go_with_the_namespace_is_said_beside_federate() {
    let (hub, running) = applied(&json!({}));
    // Another process has no credentials in memory.
    assert_eq!(running.end("-TERM"), Some(0));
    let namespace = "/api/v1/namespaces/shop";
    hub.sandbox.ask("hub", "DELETE", namespace, "test", "application/json", &Value::Null);
    if !hub.sandbox.is_real() {
        // What the namespace controller deletes meanwhile.
        let secret = format!("{namespace}/secrets/members");
        hub.sandbox.ask("hub", "DELETE", &secret, "test", "application/json", &Value::Null);
        delete(&hub);
    }
    until("the credentials are gone", || !hub.sandbox.has("hub", &format!("{namespace}/secrets/members")));
    let running = Running::start(&hub, "log");
    until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
    let said = events(&hub, "federate-system", "ObjectsLeftBehind");
    assert!(said.len() == 1 && said[0].starts_with("shop/web: "), "{said:?}\n{}", log(&hub));
    assert!(said[0].ends_with("its objects stay in m1, m2"), "{said:?}");
    assert!(hub.sandbox.has("m1", WEB) && hub.sandbox.has("m2", WEB));
    assert_eq!(running.end("-TERM"), Some(0));
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
