//! Maintenance windows of a Sync: outside of them, clusters are compared and not changed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::sandbox::{WEB, deployment};
use crate::sync_objects::{Hub, Running, image, until};
use crate::sync_rollout::{A, approve, commit, once_in, sandbox, values};

/// Windows that are closed but for a minute of the year.
pub(crate) fn closed() -> Value {
    json!([{"schedule": "59 23 31 12 *", "duration": "1m", "timeZone": "Europe/Berlin"}])
}

/// Windows that are always open.
pub(crate) fn open() -> Value {
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
pub(crate) fn revision(hub: &Hub) -> String {
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

/// A window that is open for some seconds more, and the time at which it closes.
pub(crate) fn closing(seconds: i64) -> (Value, Timestamp) {
    let opened = Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .round(jiff::ZonedRound::new().smallest(jiff::Unit::Minute).mode(jiff::RoundMode::Trunc))
        .unwrap();
    let closes = Timestamp::now() + seconds.seconds();
    let schedule = format!("{} {} * * *", opened.minute(), opened.hour());
    let open_for = closes.duration_since(opened.timestamp()).as_secs();
    let closes = opened.timestamp() + SignedDuration::from_secs(open_for);
    (json!([{"schedule": schedule, "duration": format!("{open_for}s")}]), closes)
}

pub(crate) fn sleep_until(time: Timestamp) {
    let left = time.duration_since(Timestamp::now()) + SignedDuration::from_millis(200);
    std::thread::sleep(Duration::try_from(left).unwrap_or_default());
}

#[test]
fn a_rollout_waits_between_its_steps_outside_of_windows() {
    let sandbox = sandbox();
    let first = commit(&sandbox, "1");
    let (windows, closes) = closing(if sandbox.is_real() { 45 } else { 15 });
    once_in(&sandbox, &approve(&first), &windows).code(0);
    let second = commit(&sandbox, "2");
    let ran = once_in(&sandbox, &json!({}), &windows).code(1);
    assert!(ran.out.contains("stage `canary` waits for approval"), "{ran:#?}");
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    assert!(Timestamp::now() < closes, "the window has closed too early for this test");
    sleep_until(closes);

    // The approval is given, but no cluster changes: neither by the next stage nor by a correction.
    sandbox.edit("c1", "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    let ran = once_in(&sandbox, &approve(&second), &windows).code(1);
    assert!(
        ran.out.contains("1 of 3 clusters are at it; stage `canary` waits for the window that opens at"),
        "{ran:#?}"
    );
    assert_eq!(values(&sandbox), ["mine", "1", "1"]);
    // A person need not wait for the revision.
    let mut ignored = approve(&second);
    ignored["federate.dev/ignoreWindows"] = json!(second);
    let ran = once_in(&sandbox, &ignored, &windows).code(0);
    assert!(ran.out.contains("to 3 clusters in 2 stages"), "{ran:#?}");
    assert_eq!(values(&sandbox)[1..], ["2", "2"]);

    // The next revision is checked, and begins in no cluster.
    let third = commit(&sandbox, "3");
    let ran = once_in(&sandbox, &approve(&third), &windows).code(1);
    assert!(ran.out.contains("waits for the window that opens at"), "{ran:#?}");
    assert_eq!(values(&sandbox)[1..], ["2", "2"]);
}

#[test]
fn an_aborted_rollout_waits_for_no_window() {
    let sandbox = sandbox();
    let first = commit(&sandbox, "1");
    let (windows, closes) = closing(if sandbox.is_real() { 45 } else { 15 });
    once_in(&sandbox, &approve(&first), &windows).code(0);
    let second = commit(&sandbox, "2");
    once_in(&sandbox, &json!({}), &windows).code(1);
    assert_eq!(values(&sandbox), ["2", "1", "1"]);
    assert!(Timestamp::now() < closes, "the window has closed too early for this test");
    sleep_until(closes);
    let ran = once_in(&sandbox, &json!({"federate.dev/abort": second}), &windows).code(2);
    assert!(ran.out.contains("RolloutAborted: "), "{ran:#?}");
    assert_eq!(values(&sandbox), ["1", "1", "1"], "clusters return to what they had");
}

#[test]
fn clusters_that_have_left_are_cleaned_in_a_window() {
    let hub = Hub::new();
    let apply = json!({"prune": true, "pruneLimit": 100, "pruneClusters": true});
    hub.create(&hub.sync("web", &json!({"interval": "1s", "apply": apply, "windows": open()})));
    let running = Running::start(&hub, "log");
    until("the first revision is applied", || hub.ready("web")["status"] == "True");
    let clusters = hub.sandbox.read_file("clusters.yaml");
    let rest: Vec<&str> = clusters.split("---\n").filter(|text| !text.contains("name: m2")).collect();
    hub.sandbox.write("clusters.yaml", &rest.join("---\n"));
    hub.patch("web", &json!({"spec": {"windows": closed()}}));
    until("the windows are closed", || hub.status("web")["window"]["open"] == false);
    hub.push("smaller");
    until("the revision waits", || {
        let waiting = hub.status("web")["window"]["waiting"].clone();
        waiting.as_str().is_some_and(|waiting| waiting.ends_with(&revision(&hub)))
    });
    std::thread::sleep(Duration::from_secs(3));
    assert!(hub.sandbox.has("m2", WEB), "nothing is deleted");
    hub.patch("web", &json!({"spec": {"windows": open()}}));
    until("the cluster is cleaned in the window", || !hub.sandbox.has("m2", WEB));
    assert!(hub.sandbox.has("m1", WEB));
    assert_eq!(running.end("-TERM"), Some(0));
}
