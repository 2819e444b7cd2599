//! `spec.inventory` with `--shared`: the leader publishes the status of the clusters, and every replica plans by that.

use std::collections::BTreeSet;

use federate_test_apiserver::{Fault, FaultKind};
use serde_json::{Value, json};

use crate::sandbox::WEB;
use crate::snapshot::{self, node};
use crate::sync_inventory::API;
use crate::sync_objects::{Hub, until};
use crate::sync_shared::{Replicas, divided, is_ready, leader, reconcile};

/// The members, with the processors of their nodes, of which two are taken.
const MEMBERS: [(&str, &str); 4] = [("m1", "3"), ("m2", "4"), ("m3", "5"), ("m4", "10")];
const CONFIGS: &str = "/api/v1/namespaces/shop/configmaps";

/// A repo that says nothing of nodes, and members that differ in them.
fn hub() -> Hub {
    let hub = Hub::with(&MEMBERS.map(|(member, _)| member));
    hub.sandbox.write("policy.yaml", snapshot::POLICY);
    hub.sandbox.write("web.yaml", &snapshot::WEB.replace("replicas: 8", "replicas: 7"));
    // The members have it already.
    hub.sandbox.remove("namespace.yaml");
    hub.push("divided");
    for (member, cpu) in MEMBERS {
        node(&hub.sandbox, member, cpu);
    }
    hub
}

/// Adds a workload.
fn add(hub: &Hub, name: &str, replicas: u32) {
    let text = snapshot::WEB.replace("web", name).replace("replicas: 8", &format!("replicas: {replicas}"));
    hub.sandbox.write(&format!("{name}.yaml"), &text);
    hub.push(name);
}

fn replicas(hub: &Hub, path: &str) -> [u64; 4] {
    let of = |(member, _): (&str, &str)| {
        let found = hub.sandbox.has(member, path).then(|| hub.sandbox.get(member, path));
        found.and_then(|found| found["spec"]["replicas"].as_u64()).unwrap_or(0)
    };
    MEMBERS.map(of)
}

/// The nodes of members cannot be listed any more.
fn hide_status(hub: &Hub) {
    for (member, _) in MEMBERS {
        let fault = Fault::new("list", FaultKind::Status(403)).on("/api/v1/nodes").times(10_000);
        hub.sandbox.fleet.cluster(member).fault(fault);
    }
}

/// Gives the node of a member more processors.
fn grow(hub: &Hub, member: &str) {
    let amounts = json!({"cpu": "140", "memory": "1Ti", "pods": "110"});
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    hub.sandbox.edit(member, "test", "/api/v1/nodes/node-1/status", &status);
}

/// The digest of what is published. All parts of the memory are named.
fn published(hub: &Hub) -> Option<String> {
    let index = hub.sandbox.get("hub", &format!("{CONFIGS}/federate.web"))["data"].clone();
    let named = |key: &str| index[key].as_str().unwrap_or_default().split_whitespace().map(str::to_owned);
    let named: BTreeSet<String> =
        ["parts", "members.parts", "status.parts"].into_iter().flat_map(named).collect();
    let list = hub.sandbox.get("hub", CONFIGS);
    let items = list["items"].as_array().unwrap().iter();
    let is_part = |item: &&Value| item["binaryData"]["part"].is_string();
    let there: BTreeSet<String> =
        items.filter(is_part).map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    (there == named).then(|| index["status.digest"].as_str().map(str::to_owned))?
}

#[test]
fn replicas_plan_by_the_status_that_the_leader_has_published() {
    // What one process does without others.
    let alone = hub();
    alone.create(&alone.sync("web", &json!({"inventory": "members"})));
    alone.once().code(0);
    assert_eq!(replicas(&alone, WEB), [1, 1, 1, 4], "1, 2, 3 and 8 processors are free");
    hide_status(&alone);
    add(&alone, "api", 8);
    alone.once().code(0);

    let hub = hub();
    let mut running = Replicas::start(&hub, 3);
    until("three replicas share the lanes", || divided(&hub, 3));
    hub.create(&hub.sync("web", &json!({"inventory": "members"})));
    until("the Sync is ready", || is_ready(&hub, ""));
    assert_eq!(replicas(&hub, WEB), replicas(&alone, WEB));
    assert_eq!(hub.status("web")["clusters"]["ready"], 4);
    let first = published(&hub).expect("the status is published");

    // Another leader goes on by what is known, also if the members do not say it any more.
    running.kill_holder(&leader(&hub));
    hide_status(&hub);
    add(&hub, "api", 8);
    until("the others have its lanes", || divided(&hub, 2));
    reconcile(&hub, "1");
    until("the new workload runs", || !replicas(&hub, API).contains(&0));
    until("the Sync is ready", || is_ready(&hub, ""));
    assert_eq!((replicas(&hub, API), replicas(&hub, WEB)), (replicas(&alone, API), replicas(&alone, WEB)));
    assert_eq!(published(&hub), Some(first));
}

#[test]
fn a_status_that_moves_nothing_is_published_too() {
    let hub = hub();
    let _running = Replicas::start(&hub, 2);
    until("two replicas share the lanes", || divided(&hub, 2));
    hub.create(&hub.sync("web", &json!({"inventory": "members"})));
    until("the Sync is ready", || is_ready(&hub, ""));
    let (before, placed) = (published(&hub), replicas(&hub, WEB));
    assert!(before.is_some());
    grow(&hub, "m1");
    reconcile(&hub, "1");
    until("another status is published, and the former one is gone", || {
        published(&hub).is_some_and(|now| Some(now) != before)
    });
    until("the Sync is ready", || is_ready(&hub, ""));
    assert_eq!(replicas(&hub, WEB), placed, "what runs stays");
    add(&hub, "api", 100);
    reconcile(&hub, "2");
    let most = || replicas(&hub, API)[0];
    until("the new workload goes where there is room", || most() > 80);
    until("the Sync is ready", || is_ready(&hub, ""));
    // Without it, nothing is published.
    let spec = json!({"spec": {"inventory": "repo"}});
    hub.patch("web", &spec);
    until("nothing is published any more", || {
        let index = hub.sandbox.get("hub", &format!("{CONFIGS}/federate.web"));
        index["data"]["status.parts"].is_null()
    });
}

#[test]
fn a_status_that_is_missing_or_damaged_is_published_again() {
    let hub = hub();
    hub.create(&hub.sync("web", &json!({"inventory": "members"})));
    hub.once().code(0);
    let before = replicas(&hub, WEB);
    let index = || hub.sandbox.get("hub", &format!("{CONFIGS}/federate.web"))["data"].clone();
    assert!(index()["status.parts"].is_null(), "a process that works alone publishes nothing");
    let running = Replicas::start(&hub, 2);
    until("it is published", || published(&hub).is_some());
    drop(running);
    let part = index()["status.parts"].as_str().unwrap().to_owned();
    hub.sandbox.delete("hub", &format!("{CONFIGS}/{part}"));
    assert_eq!(published(&hub), None);
    let _running = Replicas::start(&hub, 2);
    until("it is published again", || published(&hub).is_some());
    until("the Sync is ready", || is_ready(&hub, ""));
    assert_eq!(replicas(&hub, WEB), before);
}

#[test]
fn a_new_leader_goes_on_by_the_status_that_a_revision_was_planned_by() {
    let hub = hub();
    let mut running = Replicas::start(&hub, 2);
    until("two replicas share the lanes", || divided(&hub, 2));
    let stages = json!([{"name": "all", "labelSelector": {}, "beforeStageTasks": [{"type": "Approval"}]}]);
    hub.create(&hub.sync("web", &json!({"inventory": "members", "rollout": {"stages": stages}})));
    let message = || hub.ready("web")["message"].as_str().unwrap_or_default().to_owned();
    until("the rollout waits", || message().contains("federate.dev/approve="));
    let first = published(&hub).expect("the status is published");
    grow(&hub, "m1");
    running.kill_holder(&leader(&hub));
    reconcile(&hub, "1");
    until("another one leads", || hub.status("web")["lastHandledReconcileAt"] == "1");
    until("the rollout waits", || message().contains("federate.dev/approve="));
    assert_eq!(published(&hub).as_ref(), Some(&first), "the revision is not carried out yet");
    let message = message();
    let approval = message.split("federate.dev/approve=").nth(1).unwrap().split_whitespace().next().unwrap();
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/approve": approval}}}));
    // It is placed by the status of then: by that of now, nearly all of it would run here.
    until("it is carried out", || hub.sandbox.has("m1", WEB));
    assert_eq!(replicas(&hub, WEB)[0], 1);
}
