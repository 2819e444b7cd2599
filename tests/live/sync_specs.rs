//! Specs of Sync objects: what the definition refuses, what an invalid one says, and that no round overwrites that.

use std::fs;

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::{Value, json};

use crate::sync_objects::{Hub, Running, SYNCS, condition, until};

#[test]
fn what_the_definition_can_refuse_it_refuses() {
    let hub = Hub::new();
    for (at, more) in [
        json!({"source": {"url": "/etc"}}),
        json!({"source": {"url": "http://git.example.com/r.git"}}),
        json!({"source": {"url": hub.url(), "path": "../other"}}),
        json!({"failover": true}),
        json!({"rollout": {}}),
        json!({"rollout": {"byPlacements": true, "stagedRolloutStrategyName": "careful"}}),
        json!({"rollout": {"stages": [{"name": "a", "labelSelector": {}}, {"name": "a", "labelSelector": {}}]}}),
        json!({"commit": {"branch": "rendered", "push": false}}),
        json!({"dependsOn": [{"name": "wrong"}]}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut sync = hub.sync("wrong", &more);
        let code = hub.sandbox.ask("hub", "POST", SYNCS, "test", "application/json", &sync);
        if hub.sandbox.is_real() {
            assert_eq!(code, 422, "{more}");
            continue;
        }
        // The API server for tests does not evaluate the rules: federate says the same.
        assert!(matches!(code, 201 | 422), "{more}");
        if code == 201 && more["dependsOn"].is_null() {
            hub.once().code(2);
            assert_eq!(hub.ready("wrong")["reason"], "InvalidSpec", "{at}: {more}");
        }
        sync["metadata"]["finalizers"] = Value::Null;
        hub.sandbox.ask("hub", "DELETE", &format!("{SYNCS}/wrong"), "test", "application/json", &Value::Null);
    }
    // A valid one is taken, and says that nobody has looked at it.
    hub.create(&hub.sync("web", &json!({"source": {"url": hub.url(), "path": "./"}})));
    if hub.sandbox.is_real() {
        assert_eq!(hub.status("web")["observedGeneration"], -1);
    }
    hub.once().code(0);
    assert_eq!(hub.status("web")["observedGeneration"], 1);
}

#[test]
fn an_invalid_spec_writes_an_event_and_no_round_overwrites_it() {
    let hub = Hub::simulated();
    hub.create(&hub.sync("web", &json!({})));
    let running = Running::start(&hub, "log");
    // The first round takes a while.
    for member in ["m1", "m2"] {
        let slow =
            InjectedFault::new("patch", FaultKind::Slow(std::time::Duration::from_secs(5))).with_times(4);
        hub.sandbox.fleet.lock_cluster(member).add_fault(slow);
    }
    until("the round is under way", || {
        fs::read_to_string(hub.sandbox.path("log")).unwrap().contains("carrying out")
    });
    hub.patch("web", &json!({"spec": {"source": {"ref": {"branch": "a*b"}}}}));
    until("it is invalid", || hub.ready("web")["reason"] == "InvalidSpec");
    until("the round is over", || fs::read_to_string(hub.sandbox.path("log")).unwrap().contains("is gone"));
    let status = hub.status("web");
    assert_eq!(condition(&status, "Ready")["reason"], "InvalidSpec", "{status}");
    assert_eq!(
        (&condition(&status, "Stalled")["status"], &status["observedGeneration"]),
        (&json!("True"), &json!(2))
    );
    let events = hub.sandbox.get("hub", "/api/v1/namespaces/shop/events");
    let invalid = |event: &&Value| event["reason"] == "InvalidSpec" && event["type"] == "Warning";
    let found: Vec<&Value> = events["items"].as_array().unwrap().iter().filter(invalid).collect();
    assert_eq!(found.len(), 1, "{events}");
    assert!(found[0]["message"].as_str().unwrap().contains("spec.source.ref"), "{found:?}");
    assert_eq!(running.end("-TERM"), Some(0));
}
