//! The status page of `federate sync`, and clocks that are wrong.

use std::fs;
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::{Value, json};

use crate::sandbox::WEB;
use crate::sync_objects::{Hub, Running, fetch, until};
use crate::sync_windows::{closed, open};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/federate-system/leases";

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("m{number:02}")).collect()
}

/// The Syncs as the status page shows them.
fn shown(hub: &Hub) -> Value {
    fetch(hub, "the status page", "/syncs").map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

fn clusters(hub: &Hub) -> Vec<Value> {
    shown(hub)[0]["clusters"].as_array().cloned().unwrap_or_default()
}

#[test]
fn the_status_page_shows_all_clusters_that_fail_or_drifted() {
    let members = names(7);
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let hub = Hub::with(&members);
    for member in &members {
        let refuses =
            InjectedFault::new("patch", FaultKind::Status(403)).on_path("deployments/web").with_times(2);
        hub.sandbox.fleet.lock_cluster(member).add_fault(refuses);
    }
    let running = Running::with(&hub, "--status-listen 127.0.0.1:0", "log");
    hub.create(&hub.sync("web", &json!({"retryInterval": "1s"})));
    until("the clusters refuse", || hub.status("web")["clusters"]["errApplied"] == 7);
    until("all of them are shown", || clusters(&hub).len() == 7);
    let failing = clusters(&hub);
    for (cluster, member) in failing.iter().zip(&members) {
        assert_eq!((&cluster["name"], &cluster["state"]), (&json!(member), &json!("errApplied")));
        assert!(cluster["message"].as_str().unwrap().contains("web") && cluster["retryAt"].is_string());
    }
    assert_eq!(hub.status("web")["failing"].as_array().unwrap().len(), 5, "the status is bounded");
    until("nothing is left to show", || hub.ready("web")["status"] == "True" && clusters(&hub).is_empty());

    hub.watched("m01");
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    hub.sandbox.edit("m01", "kubectl-edit", WEB, &mine);
    until("the drift is shown", || clusters(&hub).len() == 1);
    let drifted = &clusters(&hub)[0];
    assert_eq!((&drifted["state"], &drifted["drifted"]), (&json!("modified"), &json!(1)));
    assert!(drifted["drift"].as_str().unwrap().contains("changed by kubectl-edit"), "{drifted}");
    let object = &drifted["driftedObjects"][0];
    assert_eq!((&object["object"]["name"], &object["action"]), (&json!("web"), &json!("update")), "{object}");
    assert_eq!(object["fields"][0]["manager"], "kubectl-edit", "{object}");
    assert!(object["fields"][0].get("live").is_none(), "the page has no values: {object}");
    assert_eq!(running.end("-TERM"), Some(0));
}

/// The Lease of another process, whose clock shows another time.
fn lease(renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "federate-sync", "namespace": "federate-system"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 5, "renewTime": renewed, "leaseTransitions": 0},
    })
}

#[test]
fn clocks_of_other_processes_do_not_matter_for_leases() {
    let hub = Hub::simulated();
    // It renews its Lease, and its clock is far behind.
    hub.sandbox.create("hub", LEASES, "other", &lease("2001-01-01T00:00:00.000000Z"));
    let running = Running::with(&hub, "--leader-election-lease-duration 5", "log");
    let log = || fs::read_to_string(hub.sandbox.path("log")).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        let renewed = json!({"spec": {"renewTime": format!("2001-01-01T00:00:{:02}.000000Z", begun.elapsed().as_secs())}});
        hub.sandbox.edit("hub", "other", &format!("{LEASES}/federate-sync"), &renewed);
        std::thread::sleep(Duration::from_millis(500));
        assert!(!log().contains("leading"), "{}", log());
    }
    // It ends, and its clock was far ahead.
    let ahead = json!({"spec": {"renewTime": "2099-01-01T00:00:00.000000Z"}});
    hub.sandbox.edit("hub", "other", &format!("{LEASES}/federate-sync"), &ahead);
    until("the Lease is taken over", || log().contains("leading"));
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn the_page_shows_age_windows_all_clusters_and_what_is_left_behind() {
    let hub = Hub::new();
    let apply = json!({"prune": true, "pruneLimit": 100});
    hub.create(&hub.sync("web", &json!({"interval": "1s", "windows": open(), "apply": apply})));
    let running = Running::with(&hub, "--status-listen 127.0.0.1:0", "log");
    let web = || shown(&hub)[0].clone();
    until("both clusters are shown", || web()["readyClusters"] == json!(["m1", "m2"]));
    assert!(web()["created"].as_str().unwrap().starts_with("20"), "{}", web());
    let page = fetch(&hub, "the status page", "/").unwrap();
    assert!(page.contains("<a href=\"#Sync/shop/web\">shop/web</a></b> Ready=True: "), "{page}");

    let clusters = hub.sandbox.read_file("clusters.yaml");
    let rest: Vec<&str> = clusters.split("---\n").filter(|text| !text.contains("name: m2")).collect();
    hub.sandbox.write("clusters.yaml", &rest.join("---\n"));
    hub.push("smaller");
    let shows = |text: &str| fetch(&hub, "the status page", "/").is_some_and(|page| page.contains(text));
    until("what has left is shown", || shows("clusters that have left, with objects: m2</li>"));
    until("the other one is ready", || web()["readyClusters"] == json!(["m1"]));
    hub.patch("web", &json!({"spec": {"windows": closed()}}));
    hub.push("waits");
    until("what waits is shown", || shows("</b> main@sha1:") && shows(" waits for a window"));
    assert_eq!(running.end("-TERM"), Some(0));
}
