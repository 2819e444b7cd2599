//! `federate sync` without `--once`: what starts a round, how the loop ends, and what can be observed from
//! outside.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, WEB};

/// A loop that is stopped at the end of the test.
struct Running<'s> {
    sandbox: &'s Sandbox,
    child: Child,
}

impl<'s> Running<'s> {
    fn start(sandbox: &'s Sandbox, arguments: &str) -> Self {
        let log = std::fs::File::create(sandbox.path("log")).unwrap();
        let mut command = sandbox.command(&format!("sync -f sync.yaml --state state {arguments}"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { sandbox, child }
    }

    fn log(&self) -> String {
        self.sandbox.read("log")
    }

    /// Waits until the log contains a text this many times.
    #[track_caller]
    fn says(&self, text: &str, times: usize) {
        let started = Instant::now();
        while self.log().matches(text).count() < times {
            assert!(started.elapsed() < Duration::from_mins(1), "no `{text}` in {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops it with a signal, and returns its exit code.
    fn end(mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        std::mem::forget(self);
        code
    }

    /// The listening address in the log.
    fn address(&self, what: &str) -> String {
        self.says(&format!("listening for {what}"), 1);
        let log = self.log();
        let line = log.lines().find(|line| line.contains(&format!("listening for {what}"))).unwrap();
        line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Sends a request, and returns the answer.
fn ask(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{head}Host: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const SYNC: &str = "apiVersion: federate.dev/v1alpha1
kind: Sync
metadata: {name: web}
spec:
  source: {url: repo}
  interval: 1h
  commit: {branch: rendered}
";

/// A repo in a folder of a git repository, and a Sync for it.
fn folder() -> Sandbox {
    let sandbox = Sandbox::new().file("sync.yaml", SYNC).file(".gitignore", "log\nstate\nsync.yaml\n");
    let web = Sandbox::web();
    for file in ["web.yaml", "clusters.yaml", "policy.yaml"] {
        sandbox.write(&format!("repo/{file}"), web.read(file));
    }
    sandbox.git("init -q -b main");
    sandbox
}

#[test]
fn files_that_change_begin_a_round_and_a_signal_ends_the_loop() {
    let sandbox = folder();
    let running = Running::start(&sandbox, "");
    running.says("ReconciliationSucceeded", 1);
    sandbox.write("repo/web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    running.says("ReconciliationSucceeded", 2);
    assert!(sandbox.git("show rendered:m1/shop/deployment.apps_web.yaml").contains("replicas: 4"));
    sandbox.write("repo/web.yaml", "a: [");
    running.says("BuildFailed", 1);
    sandbox.write("repo/web.yaml", WEB);
    running.says("ReconciliationSucceeded", 3);
    // Files of Syncs are watched too; an invalid one changes nothing.
    sandbox.write("sync.yaml", SYNC.replace("interval", "intervall"));
    running.says("unknown field `intervall`", 1);
    sandbox.write("sync.yaml", SYNC.replace("branch: rendered", "branch: other"));
    running.says("to other", 1);
    sandbox.write("sync.yaml", SYNC.replace("interval: 1h", "interval: 1h\n  suspend: true"));
    running.says("suspended", 1);
    assert_eq!(running.end("-TERM"), Some(0));
    assert_eq!(sandbox.git("rev-parse rendered^{tree}"), sandbox.git("rev-parse other^{tree}"));
    sandbox.run("sync --once -f sync.yaml --state state").code(0);
}

#[test]
fn a_source_is_polled_at_the_interval_and_dependents_follow() {
    let sandbox = folder();
    sandbox.git("add -A");
    sandbox.git("commit -q -m first");
    let polled = SYNC.replace("url: repo", "url: ., ref: {branch: main}, path: repo").replace("1h", "200ms");
    let later = polled.replace("name: web", "name: later").replace("branch: rendered", "branch: later");
    let later = later.replace("200ms", "1h\n  dependsOn: [{name: web}]");
    sandbox.write("sync.yaml", format!("{later}---\n{polled}"));
    let running = Running::start(&sandbox, "");
    running.says("to rendered", 1);
    running.says("to later", 1);
    sandbox.write("repo/web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    sandbox.git("commit -q -a -m second");
    // Each commit is logged once, at the end of a round.
    running.says("committed main@", 3);
    assert!(running.log().contains("read only what changed files=1 templates=1"), "{}", running.log());
    assert_eq!(running.end("-INT"), Some(0));
    assert!(sandbox.git("show rendered:m1/shop/deployment.apps_web.yaml").contains("replicas: 4"));
}

#[test]
fn health_metrics_and_webhooks() {
    let sandbox = folder();
    sandbox.git("add -A");
    sandbox.git("commit -q -m first");
    sandbox.write("sync.yaml", SYNC.replace("url: repo", "url: ., ref: {branch: main}, path: repo"));
    sandbox.write("token", "It's a Secret to Everybody\n");
    let running = Running::start(
        &sandbox,
        "--listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --webhook-listen 127.0.0.1:0 --webhook-token token",
    );
    let (health, metrics) = (running.address("health checks"), running.address("metrics"));
    let hooks = running.address("webhooks");
    running.says("to rendered", 1);
    let get = |address: &str, path: &str| ask(address, &format!("GET {path} HTTP/1.1\r\n"), "");
    assert!(get(&health, "/healthz").starts_with("HTTP/1.1 200"));
    let started = Instant::now();
    while !get(&health, "/readyz").starts_with("HTTP/1.1 200") {
        assert!(started.elapsed() < Duration::from_secs(30));
    }
    assert!(get(&health, "/metrics").starts_with("HTTP/1.1 404"), "each has its own address");
    assert!(ask(&health, "POST /healthz HTTP/1.1\r\n", "").starts_with("HTTP/1.1 405"));
    let metrics = get(&metrics, "/metrics");
    for line in [
        "federate_sync_rounds_total{sync=\"default/web\",reason=\"ReconciliationSucceeded\"} 1\n",
        "federate_sync_ready{sync=\"default/web\"} 1\n",
        "federate_sync_round_duration_seconds_count{sync=\"default/web\"} 1\n",
        "federate_sync_revision_info{sync=\"default/web\",revision=\"main@sha1:",
        "federate_sync_git_operations_total{operation=\"ls-remote\"} 1\n",
        "federate_sync_queue_depth{sync=\"default/web\"} 0\n",
        "federate_sync_replicas_moved{sync=\"default/web\"} 0\n",
        "federate_sync_leader 1\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    sandbox.write("repo/web.yaml", WEB.replace("replicas: 4", "replicas: 8"));
    sandbox.git("commit -q -a -m second");
    let log = running.log();
    let path =
        log.lines().find_map(|line| line.strip_prefix("default/web: webhooks at ")).unwrap().to_owned();
    let signed =
        "X-Hub-Signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\r\n";
    let post = |path: &str, header: &str, body: &str| {
        ask(&hooks, &format!("POST {path} HTTP/1.1\r\n{header}"), body)
    };
    assert!(post(&path, "", "Hello, World!").starts_with("HTTP/1.1 401"));
    assert!(post(&path, signed, "Hello, World?").starts_with("HTTP/1.1 401"));
    assert!(post("/hook/0", signed, "Hello, World!").starts_with("HTTP/1.1 404"));
    assert!(ask(&hooks, "GET /metrics HTTP/1.1\r\n", "").starts_with("HTTP/1.1 405"));
    assert!(post(&path, signed, &"x".repeat((1 << 20) + 1)).starts_with("HTTP/1.1 413"));
    assert!(!running.log().contains("asks for a round"));
    assert!(post(&path, signed, "Hello, World!").starts_with("HTTP/1.1 200"));
    running.says("committed main@", 2);
    assert!(!running.log().contains("Everybody"), "the token is not in the log");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn the_page_shows_each_sync_and_runs_only_its_own_script() {
    let sandbox = folder();
    sandbox.write("repo/<script>.yaml", "a: [");
    let running = Running::start(&sandbox, "--status-listen 127.0.0.1:0");
    let page = running.address("the status page");
    let get = |path: &str| ask(&page, &format!("GET {path} HTTP/1.1\r\n"), "");
    let shows = |text: &str| {
        let started = Instant::now();
        while !get("/").contains(text) {
            assert!(started.elapsed() < Duration::from_secs(30), "no `{text}` in {}", get("/"));
        }
    };
    shows("Stalled=True");
    let html = get("/");
    assert!(html.contains("content-type: text/html") && html.contains("frame-ancestors 'none'"), "{html}");
    assert!(html.contains("default-src 'none'; script-src 'sha256-"), "{html}");
    assert!(html.contains("<h1 id=\"sentence\">1 of 1 Sync fails.</h1>"), "{html}");
    assert!(html.contains("<a href=\"#Sync/default/web\">default/web</a>"), "{html}");
    assert!(html.contains("&lt;script&gt;.yaml") && !html.contains("<script>.yaml"), "{html}");
    assert!(get("/healthz").starts_with("HTTP/1.1 404"));
    std::fs::remove_file(sandbox.path("repo/<script>.yaml")).unwrap();
    shows("Ready=True");
    let json = get("/syncs");
    let (head, body) = json.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    let syncs: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(syncs[0]["metadata"]["name"], "web");
    assert_eq!(syncs[0]["status"]["conditions"][0]["status"], "True");
    sandbox.write("sync.yaml", SYNC.replace("name: web", "name: other"));
    shows(">default/other</a>");
    let started = Instant::now();
    while get("/").contains(">default/web</a>") {
        assert!(started.elapsed() < Duration::from_secs(30), "a Sync that is gone is not shown");
    }
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let sandbox = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let said = sandbox.run(&format!("sync -f sync.yaml --state state --listen {address}")).code(2).err;
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    sandbox.write("token", "\n");
    let said = sandbox
        .run("sync -f sync.yaml --state state --webhook-listen 127.0.0.1:0 --webhook-token token")
        .code(2)
        .err;
    assert!(said.contains("the webhook token is empty"), "{said}");
}

/// A git server that accepts a connection and says nothing.
#[test]
fn a_signal_ends_a_round_that_hangs() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/r.git", silent.local_addr().unwrap());
    let sandbox = Sandbox::new()
        .file("sync.yaml", SYNC.replace("url: repo", &format!("url: '{url}', ref: {{branch: main}}")));
    let running = Running::start(&sandbox, "");
    let (_asked, _) = silent.accept().unwrap();
    let started = Instant::now();
    let log = sandbox.path("log");
    assert_eq!(running.end("-TERM"), Some(0));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("a round that only reads has not ended"), "{log}");
}
