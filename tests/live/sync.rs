//! `federate sync --once` with member clusters: applying, drift, clusters that fail, and rounds that are killed.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB, config, deployment};

/// The repo of a sandbox as a folder that is watched.
fn sync(sandbox: &Sandbox, wants: &str) {
    sandbox.write_sync("1m", wants);
}

fn command(sandbox: &Sandbox) -> Command {
    sandbox.sync("--once")
}

fn once(sandbox: &Sandbox) -> Ran {
    sandbox.ran(&mut command(sandbox))
}

fn status(sandbox: &Sandbox) -> Value {
    let text = fs::read_to_string(sandbox.path("state/default/web/status.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["status"].clone()
}

fn image(sandbox: &Sandbox, cluster: &str) -> String {
    let web = sandbox.get(cluster, WEB);
    web["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

#[test]
fn the_repo_of_a_sync_does_not_choose_among_the_contexts() {
    let sandbox = Sandbox::simulated(&["m1", "prod"]).file("federate.yaml", "contexts: {m1: prod}\n");
    sync(&sandbox, "  apply: {}\n");
    let ran = once(&sandbox).code(2);
    assert!(
        ran.out.contains("federate.yaml:1:12 names the context `prod` of the kubeconfig for it"),
        "{ran:#?}"
    );
    assert!(!sandbox.has("m1", WEB) && sandbox.has("prod", WEB), "{ran:#?}");
}

#[test]
fn a_new_revision_is_applied_and_nothing_new_is_only_compared() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    sync(&sandbox, "  apply: {}\n");
    let ran = once(&sandbox).code(0);
    assert!(ran.out.contains("ReconciliationSucceeded: applied sha256:"), "{ran:#?}");
    assert_eq!(ran.err.matches("action=\"create\"").count(), 4, "a line for each action: {ran:#?}");
    assert_eq!(
        status(&sandbox)["clusters"],
        json!({"ready": 2, "modified": 0, "outOfSync": 0, "errApplied": 0})
    );
    for cluster in ["m1", "m2"] {
        assert_eq!(image(&sandbox, cluster), "nginx:1.27");
        sandbox.forget(cluster);
    }
    once(&sandbox).code(0);
    sandbox.wrote("m1", 0);
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    once(&sandbox).code(0);
    assert_eq!(image(&sandbox, "m2"), "nginx:1.28");
    // What is no longer rendered goes, within the limit.
    let configs = |names: &[&str]| {
        let all: Vec<String> = names.iter().map(|name| config(name, "1")).collect();
        sandbox.write("c.yaml", &all.join("---\n"));
    };
    configs(&["a", "b", "c", "d", "e", "f"]);
    once(&sandbox).code(0);
    configs(&["a", "b", "d", "e", "f"]);
    once(&sandbox).code(0);
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/c"));
    sandbox.remove("c.yaml");
    sandbox.write("web.yaml", &deployment("nginx:1.29"));
    let ran = once(&sandbox).code(2);
    assert!(ran.out.contains("PruneFailed"), "{ran:#?}");
    assert_eq!(image(&sandbox, "m1"), "nginx:1.28", "nothing of such a revision is applied anywhere");
}

#[test]
fn drift_is_reported_put_back_or_not_looked_for() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    let changed = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "mine"}]}}}});
    sync(&sandbox, "  apply: {}\n");
    once(&sandbox).code(0);
    sandbox.edit("m1", "kubectl-edit", WEB, &changed);
    let ran = once(&sandbox).code(1);
    assert!(ran.err.contains("drifted") && ran.err.contains("managers=\"kubectl-edit\""), "{ran:#?}");
    assert_eq!(image(&sandbox, "m1"), "mine");
    assert_eq!(status(&sandbox)["clusters"]["modified"], 1);

    sync(&sandbox, "  apply: {}\n  drift: {mode: ignore}\n");
    once(&sandbox).code(0);
    assert_eq!(image(&sandbox, "m1"), "nginx:1.27", "another spec is carried out from the start");
    sandbox.edit("m1", "kubectl-edit", WEB, &changed);
    sandbox.forget("m1");
    once(&sandbox).code(0);
    // It is only asked whether it answers.
    sandbox.read("m1", 0, 1);

    sync(&sandbox, "  apply: {}\n  drift: {mode: correct}\n");
    once(&sandbox).code(0);
    sandbox.edit("m2", "kubectl-edit", WEB, &changed);
    let ran = once(&sandbox).code(0);
    assert!(ran.err.contains("put back"), "{ran:#?}");
    assert_eq!(image(&sandbox, "m2"), "nginx:1.27");
}

#[test]
fn a_dead_cluster_delays_no_other_and_gets_what_it_missed() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sync(&sandbox, "  apply: {}\n");
    let whole = fs::read_to_string(sandbox.path("kubeconfig")).unwrap();
    sandbox.kubeconfig(|config| {
        for cluster in config["clusters"].as_array_mut().unwrap() {
            if cluster["name"] == "m2" {
                cluster["cluster"]["server"] = "https://127.0.0.1:1".into();
            }
        }
    });
    let ran = once(&sandbox).code(2);
    assert!(ran.out.contains("ReconciliationFailed: m2: "), "{ran:#?}");
    assert_eq!(image(&sandbox, "m1"), "nginx:1.27");
    let failed = status(&sandbox);
    assert_eq!((&failed["clusters"]["ready"], &failed["clusters"]["errApplied"]), (&1.into(), &1.into()));
    assert_eq!(failed["failing"][0]["name"], "m2");
    assert!(failed["lastAppliedRevision"].is_null());
    fs::write(sandbox.path("kubeconfig"), whole).unwrap();
    once(&sandbox).code(0);
    assert_eq!(image(&sandbox, "m2"), "nginx:1.27");
}

#[test]
fn a_cluster_that_fails_is_tried_alone_and_the_others_are_left_in_peace() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sync(&sandbox, "  apply: {}\n  drift: {mode: ignore}\n");
    let whole = fs::read_to_string(sandbox.path("kubeconfig")).unwrap();
    sandbox.kubeconfig(|config| {
        let clusters = config["clusters"].as_array_mut().unwrap();
        let m2 = clusters.iter_mut().find(|cluster| cluster["name"] == "m2").unwrap();
        m2["cluster"]["server"] = "https://127.0.0.1:1".into();
    });
    once(&sandbox).code(2);
    fs::write(sandbox.path("kubeconfig"), whole).unwrap();
    sandbox.forget("m1");
    once(&sandbox).code(0);
    // It is only asked whether it answers.
    sandbox.read("m1", 0, 1);
    assert_eq!(image(&sandbox, "m2"), "nginx:1.27");
    assert_eq!(status(&sandbox)["clusters"]["ready"], 2);
}

/// One state of the repo after another.
fn change(sandbox: &Sandbox, at: usize) {
    sandbox.write("web.yaml", &deployment(&format!("nginx:1.{at}")));
    let names: Vec<String> =
        (0..20).map(|name| config(&format!("c{name}"), &format!("{}", at + name))).collect();
    sandbox.write("many.yaml", &names.join("---\n"));
}

#[test]
fn rounds_that_are_killed_leave_what_undisturbed_rounds_leave() {
    // Ten kills for each change; `FEDERATE_TEST_KILLS` asks for more.
    let kills = std::env::var("FEDERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let changes = kills.unwrap_or(40_usize).div_ceil(10);
    let undisturbed = Sandbox::simulated(&["m1", "m2"]);
    sync(&undisturbed, "  apply: {}\n");
    for at in 0..changes {
        change(&undisturbed, at);
        once(&undisturbed).code(0);
    }
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sync(&sandbox, "  apply: {}\n");
    let mut killed = 0;
    for at in 0..changes {
        change(&sandbox, at);
        for pause in [5, 20, 40, 60, 80, 100, 130, 170, 220, 300] {
            let mut child = command(&sandbox).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(pause));
            killed += usize::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    assert!(killed > 0, "no round was killed");
    once(&sandbox).code(0);
    for cluster in ["m1", "m2"] {
        assert_eq!(sandbox.held(cluster), undisturbed.held(cluster));
    }
    let kept =
        |sandbox: &Sandbox| fs::read_to_string(sandbox.path("state/default/web/placements.yaml")).unwrap();
    assert_eq!(kept(&sandbox), kept(&undisturbed));
    let left =
        fs::read_dir(sandbox.path("state/default/web")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<String> = left.map(|name| name.into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["placements.yaml", "status.json"], "nothing half-written stays");
}

#[test]
fn what_a_sync_ignores_is_no_drift() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    sandbox.write("c.yaml", &["a", "b"].map(|name| config(name, "1")).join("---\n"));
    sync(
        &sandbox,
        "  apply: {}\n  drift: {mode: correct, ignore: [{kinds: [ConfigMap], names: [a], paths: [/data/k]}]}\n",
    );
    once(&sandbox).code(0);
    for name in ["a", "b"] {
        let path = format!("/api/v1/namespaces/shop/configmaps/{name}");
        sandbox.edit("m1", "kubectl-edit", &path, &json!({"data": {"k": "mine"}}));
    }
    once(&sandbox).code(0);
    let value = |name: &str| {
        sandbox.get("m1", &format!("/api/v1/namespaces/shop/configmaps/{name}"))["data"]["k"].clone()
    };
    assert_eq!((value("a"), value("b")), ("mine".into(), "1".into()));
}

#[test]
fn what_is_left_behind_is_counted() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    sandbox.write("c.yaml", &["a", "b", "c"].map(|name| config(name, "1")).join("---\n"));
    sync(&sandbox, "  apply: {}\n");
    once(&sandbox).code(0);
    assert!(status(&sandbox)["orphans"].is_null());
    let kept = config("b", "1").replace("name: b", "name: b, annotations: {federate.dev/prune: disabled}");
    sandbox.write("c.yaml", &[config("a", "1"), kept].join("---\n"));
    once(&sandbox).code(0);
    sandbox.write("c.yaml", &config("a", "1"));
    once(&sandbox).code(0);
    assert_eq!(status(&sandbox)["orphans"], json!({"objects": 2, "applySets": 0}), "in each cluster");
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/b"));
    // A comparison counts them, too.
    once(&sandbox).code(0);
    assert_eq!(status(&sandbox)["orphans"]["objects"], 2);
}

#[test]
fn a_cluster_that_has_everything_but_is_not_healthy_is_not_ready() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sync(&sandbox, "  timeout: 1s\n  apply: {wait: true}\n");
    once(&sandbox).code(2);
    let counts = status(&sandbox)["clusters"].clone();
    assert_eq!(
        counts,
        json!({"ready": 0, "modified": 0, "outOfSync": 0, "notReady": 2, "errApplied": 0}),
        "Deployments do not become healthy in clusters without controllers"
    );
}
