//! What `federate sync` reads and sends when little has changed: one object for one edited template, metadata when nothing
//! has.

use std::time::Duration;

use serde_json::json;

use crate::sandbox::{WEB, config};
use crate::sync_objects::{Hub, Running, image, until};
use crate::sync_update_runs;

const A: &str = "/api/v1/namespaces/shop/configmaps/a";

/// The lists of a member that ask for whole objects.
fn lists(hub: &Hub, member: &str) -> usize {
    let cluster = hub.sandbox.fleet.lock_cluster(member);
    let lists = cluster.answered().iter().filter(|request| {
        let accept = request.headers.get("accept").map_or("", String::as_str);
        request.query.iter().any(|(key, _)| key == "labelSelector")
            && !accept.contains("PartialObjectMetadata")
    });
    lists.count()
}

/// A loop whose clusters are watched and known to be as they are rendered.
fn synced(hub: &Hub, more: &serde_json::Value) -> Running {
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("a");
    hub.create(&hub.sync("web", more));
    let running = Running::start(hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    for member in ["m1", "m2"] {
        until("the cluster is watched", || hub.sandbox.count(member, "watch") >= 3);
    }
    std::thread::sleep(Duration::from_secs(3));
    running
}

#[test]
fn one_edited_template_is_one_object_that_is_sent() {
    let hub = Hub::simulated();
    let apply = json!({"prune": true, "pruneLimit": 50});
    let running = synced(&hub, &json!({"interval": "1s", "apply": apply}));
    // Another object is changed by hand meanwhile: that is reported, and not put back.
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    hub.sandbox.edit("m2", "kubectl-edit", WEB, &mine);
    until("it is reported", || hub.status("web")["clusters"]["modified"] == 1);
    hub.sandbox.forget("m1");
    hub.sandbox.write("a.yaml", &config("a", "2"));
    hub.push("edit");
    for member in ["m1", "m2"] {
        until("it is applied", || hub.sandbox.get(member, A)["data"]["k"] == "2");
    }
    until("the round is over", || {
        hub.ready("web")["message"].as_str().unwrap_or_default().contains("applied")
    });
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(lists(&hub, "m1"), 0, "nothing else is read");
    // The object, and the commit in the parent of the ApplySet.
    assert_eq!(hub.sandbox.count("m1", "patch"), 2);
    assert_eq!(image(&hub.sandbox, "m2"), "mine", "drift is reported, not put back");
    assert_eq!(hub.status("web")["clusters"]["modified"], 1);

    // An object that goes is deleted.
    hub.sandbox.remove("a.yaml");
    hub.push("remove");
    until("it is deleted", || !hub.sandbox.has("m1", A));
    drop(running);
}

#[test]
fn a_comparison_without_changes_reads_metadata() {
    let hub = Hub::simulated();
    let running = synced(&hub, &json!({"interval": "1s", "drift": {"mode": "correct"}}));
    for member in ["m1", "m2"] {
        hub.sandbox.forget(member);
    }
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(lists(&hub, "m1"), 0);
    assert!(hub.sandbox.count("m1", "list") >= 2, "the metadata is listed at the interval");
    // A change still is put back.
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &mine);
    until("it is put back", || image(&hub.sandbox, "m1") == "nginx:1.27");
    assert_eq!(lists(&hub, "m1"), 0, "only the object that has changed is read");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_parent_that_is_gone_is_created_again_with_all_members() {
    let hub = Hub::simulated();
    let running = synced(&hub, &json!({"interval": "1s"}));
    let parent = "/api/v1/namespaces/default/configmaps/federate.shop.web";
    let kinds = || {
        let annotations = hub.sandbox.get("m1", parent)["metadata"]["annotations"].clone();
        annotations["applyset.kubernetes.io/contains-group-kinds"].clone()
    };
    let before = kinds();
    hub.sandbox.delete("m1", parent);
    hub.sandbox.write("a.yaml", &config("a", "2"));
    hub.push("edit");
    until("the parent is back", || hub.sandbox.has("m1", parent));
    until("it has all kinds", || kinds() == before);
    until("it is applied", || hub.sandbox.get("m1", A)["data"]["k"] == "2");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    drop(running);
}

#[test]
fn a_revision_that_waits_for_an_update_run_reads_no_cluster_completely() {
    let hub = sync_update_runs::hub(&json!({"type": "External"}));
    sync_update_runs::push(&hub, "first", "1");
    hub.create(&hub.sync("web", &json!({"interval": "1s", "apply": {"pruneLimit": 100}})));
    let running = Running::start(&hub, "log");
    sync_update_runs::approve(&hub, "first");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    until("the cluster is watched", || hub.sandbox.count("m1", "watch") >= 2);
    std::thread::sleep(Duration::from_secs(3));
    hub.sandbox.forget("m1");
    hub.sandbox.write("a.yaml", &config("a", "2"));
    hub.push("edit");
    until("the revision waits", || {
        hub.ready("web")["message"].as_str().unwrap_or_default().contains("wait for an update run")
    });
    assert_eq!(lists(&hub, "m1"), 0, "nothing is read completely");
    assert_eq!(sync_update_runs::values(&hub), ["1"; 6].map(str::to_owned));
    drop(running);
}
