//! How the work of `federate sync` is divided: Sync objects among installations by label, and the clusters of a repo among
//! Syncs.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::WEB;
use crate::sync_objects::{Hub, Running, condition, until};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/federate-system/leases";

/// A Sync for one cluster.
fn sync_for(hub: &Hub, name: &str, cluster: &str, more: &Value) -> Value {
    let mut spec = json!({"clusters": {"names": [cluster]}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    hub.sync(name, &spec)
}

#[test]
fn syncs_divide_the_clusters_of_a_repo() {
    let hub = Hub::new();
    hub.create(&sync_for(&hub, "one", "m1", &json!({})));
    hub.once().code(0);
    assert!(hub.sandbox.has("m1", WEB) && !hub.sandbox.has("m2", WEB));
    assert_eq!(hub.status("one")["clusters"]["ready"], 1);
    let labels = json!({"labelSelector": {"matchLabels": {"ring": "last"}}});
    hub.create(&hub.sync("two", &json!({"clusters": labels, "dependsOn": [{"name": "one"}]})));
    // No cluster has the label yet.
    let ran = hub.once().code(2);
    assert!(ran.out.contains("`spec.clusters` selects no cluster of the inventory"), "{ran:#?}");
    let clusters = hub.sandbox.read_file("clusters.yaml");
    hub.sandbox.write("clusters.yaml", &clusters.replace("{name: m2}", "{name: m2, labels: {ring: last}}"));
    hub.push("labels");
    hub.once().code(0);
    assert!(hub.sandbox.has("m2", WEB));
    assert_eq!(hub.status("two")["clusters"]["ready"], 1);
    // Each has an ApplySet of its own, and neither undoes what the other does.
    hub.sandbox.forget("m1");
    hub.once().code(0);
    hub.sandbox.wrote("m1", 0);
}

#[test]
fn installations_divide_syncs_by_label() {
    let hub = Hub::new();
    let mut first = sync_for(&hub, "one", "m1", &json!({}));
    first["metadata"]["labels"] = json!({"shard": "a"});
    hub.create(&first);
    // It depends on a Sync that another installation runs.
    hub.create(&sync_for(&hub, "two", "m2", &json!({"dependsOn": [{"name": "one"}]})));
    let rest = Running::with(&hub, "--watch-label-selector !shard", "rest");
    until("it waits for the other", || hub.ready("two")["reason"] == "DependencyNotReady");
    assert!(condition(&hub.status("one"), "Ready").is_null(), "it is not selected");
    let shard = Running::with(&hub, "--watch-label-selector shard=a", "shard");
    until("both are ready", || ["one", "two"].iter().all(|name| hub.ready(name)["status"] == "True"));
    let leases = hub.sandbox.get("hub", LEASES);
    assert_eq!(leases["items"].as_array().unwrap().len(), 2, "each leads by a Lease of its own");
    // A Sync moves with its label.
    let label = json!({"metadata": {"labels": {"shard": "a"}}});
    hub.patch("two", &label);
    let log = |name: &str| fs::read_to_string(hub.sandbox.path(name)).unwrap();
    until("one installation has both", || {
        let two = |line: &str| line.contains("shop/two") || line.contains(&hub.sandbox.own("shop/two"));
        log("rest").contains("the Sync is gone") && log("shard").lines().any(two)
    });
    assert_eq!(condition(&hub.status("two"), "Ready")["status"], "True");
    for running in [rest, shard] {
        assert_eq!(running.end("-TERM"), Some(0));
    }
}

#[test]
fn sharing_one_sync_ends_with_what_to_use() {
    let hub = Hub::simulated();
    let ran = hub.sandbox.ran(&mut hub.command("--shared")).code(2);
    for way in ["--watch-label-selector", "`spec.clusters`", "`spec.dependsOn`"] {
        assert!(ran.err.contains(way), "{ran:#?}");
    }
}

#[test]
fn a_selection_of_clusters_is_checked() {
    let hub = Hub::new();
    let path = "/apis/federate.dev/v1alpha1/namespaces/shop/syncs";
    for (name, more) in [
        ("empty", json!({"clusters": {}})),
        ("both", json!({"clusters": {"names": ["m1"]}, "commit": {"branch": "rendered"}})),
    ] {
        let sync = hub.sync(name, &more);
        // A server that evaluates the rules of the definition refuses it at once.
        if hub.sandbox.ask("hub", "POST", path, "test", "application/json", &sync) != 422 {
            hub.once().code(2);
            assert_eq!(hub.ready(name)["reason"], "InvalidSpec");
        }
    }
}
