//! What the loop over Sync objects survives: kills at any moment, rollouts included, sources that break or are swapped,
//! and each deletion policy.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config, deployment};
use crate::sync_objects::{Hub, Running, SYNCS, git, image, until};

/// What clusters hold that matters: names and contents, without what servers number and time.
fn held(sandbox: &Sandbox, cluster: &str) -> Vec<Value> {
    let mut held = Vec::new();
    for path in ["/apis/apps/v1/namespaces/shop/deployments", "/api/v1/namespaces/shop/configmaps"] {
        for item in sandbox.get(cluster, path)["items"].as_array().unwrap() {
            held.push(json!([
                item["metadata"]["name"],
                item["metadata"]["labels"],
                item["spec"],
                item["data"]
            ]));
        }
    }
    held
}

/// A random moment, before so many milliseconds have passed.
pub(crate) fn moment(most: u64) -> Duration {
    Duration::from_millis(RandomState::new().hash_one(0) % most)
}

/// One state of the repo after another.
fn change(hub: &Hub, at: usize) {
    hub.sandbox.write("web.yaml", &deployment(&format!("nginx:1.{at}")));
    let names: Vec<String> =
        (0..10).map(|name| config(&format!("c{name}"), &format!("{}", at + name))).collect();
    hub.sandbox.write("many.yaml", &names.join("---\n"));
    hub.push("change");
}

/// A rollout over two stages, without tasks. Deployments never become healthy in clusters without controllers.
fn stages() -> Value {
    let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
    json!({"stages": [stage("m1"), stage("m2")]})
}

/// Gives each cluster a label with its name, and leaves out what never becomes healthy.
fn stage(hub: &Hub) {
    let cluster = |name: &str| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}, labels: {{stage: \
             {name}}}}}\nspec: {{}}\n"
        )
    };
    hub.sandbox.write("clusters.yaml", &[cluster("m1"), cluster("m2")].concat());
}

fn killed_rounds_leave_what_undisturbed_rounds_leave(staged: bool) {
    // Eight kills for each change; `FEDERATE_TEST_KILLS` asks for more.
    let kills = std::env::var("FEDERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let changes = kills.unwrap_or(24_usize).div_ceil(8);
    let make = || {
        let hub = Hub::simulated();
        let more = if staged { json!({"rollout": stages()}) } else { json!({}) };
        if staged {
            stage(&hub);
        }
        hub.create(&hub.sync("web", &more));
        hub
    };
    let change = |hub: &Hub, at: usize| {
        change(hub, at);
        if staged {
            hub.sandbox.write("web.yaml", &config("web", &at.to_string()));
            hub.push("change");
        }
    };
    let undisturbed = make();
    for at in 0..changes {
        change(&undisturbed, at);
        undisturbed.once().code(0);
    }
    let hub = make();
    let mut killed = 0;
    for at in 0..changes {
        change(&hub, at);
        for _ in 0..8 {
            let mut child =
                hub.command("--once").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(moment(500));
            killed += usize::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    assert!(killed > 0, "no round was killed");
    hub.once().code(0);
    for cluster in ["m1", "m2"] {
        assert_eq!(held(&hub.sandbox, cluster), held(&undisturbed.sandbox, cluster));
    }
    // Parts that a killed process has left are removed when the memory is written the next time.
    for hub in [&hub, &undisturbed] {
        change(hub, changes);
        hub.once().code(0);
    }
    let memories = |hub: &Hub| {
        let list = hub.sandbox.get("hub", "/apis/federate.dev/v1alpha1/namespaces/shop/syncrecords");
        let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone());
        let digest =
            hub.sandbox.get("hub", "/apis/federate.dev/v1alpha1/namespaces/shop/syncrecords/federate.web");
        (names.count(), digest["data"]["digest"].clone())
    };
    assert_eq!(memories(&hub), memories(&undisturbed), "no memory is lost, and no part is left");
}

#[test]
fn killed_rounds_of_objects_leave_what_undisturbed_rounds_leave() {
    killed_rounds_leave_what_undisturbed_rounds_leave(false);
}

#[test]
fn killed_rollouts_leave_what_undisturbed_rollouts_leave() {
    killed_rounds_leave_what_undisturbed_rounds_leave(true);
}

#[test]
fn killed_loops_leave_what_undisturbed_rounds_leave() {
    let kills = std::env::var("FEDERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills = kills.unwrap_or(5_usize);
    let make = || {
        let hub = Hub::simulated();
        let text = "apiVersion: federate.dev/v1alpha1\nkind: Sync\nmetadata: {name: web}\nspec:\n  source: {url: \
                    origin.git, ref: {branch: main}}\n  interval: 500ms\n  retryInterval: 500ms\n  apply: {}\n";
        fs::write(hub.sandbox.path("sync.yaml"), text).unwrap();
        hub
    };
    let loops = |hub: &Hub, more: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args("sync -f sync.yaml --state state --kubeconfig kubeconfig".split(' '));
        command.args(more.split_whitespace()).current_dir(hub.sandbox.path(""));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let (hub, undisturbed) = (make(), make());
    let mut number = 0;
    for _ in 0..kills {
        let mut child = loops(&hub, "").spawn().unwrap();
        for _ in 0..2 {
            std::thread::sleep(moment(1000));
            // Large changes, and those of one template.
            if number % 3 == 0 {
                change(&hub, number);
            } else {
                hub.sandbox.write("web.yaml", &deployment(&format!("nginx:1.{number}")));
                hub.push("edit");
            }
            number += 1;
        }
        std::thread::sleep(moment(1000));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for hub in [&hub, &undisturbed] {
        change(hub, number);
        assert!(loops(hub, "--once").status().unwrap().success());
    }
    for cluster in ["m1", "m2"] {
        assert_eq!(held(&hub.sandbox, cluster), held(&undisturbed.sandbox, cluster));
    }
    let memory = |hub: &Hub| fs::read(hub.sandbox.path("state/default/web/placements.yaml")).unwrap();
    assert_eq!(memory(&hub), memory(&undisturbed), "no memory is lost");
}

#[test]
fn a_source_that_breaks_changes_nothing() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    let origin = hub.sandbox.path("origin.git");
    let moved = hub.sandbox.path("moved.git");
    let fails = |said: &str| {
        let ran = hub.once().code(2);
        assert!(ran.out.contains(said), "{said}: {ran:#?}");
        assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    };
    fs::rename(&origin, &moved).unwrap();
    fails("GitOperationFailed: `git ls-remote` failed");
    // Another repository at its place, with nothing in it but a commit.
    git(&hub.sandbox, "init -q -b main empty");
    git(&hub.sandbox, "-C empty commit -q --allow-empty -m empty");
    git(&hub.sandbox, "clone -q --bare empty origin.git");
    fails("PruneFailed: nothing is rendered any more");
    fs::remove_dir_all(&origin).unwrap();
    git(&hub.sandbox, "init -q --bare -b main origin.git");
    fails("has no branch `main`");
    fs::remove_dir_all(&origin).unwrap();
    fs::rename(&moved, &origin).unwrap();
    hub.once().code(0);
    // Rewritten history is allowed, and said.
    git(&hub.sandbox, "-C repo commit -q --amend --allow-empty -m rewritten");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("next");
    let ran = hub.once().code(0);
    assert!(ran.err.contains("the history was rewritten"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28");
}

#[test]
fn each_deletion_policy_does_what_it_says() {
    for (policy, prune, stays) in [
        ("Orphan", true, true),
        ("Delete", false, false),
        ("MirrorPrune", true, false),
        ("MirrorPrune", false, true),
    ] {
        let hub = Hub::new();
        let more = json!({"deletionPolicy": policy, "apply": {"prune": prune}});
        hub.create(&hub.sync("web", &more));
        let running = Running::start(&hub, "log");
        until("the Sync is ready", || hub.ready("web")["status"] == "True");
        hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
        until("the Sync is gone", || !hub.sandbox.has("hub", &format!("{SYNCS}/web")));
        until("the loop has seen it", || {
            fs::read_to_string(hub.sandbox.path("log")).unwrap().contains("is gone")
        });
        for cluster in ["m1", "m2"] {
            assert_eq!(hub.sandbox.has(cluster, WEB), stays, "{policy}, prune {prune}");
        }
        drop(running);
    }
}

#[test]
fn drift_is_put_back_for_objects_too() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"drift": {"mode": "correct"}})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    hub.watched("m1");
    let mine = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    for _ in 0..3 {
        hub.sandbox.edit("m1", "rival", WEB, &mine);
        until("it is put back", || image(&hub.sandbox, "m1") == "nginx:1.27");
    }
    let fights = || {
        let events = hub.sandbox.get("hub", "/api/v1/namespaces/shop/events");
        let events = events["items"].as_array().unwrap().clone();
        events.into_iter().filter(|event| event["reason"] == "Fight").collect::<Vec<_>>()
    };
    until("the fight is an Event", || !fights().is_empty());
    assert!(fights()[0]["message"].as_str().unwrap().contains("rival changes"), "{:?}", fights());
    assert_eq!(running.end("-TERM"), Some(0));
}
