//! A member that hangs delays nobody, and the log names it while a round waits for it.

use std::fs;
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::json;

use crate::sandbox::{WEB, deployment};
use crate::sync_objects::{Hub, Running, image, until};

#[test]
fn a_hanging_member_delays_no_other() {
    let hub = Hub::simulated();
    hub.create(&hub.sync("web", &json!({"interval": "2s"})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    for verb in ["get", "list", "watch", "patch", "create"] {
        let hangs = InjectedFault::new(verb, FaultKind::Slow(Duration::from_mins(5))).with_times(10_000);
        hub.sandbox.fleet.lock_cluster("m2").add_fault(hangs);
    }
    for tag in ["1.28", "1.29"] {
        let begun = Instant::now();
        hub.sandbox.write("web.yaml", &deployment(&format!("nginx:{tag}")));
        hub.push("next");
        hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/requestedAt": tag}}}));
        until("the other has the revision", || image(&hub.sandbox, "m1") == format!("nginx:{tag}"));
        assert!(begun.elapsed() < Duration::from_secs(15), "{tag}: {:?}", begun.elapsed());
    }
    until("its state is known", || {
        hub.status("web")["failing"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .contains("no answer within 5 s")
    });
    let counts = hub.status("web")["clusters"].clone();
    assert_eq!((&counts["ready"], &counts["errApplied"]), (&json!(1), &json!(1)), "{counts}");
    let log = fs::read_to_string(hub.sandbox.path("log")).unwrap();
    assert!(log.contains("still under way: m2 (reading)"), "{log}");
    drop(running);
}

/// It lists its objects, and never answers a write.
#[test]
fn a_member_that_hangs_after_its_first_answer_delays_no_other() {
    let hub = Hub::simulated();
    hub.create(&hub.sync("web", &json!({"interval": "2s"})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    for verb in ["patch", "create"] {
        let hangs = InjectedFault::new(verb, FaultKind::Slow(Duration::from_mins(5))).with_times(10_000);
        hub.sandbox.fleet.lock_cluster("m2").add_fault(hangs);
    }
    for tag in ["1.28", "1.29", "1.30"] {
        let begun = Instant::now();
        hub.sandbox.write("web.yaml", &deployment(&format!("nginx:{tag}")));
        hub.push("next");
        until("the other has the revision", || image(&hub.sandbox, "m1") == format!("nginx:{tag}"));
        assert!(begun.elapsed() < Duration::from_secs(25), "{tag}: {:?}", begun.elapsed());
        let log = || fs::read_to_string(hub.sandbox.path("log")).unwrap();
        until("the log says so at once", || {
            log().matches("cluster=m1 object=Deployment shop/web").count() > 1
        });
    }
    until("its state is known", || hub.status("web")["failing"][0]["name"] == "m2");
    let begun = Instant::now();
    assert_eq!(running.end("-TERM"), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

/// More clusters than are worked on at a time wait for pods that never come.
#[test]
fn clusters_that_are_not_healthy_delay_no_other() {
    let members: Vec<String> = (1..=20).map(|number| format!("m{number:02}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let hub = Hub::with(&members);
    hub.create(&hub.sync("web", &json!({"timeout": "10m", "apply": {"wait": true}})));
    let running = Running::start(&hub, "log");
    until("the round is under way", || log(&hub).contains("carrying out"));
    let begun = Instant::now();
    until("all clusters have the revision", || members.iter().all(|name| hub.sandbox.has(name, WEB)));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(running.end("-TERM"), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

/// More clusters than are worked on at a time answer once, and never again.
#[test]
fn clusters_that_hang_after_their_first_answer_delay_no_other() {
    let members: Vec<String> = (1..=20).map(|number| format!("m{number:02}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let hub = Hub::with(&members);
    for member in &members[..17] {
        for verb in ["patch", "create"] {
            let hangs = InjectedFault::new(verb, FaultKind::Slow(Duration::from_mins(5))).with_times(10_000);
            hub.sandbox.fleet.lock_cluster(member).add_fault(hangs);
        }
    }
    // The others answer later.
    for member in &members[17..] {
        let late = InjectedFault::new("*", FaultKind::Slow(Duration::from_secs(2))).with_times(1);
        hub.sandbox.fleet.lock_cluster(member).add_fault(late);
    }
    hub.create(&hub.sync("web", &json!({})));
    let running = Running::start(&hub, "log");
    until("the round is under way", || log(&hub).contains("carrying out"));
    let begun = Instant::now();
    until("the others have the revision", || members[17..].iter().all(|name| hub.sandbox.has(name, WEB)));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    drop(running);
}

fn log(hub: &Hub) -> String {
    fs::read_to_string(hub.sandbox.path("log")).unwrap()
}

#[test]
fn a_suspended_sync_says_so_when_it_is_asked_for_a_round() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"suspend": true})));
    let namespace = hub.sandbox.own("shop");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_federate"));
    command.args([
        "sync",
        "reconcile",
        "web",
        "-n",
        &namespace,
        "--context",
        "hub",
        "--kubeconfig",
        "hub.kubeconfig",
    ]);
    let begun = Instant::now();
    let ran = hub.sandbox.ran(command.current_dir(hub.sandbox.path(""))).code(2);
    assert!(ran.err.contains("is suspended") && ran.err.contains("federate sync resume"), "{ran:#?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}
