//! Maintenance windows of a Sync: outside of them, clusters are compared and not changed.

use serde_json::{Value, json};

use crate::sandbox::{WEB, deployment};
use crate::sync_objects::{Hub, Running, image, until};

/// Windows that are closed but for a minute of the year.
fn closed() -> Value {
    json!([{"schedule": "59 23 31 12 *", "duration": "1m", "timeZone": "Europe/Berlin"}])
}

/// Windows that are always open.
fn open() -> Value {
    json!([{"schedule": "* * * * *", "duration": "5m"}])
}

fn message(hub: &Hub) -> String {
    hub.ready("web")["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn outside_of_windows_revisions_and_corrections_wait() {
    let hub = Hub::new();
    let spec = json!({"interval": "1s", "drift": {"mode": "correct"}, "windows": open()});
    hub.create(&hub.sync("web", &spec));
    let running = Running::start(&hub, "log");
    until("the first revision is applied", || hub.ready("web")["status"] == "True");
    assert_eq!(hub.status("web")["window"]["open"], true);

    hub.patch("web", &json!({"spec": {"windows": closed()}}));
    until("the windows are closed", || hub.status("web")["window"]["open"] == false);
    // The spec has changed, so that the revision is to be applied again, and waits.
    until("it waits", || message(&hub).contains("waits for the window that opens at 20"));
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("next");
    until("the next revision waits", || {
        let waiting = hub.status("web")["window"]["waiting"].clone();
        waiting.as_str().is_some_and(|waiting| waiting.ends_with(&revision(&hub)))
    });
    let status = hub.status("web");
    assert_eq!(hub.ready("web")["reason"], "Progressing", "{status:#}");
    assert!(status["window"]["opens"].as_str().unwrap().ends_with("-12-31T22:59:00Z"), "{status:#}");
    let mine = json!({"spec": {"replicas": 7}});
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &mine);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27", "nothing is changed");
    assert_eq!(hub.sandbox.get("m1", WEB)["spec"]["replicas"], 7, "nothing is put back");
    let events = hub.sandbox.get("hub", "/api/v1/namespaces/shop/events");
    let waits = |event: &Value| {
        event["type"] == "Normal" && event["message"].as_str().is_some_and(|m| m.contains("opens at"))
    };
    assert!(events["items"].as_array().unwrap().iter().any(waits), "an Event says so: {events:#}");

    // A mistake is known before a window opens.
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    until("the mistake is known", || hub.ready("web")["reason"] == "BuildFailed");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.29"));
    hub.push("mended");
    until("it waits again", || message(&hub).contains(&revision(&hub)));

    hub.patch("web", &json!({"spec": {"windows": open()}}));
    until("it is applied in the window", || image(&hub.sandbox, "m1") == "nginx:1.29");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    assert_eq!(hub.sandbox.get("m1", WEB)["spec"]["replicas"], 2);
    assert_eq!(running.end("-TERM"), Some(0));
}

/// The commit of the source.
fn revision(hub: &Hub) -> String {
    let mut command = std::process::Command::new("git");
    command.args(["-C", "repo", "rev-parse", "HEAD"]).current_dir(hub.sandbox.path(""));
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn a_person_need_not_wait_and_invalid_windows_are_refused() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"windows": closed()})));
    let running = Running::start(&hub, "log");
    until("it waits", || message(&hub).contains("waits for the window"));
    assert!(!hub.sandbox.has("m1", WEB));
    let ran = hub.ask("reconcile web").code(1);
    assert!(ran.out.contains("Progressing: main@sha1:"), "{ran:#?}");
    let ran = hub.ask("reconcile web --ignore-windows").code(0);
    assert!(ran.out.contains("ReconciliationSucceeded: applied main@"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    // That is about one revision.
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("next");
    hub.ask("reconcile web").code(1);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    assert_eq!(running.end("-TERM"), Some(0));
    hub.patch("web", &json!({"spec": {"windows": [{"schedule": "0 0 31 2 *", "duration": "1h"}]}}));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("InvalidSpec: spec.windows: schedule: `0 0 31 2 *` names no day"), "{ran:#?}");
}
