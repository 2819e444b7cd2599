//! `federate sync` between rounds: what others change in a member cluster is reported or put back within seconds,
//! the watch survives what servers do to it, and fights end.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config};
use crate::sync_objects::{Hub, until};

/// How long it may take until drift is reported, and put back.
const REPORTED: Duration = Duration::from_secs(2);
const PUT_BACK: Duration = Duration::from_secs(3);
/// Tests run beside others on few cores.
const PATIENCE: Duration = Duration::from_mins(1);

const A: &str = "/api/v1/namespaces/shop/configmaps/a";

/// A loop over the repo of a sandbox, whose rounds are an hour apart.
struct Running<'s> {
    sandbox: &'s Sandbox,
    child: Child,
}

impl<'s> Running<'s> {
    fn start(sandbox: &'s Sandbox, drift: &str) -> Self {
        sandbox.write_sync("1h", &format!("  apply: {{}}\n  drift: {{mode: {drift}}}\n"));
        let mut command = sandbox.sync("--metrics-listen 127.0.0.1:0");
        let log = fs::File::create(sandbox.path("log")).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        let running = Self { sandbox, child: command.spawn().unwrap() };
        running.until("the round is over", || running.log().contains("ReconciliationSucceeded"));
        running
    }

    fn log(&self) -> String {
        fs::read_to_string(self.sandbox.path("log")).unwrap()
    }

    /// The metrics.
    fn metrics(&self) -> String {
        metrics(&self.log())
    }

    /// Waits until something holds. Returns how long that took.
    #[track_caller]
    fn until(&self, what: &str, holds: impl Fn() -> bool) -> Duration {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "it never came to pass that {what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }

    /// Waits until a cluster is watched, and was compared because of that.
    #[track_caller]
    fn watched(&self, cluster: &str) {
        if self.sandbox.is_real() {
            return std::thread::sleep(Duration::from_secs(5));
        }
        let watches = |running: &Self| running.sandbox.count(cluster, "watch");
        self.until("the cluster is watched", || watches(self) >= 2);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The metrics of a process with this log.
fn metrics(log: &str) -> String {
    let line = log.lines().find(|line| line.contains("listening for metrics")).unwrap();
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mine() -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}})
}

fn image(sandbox: &Sandbox, cluster: &str) -> String {
    let web = sandbox.get(cluster, WEB);
    web["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

#[test]
fn changes_are_reported_within_seconds() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    let running = Running::start(&sandbox, "report");
    running.watched("m1");
    running.watched("m2");
    sandbox.forget("m2");
    sandbox.edit("m1", "kubectl-edit", WEB, &mine());
    let took = running.until("it is reported", || running.log().contains("changed by kubectl-edit in m1"));
    println!("drift was reported after {took:?}");
    assert!(took < REPORTED, "{took:?}");
    assert_eq!(image(&sandbox, "m1"), "mine");
    sandbox.read("m2", 0, 0);
    let counts = || {
        let text = fs::read_to_string(sandbox.path("state/default/web/status.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["status"]["clusters"].clone()
    };
    running.until("it is counted", || counts()["modified"] == 1);
    assert_eq!(counts()["ready"], 1);
    running.until("the metrics say so", || {
        running
            .metrics()
            .contains("federate_sync_drifted_objects_total{sync=\"default/web\",kind=\"changed\"}")
    });
    assert!(running.metrics().contains("federate_sync_api_requests_total{server=\"member\",code=\"200\"}"));
    // It is over when the change is reverted.
    let put_back =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}}}});
    sandbox.edit("m1", "kubectl-edit", WEB, &put_back);
    running.until("it is over", || counts()["modified"] == 0);
}

#[test]
fn answers_of_the_hub_are_counted_by_code() {
    let hub = Hub::simulated();
    hub.create(&hub.sync("web", &json!({"kubeConfig": {"secretRef": {"name": "none"}}})));
    let log = fs::File::create(hub.sandbox.path("log")).unwrap();
    let mut command = hub.command("--metrics-listen 127.0.0.1:0");
    let mut running = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let log = || fs::read_to_string(hub.sandbox.path("log")).unwrap();
    until("the round is over", || log().contains("the Secret shop/none does not exist"));
    let counted = |code: u16| {
        let text = metrics(&log());
        let name = format!("federate_sync_api_requests_total{{server=\"hub\",code=\"{code}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
    };
    until("the absent Secret is counted", || counted(404) >= 1);
    assert!(counted(200) >= 2, "lists and watches of Syncs: {}", metrics(&log()));
    assert!(!metrics(&log()).contains("server=\"member\""));
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn changes_and_deletions_are_put_back_within_seconds() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("a.yaml", &config("a", "1"));
    let running = Running::start(&sandbox, "correct");
    running.watched("m1");
    sandbox.edit("m1", "kubectl-edit", WEB, &mine());
    let took = running.until("it is put back", || image(&sandbox, "m1") == "nginx:1.27");
    println!("a field was put back after {took:?}");
    assert!(took < PUT_BACK, "{took:?}");
    sandbox.edit("m1", "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    let took = running.until("it is put back", || sandbox.get("m1", A)["data"]["k"] != "mine");
    assert!(took < PUT_BACK, "{took:?}");
    sandbox.delete("m1", WEB);
    let took = running.until("it is created again", || sandbox.has("m1", WEB));
    println!("an object was created again after {took:?}");
    assert!(took < PUT_BACK, "{took:?}");
    // A status is not drift.
    std::thread::sleep(Duration::from_secs(2));
    sandbox.forget("m1");
    sandbox.edit(
        "m1",
        "controller",
        &format!("{WEB}/status"),
        &json!({"status": {"replicas": 2, "readyReplicas": 1}}),
    );
    std::thread::sleep(Duration::from_secs(1));
    sandbox.read("m1", 0, 0);
}

#[test]
fn a_watch_that_ends_goes_on_and_one_that_is_too_old_lists_again() {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    for (verb, kind) in
        [("watch", FaultKind::Gone), ("watch", FaultKind::Drop), ("list", FaultKind::Status(503))]
    {
        sandbox
            .fleet
            .lock_cluster("m1")
            .add_fault(InjectedFault::new(verb, kind).with_times(3).on_path("applyset.kubernetes.io"));
    }
    let running = Running::start(&sandbox, "correct");
    running.watched("m1");
    std::thread::sleep(Duration::from_secs(5));
    sandbox.edit("m1", "kubectl-edit", WEB, &mine());
    running.until("it is put back", || image(&sandbox, "m1") == "nginx:1.27");
}

#[test]
fn fights_are_noticed_named_and_left_alone() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("a.yaml", &config("a", "1"));
    let running = Running::start(&sandbox, "correct");
    running.watched("m1");
    for _ in 0..3 {
        sandbox.edit("m1", "rival", WEB, &mine());
        running.until("it is put back", || image(&sandbox, "m1") == "nginx:1.27");
    }
    sandbox.edit("m1", "rival", WEB, &mine());
    running.until("the fight is noticed", || running.log().contains("rival changes /spec/template"));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(image(&sandbox, "m1"), "mine", "{}", running.log());
    // Other objects are put back anyway.
    sandbox.edit("m1", "kubectl-edit", A, &json!({"data": {"k": "mine"}}));
    running.until("it is put back", || sandbox.get("m1", A)["data"]["k"] != "mine");
    assert_eq!(image(&sandbox, "m1"), "mine");
}
