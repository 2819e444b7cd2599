//! `federate sync` over Sync objects of an API server: rounds, status, memory, Secrets, deletion, leader election, and
//! that `deploy/sync` grants what it asks for.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::git_http::Server;
use crate::sandbox::{Ran, Sandbox, WEB, config, deployment};

pub(crate) const SYNCS: &str = "/apis/federate.dev/v1alpha1/namespaces/shop/syncs";
const RECORDS: &str = "/apis/federate.dev/v1alpha1/namespaces/shop/syncrecords";

/// An API server `hub` with the definition of Sync, members `m1` and `m2`, and a repo that is served over HTTP.
pub(crate) struct Hub {
    pub(crate) sandbox: Sandbox,
    server: Server,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self::of(Sandbox::anywhere_with_accounts(&["hub", "m1", "m2"]))
    }

    /// The same with the API server for tests, whatever `FEDERATE_TEST_KUBECONFIG` says: its faults are needed, its record
    /// of requests, or two hubs at a time.
    pub(crate) fn simulated() -> Self {
        Self::with(&["m1", "m2"])
    }

    /// The same with other members.
    pub(crate) fn with(members: &[&str]) -> Self {
        Self::of(Sandbox::simulated(&[&["hub"], members].concat()))
    }

    fn of(sandbox: Sandbox) -> Self {
        let clusters = sandbox.read_file("clusters.yaml");
        let members: Vec<&str> = clusters.split("---\n").filter(|text| !text.contains("name: hub")).collect();
        sandbox.write("clusters.yaml", &members.join("---\n"));
        git(&sandbox, "init -q -b main repo");
        git(&sandbox, "init -q --bare -b main origin.git");
        let server = Server::start(&sandbox.path(""));
        let hub = Self { sandbox, server };
        hub.push("first");
        hub.install();
        hub
    }

    /// Installs what `deploy` has, and writes a kubeconfig with a token of its `ServiceAccount`.
    fn install(&self) {
        let root = env!("CARGO_MANIFEST_DIR");
        let sandbox = &self.sandbox;
        for namespace in ["shop", "federate-system"] {
            sandbox.create_namespace_named("hub", namespace);
        }
        for file in ["deploy/crds/syncs.federate.dev.yaml", "deploy/sync/rbac.yaml"] {
            let text = fs::read(format!("{root}/{file}")).unwrap();
            for document in federate_yaml::read_stream(&text).documents {
                let body = document.value;
                let (kind, name) = (body["kind"].as_str().unwrap(), &body["metadata"]["namespace"]);
                let rights = "/apis/rbac.authorization.k8s.io/v1";
                match (kind, name.as_str()) {
                    ("CustomResourceDefinition", _) => sandbox.create_global(
                        "hub",
                        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                        &body,
                    ),
                    ("ServiceAccount", Some(namespace)) => {
                        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
                        sandbox.create("hub", &path, "test", &body);
                    }
                    (kind, None) => {
                        let path = format!("{rights}/{}s", kind.to_lowercase());
                        sandbox.create_global("hub", &path, &body);
                    }
                    (kind, Some(namespace)) => {
                        let path = format!("{rights}/namespaces/{namespace}/{}s", kind.to_lowercase());
                        sandbox.create("hub", &path, "test", &body);
                    }
                }
            }
        }
        let kubeconfig = fs::read_to_string(sandbox.kubeconfig_path()).unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "members"},
            "stringData": {"value": kubeconfig}});
        sandbox.create("hub", "/api/v1/namespaces/shop/secrets", "test", &secret);
        sandbox.write_kubeconfig_of("hub.kubeconfig", "hub", "federate-system", "federate-sync");
    }

    pub(crate) fn push(&self, message: &str) {
        git(&self.sandbox, "-C repo add -A");
        git(&self.sandbox, &format!("-C repo commit -q --allow-empty -m {message}"));
        git(&self.sandbox, "-C repo push -q --force ../origin.git main");
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/origin.git", self.server.address())
    }

    /// A Sync that applies the repo to the members.
    pub(crate) fn sync(&self, name: &str, more: &Value) -> Value {
        let mut spec = json!({
            "source": {"url": self.url(), "ref": {"branch": "main"}},
            "interval": "1h",
            "retryInterval": "1s",
            "kubeConfig": {"secretRef": {"name": "members"}},
            "apply": {"prune": true},
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "metadata": {"name": name}, "spec": spec})
    }

    #[track_caller]
    pub(crate) fn create(&self, sync: &Value) {
        self.sandbox.create_soon("hub", SYNCS, sync);
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        self.command_without_state(&format!("--state caches {arguments}"))
    }

    pub(crate) fn command_without_state(&self, arguments: &str) -> Command {
        let mut command = self.strict_command(arguments);
        // All servers of tests are on loopback.
        command.arg("--allow-local-addresses");
        command
    }

    /// The loop as it runs where nothing permits Syncs to name servers on its machine.
    pub(crate) fn strict_command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args("sync --kubeconfig hub.kubeconfig --context hub".split(' '));
        command.args(["--leader-election-namespace", &self.sandbox.own("federate-system")]);
        command.args(arguments.split_whitespace());
        command.current_dir(self.sandbox.path("")).stdin(Stdio::null());
        command
    }

    pub(crate) fn once(&self) -> Ran {
        self.sandbox.ran(&mut self.command("--once"))
    }

    /// The status of a Sync. If the last round has succeeded, each cluster that it applies to is counted once.
    #[track_caller]
    pub(crate) fn status(&self, name: &str) -> Value {
        let status = self.sandbox.get("hub", &format!("{SYNCS}/{name}"))["status"].clone();
        if let (Some(counts), Some(clusters)) =
            (status["clusters"].as_object(), status["inventory"]["clusters"].as_array())
            && condition(&status, "Ready")["status"] == "True"
        {
            let sum: u64 = counts.values().filter_map(Value::as_u64).sum();
            let present = clusters.iter().filter(|cluster| cluster["left"].is_null()).count();
            // Without `apply`, clusters are compared, and not in the inventory.
            assert!(present == 0 || usize::try_from(sum).unwrap() == present, "{status:#}");
        }
        status
    }

    pub(crate) fn ready(&self, name: &str) -> Value {
        condition(&self.status(name), "Ready")
    }

    /// Changes a Sync by a merge patch.
    #[track_caller]
    pub(crate) fn patch(&self, name: &str, patch: &Value) {
        let path = format!("{SYNCS}/{name}");
        let code = self.sandbox.ask("hub", "PATCH", &path, "test", "application/merge-patch+json", patch);
        assert_eq!(code, 200, "{path}: {patch}");
    }

    /// The administrator's kubeconfig of all clusters.
    pub(crate) fn read_kubeconfig(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.sandbox.kubeconfig_path()).unwrap()).unwrap()
    }

    /// Rewrites the kubeconfig with which Syncs reach the members.
    pub(crate) fn set_kubeconfig(&self, change: impl Fn(&mut Value)) {
        let path = "/api/v1/namespaces/shop/secrets/members";
        let mut config = self.read_kubeconfig();
        change(&mut config);
        let data = json!({"stringData": {"value": config.to_string()}});
        let code = self.sandbox.ask("hub", "PATCH", path, "test", "application/merge-patch+json", &data);
        assert_eq!(code, 200);
    }

    /// Takes the way to the member `m1` from Syncs.
    pub(crate) fn lose_m1(&self) {
        self.set_kubeconfig(|config| {
            // Of real clusters, the repo names the context.
            let lost = ["m1", "member-2"];
            let contexts = config["contexts"].as_array_mut().unwrap();
            contexts.retain(|context| !lost.contains(&context["name"].as_str().unwrap()));
        });
    }

    /// Gives it back.
    pub(crate) fn restore_m1(&self) {
        self.set_kubeconfig(|_| {});
    }

    /// Waits until a member is watched.
    pub(crate) fn watched(&self, member: &str) {
        if self.sandbox.is_real() {
            return std::thread::sleep(Duration::from_secs(5));
        }
        until("the cluster is watched", || self.sandbox.count(member, "watch") >= 2);
        std::thread::sleep(Duration::from_secs(1));
    }

    /// The names of the objects with the memory.
    fn memory(&self) -> Vec<String> {
        let list = self.sandbox.get("hub", RECORDS);
        let names =
            list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
        names.filter(|name| name.starts_with("federate.")).map(str::to_owned).collect()
    }
}

pub(crate) fn git(sandbox: &Sandbox, arguments: &str) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments.split(' '));
    let ran = command.current_dir(sandbox.path("")).output().unwrap();
    assert!(ran.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ran.stderr));
}

pub(crate) fn condition(status: &Value, name: &str) -> Value {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == name).unwrap_or_default()
}

pub(crate) fn image(sandbox: &Sandbox, cluster: &str) -> String {
    let web = sandbox.get(cluster, WEB);
    web["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

/// The answer of a running loop to a request for a path of one of its addresses; `None` if it does not listen yet.
pub(crate) fn fetch(hub: &Hub, service: &str, path: &str) -> Option<String> {
    let log = fs::read_to_string(hub.sandbox.path("log")).unwrap();
    let line = log.lines().find(|line| line.contains(&format!("listening for {service}")))?;
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Some(hub.sandbox.known(answer.split_once("\r\n\r\n").unwrap().1))
}

/// The messages of the Events of a namespace that have a reason.
pub(crate) fn events(hub: &Hub, namespace: &str, reason: &str) -> Vec<String> {
    let list = hub.sandbox.get("hub", &format!("/api/v1/namespaces/{namespace}/events"));
    let found = list["items"].as_array().unwrap().iter().filter(|event| event["reason"] == reason);
    found.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it never came to pass that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A loop that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(hub: &Hub, log: &str) -> Self {
        Self::with(hub, "", log)
    }

    pub(crate) fn with(hub: &Hub, arguments: &str, log: &str) -> Self {
        let log = fs::File::create(hub.sandbox.path(log)).unwrap();
        Self(hub.command(arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub(crate) fn end(mut self, signal: &str) -> Option<i32> {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn objects_are_carried_out_with_the_rights_of_deploy() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    let ran = hub.once().code(0);
    assert!(ran.out.contains("shop/web: ReconciliationSucceeded: applied main@sha1:"), "{ran:#?}");
    assert_eq!(
        (image(&hub.sandbox, "m1"), image(&hub.sandbox, "m2")),
        ("nginx:1.27".into(), "nginx:1.27".into())
    );
    let status = hub.status("web");
    assert_eq!(condition(&status, "Ready")["status"], "True");
    assert_eq!((&status["observedGeneration"], &status["clusters"]["ready"]), (&1.into(), &2.into()));
    assert_eq!(hub.memory().len(), 2, "an index and a part: {:?}", hub.memory());
    let parent = hub.sandbox.get("m1", "/api/v1/namespaces/default/configmaps/federate.shop.web");
    let annotation = |key: &str| parent["metadata"]["annotations"][format!("federate.dev/{key}")].clone();
    let revision = status["lastAppliedRevision"].as_str().unwrap().rsplit_once(':').unwrap().1;
    assert_eq!(annotation("revision"), revision, "the parent of the ApplySet names the commit");
    assert!(hub.url().ends_with(&format!("{}.git", annotation("repository").as_str().unwrap())));
    // Another process remembers, and does nothing.
    fs::remove_dir_all(hub.sandbox.path("caches")).unwrap();
    hub.sandbox.forget("m1");
    hub.once().code(0);
    hub.sandbox.wrote("m1", 0);
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("second");
    hub.once().code(0);
    assert_eq!(image(&hub.sandbox, "m2"), "nginx:1.28");
    assert_eq!(hub.memory().len(), 2, "former parts are gone");
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    hub.once().code(2);
    let stalled = condition(&hub.status("web"), "Stalled");
    assert_eq!((&stalled["status"], &stalled["reason"]), (&"True".into(), &"BuildFailed".into()));
    assert!(stalled["message"].as_str().unwrap().contains("web.yaml:1"), "{stalled}");
}

#[test]
fn edited_memory_is_refused_and_missing_memory_is_created_again() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    let part = hub.memory().into_iter().find(|name| name.ends_with(".0")).unwrap();
    hub.sandbox.delete("hub", &format!("{RECORDS}/{part}"));
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("second");
    let ran = hub.once().code(2);
    assert!(
        ran.out.contains("StateFailed: SyncRecord shop/federate.web: ") && ran.out.contains(&part),
        "{ran:#?}"
    );
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27", "nothing is decided without memory");
    hub.sandbox.delete("hub", &format!("{RECORDS}/federate.web"));
    hub.once().code(0);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28");
}

/// After an upgrade from a version that kept its memory elsewhere, there is none.
#[test]
fn a_sync_without_its_memory_deletes_nothing() {
    let hub = Hub::new();
    let configs = |count: usize| {
        let all: Vec<String> = (0..count).map(|n| config(&format!("c{n}"), "1")).collect();
        hub.sandbox.write("configs.yaml", &all.join("---\n"));
        hub.push("configs");
    };
    configs(8);
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    let list_uids = || {
        let of_cluster = |cluster: &str| {
            let paths = (0..8).map(|n| format!("/api/v1/namespaces/shop/configmaps/c{n}"));
            let paths = paths.chain([WEB.to_owned()]);
            paths.map(|path| hub.sandbox.get(cluster, &path)["metadata"]["uid"].clone()).collect::<Vec<_>>()
        };
        ["m1", "m2"].map(of_cluster)
    };
    let before = list_uids();
    let forget = || {
        for name in hub.memory() {
            hub.sandbox.delete("hub", &format!("{RECORDS}/{name}"));
        }
    };
    forget();
    hub.once().code(0);
    assert_eq!(list_uids(), before);
    // The guard knows from the clusters what they have.
    forget();
    configs(3);
    hub.once().code(2);
    assert_eq!(list_uids(), before);
}

#[test]
fn an_object_that_is_made_again_takes_the_memory_over() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    hub.create(&hub.sync("web", &json!({})));
    let uid = hub.sandbox.get("hub", &format!("{SYNCS}/web"))["metadata"]["uid"].clone();
    hub.once().code(0);
    // A garbage collector may be at work on that of the former one.
    until("the memory is complete", || hub.memory().len() == 2);
    for name in hub.memory() {
        let owner = &hub.sandbox.get("hub", &format!("{RECORDS}/{name}"))["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], uid, "{name} goes away with the new object");
    }
}

/// The garbage collector removes one object after the other.
#[test]
fn memory_of_a_former_object_that_is_half_removed_is_no_memory() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    for name in hub.memory().iter().filter(|name| name.ends_with(".0")) {
        let part = format!("{RECORDS}/{name}");
        hub.sandbox.ask("hub", "DELETE", &part, "test", "application/json", &Value::Null);
    }
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    hub.once().code(0);
    until("the memory is complete", || hub.memory().len() == 2);
}

#[test]
fn a_source_that_moves_takes_its_objects_along_and_another_one_does_not_take_them() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    git(&hub.sandbox, "clone -q --bare origin.git moved.git");
    let source = json!({"url": format!("{}/moved.git", hub.server.address()), "ref": {"branch": "main"}});
    hub.patch("web", &json!({"spec": {"source": source}}));
    hub.once().code(0);
    let parent = "/api/v1/namespaces/default/configmaps/federate.shop.web";
    let repository = |hub: &Hub| {
        let parent = hub.sandbox.get("m1", parent);
        parent["metadata"]["annotations"]["federate.dev/repository"].as_str().unwrap().to_owned()
    };
    assert!(repository(&hub).ends_with("/moved"));
    // One that did not apply them itself has no claim on them.
    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    // A garbage collector deletes the memory with the object.
    let memory = format!("{RECORDS}/federate.web");
    hub.sandbox.ask("hub", "DELETE", &memory, "test", "application/json", &Value::Null);
    hub.create(&hub.sync("web", &json!({})));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("the ApplySet default/federate.shop.web belongs to"), "{ran:#?}");
    assert!(repository(&hub).ends_with("/moved"));
}

#[test]
fn what_cannot_be_carried_out_is_said_in_the_status() {
    let hub = Hub::new();
    let set = json!({"apply": {"applySet": "default/both"}});
    for member in ["m1", "m2"] {
        hub.sandbox.remember(member, "/api/v1/namespaces/default/configmaps/both");
    }
    hub.create(&hub.sync("web", &set));
    hub.create(&hub.sync("xother", &set));
    // A server that evaluates the rules of the definition refuses it at once.
    let local = hub.sync("local", &json!({"source": {"url": "/etc"}}));
    let is_refused = hub.sandbox.ask("hub", "POST", SYNCS, "test", "application/json", &local) == 422;
    let ran = hub.once().code(2);
    assert_eq!(hub.ready("web")["status"], "True", "{ran:#?}");
    let other = hub.ready("xother");
    assert_eq!(other["reason"], "InvalidSpec");
    assert!(
        other["message"]
            .as_str()
            .unwrap()
            .contains("shop/web has the ApplySet default/both, too: shop/xother")
    );
    if !is_refused {
        assert!(hub.ready("local")["message"].as_str().unwrap().contains("spec.source.url"));
        assert_eq!(condition(&hub.status("local"), "Stalled")["status"], "True");
    }
}

#[test]
fn the_loop_follows_objects_annotations_and_deletion() {
    let hub = Hub::new();
    let running = Running::start(&hub, "log");
    hub.create(&hub.sync("web", &json!({"deletionPolicy": "Delete"})));
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let finalizers = hub.sandbox.get("hub", &format!("{SYNCS}/web"))["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["finalizers.federate.dev"]));
    // The Event follows the status.
    until("the Sync has an Event", || {
        let events = hub.sandbox.get("hub", "/api/v1/namespaces/shop/events");
        let event = &events["items"][0];
        event["reason"] == "ReconciliationSucceeded" && event["involvedObject"]["name"] == "web"
    });

    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("second");
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/requestedAt": "now"}}}));
    until("the new revision is applied", || image(&hub.sandbox, "m1") == "nginx:1.28");
    until("the request is noted", || hub.status("web")["lastHandledReconcileAt"] == "now");

    hub.patch("web", &json!({"spec": {"suspend": true}}));
    until("it is suspended", || fs::read_to_string(hub.sandbox.path("log")).unwrap().contains("suspended"));
    hub.sandbox.write("web.yaml", &deployment("nginx:1.29"));
    hub.push("third");
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/requestedAt": "later"}}}));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28", "a suspended Sync does nothing");

    hub.patch("web", &json!({"spec": {"suspend": false}}));
    until("it goes on", || image(&hub.sandbox, "m1") == "nginx:1.29");
    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
    assert!(!hub.sandbox.has("m1", WEB) && !hub.sandbox.has("m2", WEB), "the objects went first");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn objects_stay_where_their_deletion_was_not_requested() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    until("the loop has seen it", || {
        fs::read_to_string(hub.sandbox.path("log")).unwrap().contains("is gone")
    });
    assert!(hub.sandbox.has("m1", WEB));
    drop(running);
}

#[test]
fn one_process_leads_and_another_takes_over() {
    let hub = Hub::new();
    let first = Running::start(&hub, "first");
    let log = |name: &str| fs::read_to_string(hub.sandbox.path(name)).unwrap();
    until("the first one leads", || log("first").contains("leading"));
    let second = Running::start(&hub, "second");
    until("the second one waits", || log("second").contains("another process leads"));
    assert_eq!(first.end("-TERM"), Some(0), "it gives the Lease up");
    until("the second one leads", || log("second").contains("leading"));
    hub.create(&hub.sync("web", &json!({})));
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let lease = hub
        .sandbox
        .get("hub", "/apis/coordination.k8s.io/v1/namespaces/federate-system/leases/federate-sync");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    assert_eq!(second.end("-TERM"), Some(0));
}

#[test]
fn sources_are_read_with_the_credentials_of_a_secret() {
    let hub = Hub::new();
    // user:s3cret
    hub.server.demand("Basic dXNlcjpzM2NyZXQ=");
    let source = json!({"url": hub.url(), "ref": {"branch": "main"}, "secretRef": {"name": "git"}});
    hub.create(&hub.sync("web", &json!({"source": source})));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: the Secret shop/git does not exist"), "{ran:#?}");
    let secret = |password: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git"},
            "stringData": {"username": "user", "password": password}})
    };
    let secrets = "/api/v1/namespaces/shop/secrets";
    hub.sandbox.create("hub", secrets, "test", &secret("wr0ng"));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: `git ls-remote` failed"), "{ran:#?}");
    let said = format!("{}{}{}", ran.out, ran.err, hub.status("web"));
    assert!(!said.contains("wr0ng") && !said.contains("Basic "), "{said}");
    hub.sandbox.delete("hub", &format!("{secrets}/git"));
    hub.sandbox.create("hub", secrets, "test", &secret("s3cret"));
    hub.once().code(0);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
}

#[test]
fn a_kubeconfig_in_a_secret_runs_no_program_and_reads_no_file() {
    let hub = Hub::new();
    let ran = hub.sandbox.path("ran");
    let plugin = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "touch",
        "args": [ran.display().to_string()], "interactiveMode": "Never"});
    for (name, field, value) in
        [("plugin", "exec", plugin), ("file", "tokenFile", json!(hub.sandbox.path("hub.kubeconfig")))]
    {
        let text = fs::read_to_string(hub.sandbox.kubeconfig_path()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        for user in config["users"].as_array_mut().unwrap() {
            user["user"] = json!({field: value});
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"value": config.to_string()}});
        hub.sandbox.create("hub", "/api/v1/namespaces/shop/secrets", "test", &secret);
        hub.create(&hub.sync(name, &json!({"kubeConfig": {"secretRef": {"name": name}}})));
        hub.once().code(2);
        let said = hub.ready(name)["message"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(&format!("the Secret shop/{name}: ")) && said.contains(field), "{said}");
    }
    assert!(!ran.exists());
}
