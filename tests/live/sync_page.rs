//! The status page of `federate sync`, and clocks that are wrong.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::{Value, json};

use crate::sandbox::WEB;
use crate::sync_objects::{Hub, Running, until};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/federate-system/leases";

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("m{number:02}")).collect()
}

/// The Syncs as the status page shows them.
fn shown(hub: &Hub) -> Value {
    let log = fs::read_to_string(hub.sandbox.path("log")).unwrap();
    let Some(line) = log.lines().find(|line| line.contains("listening for the status page")) else {
        return Value::Null;
    };
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /syncs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
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
