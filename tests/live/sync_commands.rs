//! `federate sync get`, `diff`, `tree`, `history`, `events` and `rollback`.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::{Ran, WEB, config, deployment};
use crate::sync_objects::{Hub, Running, image, until};
use crate::sync_rollout::A;
use crate::sync_windows::{closed, open};

impl Hub {
    /// `federate sync …` as a person runs it, with the rights of an administrator.
    pub(crate) fn ask(&self, arguments: &str) -> Ran {
        self.sandbox.ran(&mut self.question(arguments))
    }

    fn question(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.arg("sync").args(arguments.split_whitespace());
        if ["diff", "tree"].contains(&arguments.split_whitespace().next().unwrap()) {
            command.arg("--allow-local-addresses");
        }
        command.args(["-n", &self.sandbox.own("shop"), "--context", "hub", "--kubeconfig"]);
        command.arg(self.sandbox.kubeconfig_path()).current_dir(self.sandbox.path(""));
        command
    }
}

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn syncs_are_listed_with_revision_clusters_and_drift() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"interval": "1s"})));
    hub.create(&hub.sync("paused", &json!({"suspend": true, "apply": {"applySet": "default/paused"}})));
    let ran = hub.ask("get").code(0);
    let head: Vec<&str> = ran.out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAMESPACE", "NAME", "READY", "REVISION", "CLUSTERS", "DRIFT", "AGE", "STATUS"]);
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    hub.sandbox.edit("m1", "kubectl-edit", WEB, &mine);
    until("the drift is known", || hub.status("web")["drift"]["objects"] == 1);
    let ran = hub.ask("get").code(0);
    let line = ran.out.lines().find(|line| line.contains(" web ")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((cells[2], cells[4], cells[5]), ("True", "1/2", "1"), "{}", ran.out);
    assert!(cells[3].starts_with("main@sha1:") && cells[3].len() == "main@sha1:".len() + 8, "{}", ran.out);
    assert!(
        ran.out.lines().any(|line| line.contains(" paused ") && line.contains("Suspended")),
        "{}",
        ran.out
    );
    let rows = parsed(&hub.ask("get web -o json").code(0));
    assert!(
        rows[0]["drift"]["first"].as_str().unwrap().contains("changed by kubectl-edit in m1"),
        "{rows:#}"
    );
    let ran = hub.ask("get nothing").code(2);
    assert!(ran.err.contains("there is no Sync nothing"), "{ran:#?}");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_diff_shows_what_the_next_round_would_change() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    let ran = hub.ask("diff web").code(0);
    assert!(ran.out.contains("compared with main@sha1:") && ran.out.contains("no drift"), "{ran:#?}");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("next");
    let before = hub.sandbox.get("hub", "/apis/federate.dev/v1alpha1/namespaces/shop/syncs/web");
    let ran = hub.ask("diff web").code(1);
    for said in ["nginx:1.27", "nginx:1.28", "ConfigMap shop/a"] {
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
    let changes = parsed(&hub.ask("diff web -o json").code(1));
    assert_eq!(changes["actions"].as_array().unwrap().len(), 4, "{changes:#}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27", "nothing is changed");
    let after = hub.sandbox.get("hub", "/apis/federate.dev/v1alpha1/namespaces/shop/syncs/web");
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    let revision = hub.status("web")["lastAppliedRevision"].as_str().unwrap().to_owned();
    let commit = revision.rsplit(':').next().unwrap();
    hub.ask(&format!("diff web --revision {commit}")).code(0);
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    let ran = hub.ask("diff web").code(2);
    assert!(ran.err.contains("web.yaml:1"), "{ran:#?}");
}

#[test]
fn a_tree_shows_objects_with_their_health() {
    let hub = Hub::simulated();
    hub.create(&hub.sync("web", &json!({})));
    let ran = hub.ask("tree web").code(2);
    assert!(ran.err.contains("has carried out no revision yet"), "{ran:#?}");
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("config");
    hub.once().code(0);
    let ran = hub.ask("tree web").code(1);
    assert!(ran.out.contains("├─ m1\n") && ran.out.contains("└─ m2\n"), "{}", ran.out);
    assert!(ran.out.contains("InProgress: "), "no controller says that it runs: {}", ran.out);
    let tree = parsed(&hub.ask("tree web -o json").code(1));
    let health = |kind: &str| {
        let objects = tree["clusters"][0]["objects"].as_array().unwrap();
        objects.iter().find(|one| one["object"]["kind"] == kind).unwrap()["health"].clone()
    };
    assert_eq!((health("ConfigMap"), health("Deployment")), (json!("Current"), json!("InProgress")));
    hub.sandbox.delete("m2", "/api/v1/namespaces/shop/configmaps/a");
    let ran = hub.ask("tree web").code(1);
    assert!(ran.out.contains("NotFound"), "{}", ran.out);
}

#[test]
fn a_rollback_suspends_and_a_resumed_sync_follows_its_source() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"interval": "1s"})));
    let running = Running::start(&hub, "log");
    until("the first revision is applied", || hub.ready("web")["status"] == "True");
    let first = hub.status("web")["lastAppliedRevision"].as_str().unwrap().to_owned();
    let ran = hub.ask("rollback web").code(2);
    assert!(ran.err.contains("no other revision that succeeded"), "{ran:#?}");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("next");
    until("the next revision is applied", || image(&hub.sandbox, "m1") == "nginx:1.28");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let ran = hub.ask("history web").code(0);
    assert!(ran.out.starts_with("TIME") && ran.out.contains(&first), "{}", ran.out);

    let ran = hub.ask("rollback web").code(0);
    assert!(ran.out.contains(&format!("is suspended and returns to {first}")), "{ran:#?}");
    assert!(ran.out.contains("rolled back: ") && ran.out.contains("federate sync resume web"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    assert_eq!(image(&hub.sandbox, "m2"), "nginx:1.27");
    let sync = hub.sandbox.get("hub", "/apis/federate.dev/v1alpha1/namespaces/shop/syncs/web");
    assert_eq!(sync["spec"]["suspend"], true);
    // Nothing moves it from there, and another process leaves it so, too.
    hub.sandbox.write("web.yaml", &deployment("nginx:1.29"));
    hub.push("newer");
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(running.end("-TERM"), Some(0));
    let ran = hub.once().code(0);
    assert!(ran.out.contains("suspended"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");

    hub.ask("resume web").code(0);
    let ran = hub.once().code(0);
    assert!(ran.out.contains("applied main@sha1:"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.29");
    let ran = hub.ask("events web").code(0);
    assert!(ran.out.starts_with("TIME") && ran.out.contains("rolled back: "), "{}", ran.out);
    let events = parsed(&hub.ask("events web -o json").code(0));
    assert_eq!(events["name"], "shop/web");
}

#[test]
fn events_are_followed() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"interval": "1s"})));
    let running = Running::start(&hub, "log");
    until("the first revision is applied", || hub.ready("web")["status"] == "True");
    let mut command = hub.question("events web --follow");
    let shown = hub.sandbox.path("events");
    let mut follower = command.stdout(File::create(&shown).unwrap()).spawn().unwrap();
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    until("the next Event is shown", || fs::read_to_string(&shown).unwrap().contains("BuildFailed"));
    assert!(follower.try_wait().unwrap().is_none(), "it goes on");
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_rollback_waits_for_no_window() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"interval": "1s", "windows": open()})));
    let running = Running::start(&hub, "log");
    until("the first revision is applied", || hub.ready("web")["status"] == "True");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("next");
    until("the next revision is applied", || image(&hub.sandbox, "m1") == "nginx:1.28");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    hub.patch("web", &json!({"spec": {"windows": closed()}}));
    until("the windows are closed", || hub.status("web")["window"]["open"] == false);
    hub.ask("rollback web").code(0);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn a_rollback_goes_through_the_stages() {
    let hub = Hub::new();
    let cluster = |name: &str| {
        let metadata = json!({"name": name, "labels": {"stage": name}});
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": {}}).to_string()
    };
    hub.sandbox.write("clusters.yaml", &["m1", "m2"].map(cluster).join("\n---\n"));
    hub.sandbox.remove("web.yaml");
    let push = |value: &str| {
        hub.sandbox.write("a.yaml", &config("a", value));
        hub.push("next");
    };
    let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
    let mut stages = [stage("m1"), stage("m2")];
    // A person looks at the first stage.
    stages[0]["afterStageTasks"] = json!([{"type": "Approval"}]);
    let value = |member: &str| {
        let found = hub.sandbox.has(member, A).then(|| hub.sandbox.get(member, A)["data"]["k"].clone());
        found.unwrap_or_default()
    };
    let message = || hub.ready("web")["message"].as_str().unwrap_or_default().to_owned();
    let approve = |wanted: &str, former: &Value| {
        until("it waits for approval", || value("m1") == wanted && message().contains("-after-m1"));
        assert_eq!(value("m2"), *former, "the second stage waits");
        hub.ask("approve web").code(0);
        until("it is everywhere", || value("m2") == wanted && hub.ready("web")["status"] == "True");
    };
    push("1");
    hub.create(&hub.sync("web", &json!({"interval": "1s", "rollout": {"stages": stages}})));
    let running = Running::start(&hub, "log");
    approve("1", &Value::Null);
    push("2");
    approve("2", &json!("1"));
    let mut rollback =
        hub.question("rollback web").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    approve("1", &json!("2"));
    rollback.kill().unwrap();
    rollback.wait().unwrap();
    assert_eq!(running.end("-TERM"), Some(0));
}
