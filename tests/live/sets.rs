//! The owner of an `ApplySet`: the repo that it belongs to, moving its objects to another one, and what its parent records.

use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config};

const A: &str = "/api/v1/namespaces/shop/configmaps/a";

fn git(sandbox: &Sandbox, arguments: &str) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]);
    let output = command.args(arguments.split(' ')).current_dir(sandbox.path("repo")).output().unwrap();
    assert!(output.status.success(), "git {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repo in git with a remote, and two objects applied.
fn cloned(sandbox: Sandbox) -> Sandbox {
    let sandbox = sandbox.file("a.yaml", &config("a", "1"));
    git(&sandbox, "init -q");
    git(&sandbox, "remote add origin https://user:secret@git.test/team/deploy.git");
    commit(&sandbox);
    sandbox
}

fn commit(sandbox: &Sandbox) {
    git(sandbox, "add -A");
    git(sandbox, "commit -q --allow-empty -m change");
}

fn parent(sandbox: &Sandbox) -> Value {
    let all = sandbox.get("m1", "/api/v1/namespaces/default/configmaps");
    let is_ours = |item: &&Value| item["metadata"]["name"].as_str().unwrap().starts_with("federate-deploy-");
    all["items"].as_array().unwrap().iter().find(is_ours).unwrap().clone()
}

#[test]
fn the_parent_is_named_after_the_repo_and_says_which_commit_runs() {
    let sandbox = cloned(Sandbox::simulated(&["m1"]));
    sandbox.apply("").code(0);
    let annotations = parent(&sandbox)["metadata"]["annotations"].clone();
    assert_eq!(annotations["federate.dev/repository"], "git.test/team/deploy");
    assert_eq!(annotations["federate.dev/path"], "");
    assert_eq!(annotations["federate.dev/revision"], git(&sandbox, "rev-parse HEAD"));

    // Another commit without a change in the cluster is noted anyway, and nothing else is written.
    commit(&sandbox);
    sandbox.forget("m1");
    sandbox.apply("").code(0);
    sandbox.wrote("m1", 1);
    let annotations = parent(&sandbox)["metadata"]["annotations"].clone();
    assert_eq!(annotations["federate.dev/revision"], git(&sandbox, "rev-parse HEAD"));
    sandbox.forget("m1");
    sandbox.apply("").code(0);
    sandbox.wrote("m1", 0);

    // What is not committed is not called so, and what failed does not run.
    sandbox.write("a.yaml", &config("a", "2"));
    sandbox.apply("").code(0);
    let dirty = format!("{}-dirty", git(&sandbox, "rev-parse HEAD"));
    assert_eq!(parent(&sandbox)["metadata"]["annotations"]["federate.dev/revision"], dirty);
    sandbox.write("a.yaml", &config("a", "3").replace("k:", "'k/k':"));
    commit(&sandbox);
    sandbox.apply("").code(2);
    assert_eq!(parent(&sandbox)["metadata"]["annotations"]["federate.dev/revision"], dirty);
}

#[test]
fn each_apply_that_changes_something_leaves_an_event() {
    let sandbox = cloned(Sandbox::simulated(&["m1"]));
    let events = || {
        let list = sandbox.get("m1", "/api/v1/namespaces/default/events");
        let list = list["items"].as_array().unwrap().clone();
        list.into_iter().filter(|event| event["source"]["component"] == "federate").collect::<Vec<_>>()
    };
    sandbox.apply("--dry-run=server").code(0);
    sandbox.apply("--dry-run=client").code(0);
    assert_eq!(events().len(), 0);
    sandbox.apply("").code(0);
    sandbox.apply("").code(0);
    let all = events();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!((&all[0]["type"], &all[0]["reason"]), (&json!("Normal"), &json!("Applied")));
    let message = format!("3 created from git.test/team/deploy at {}", git(&sandbox, "rev-parse HEAD"));
    assert_eq!(all[0]["message"], message);
    assert_eq!(all[0]["involvedObject"]["uid"], parent(&sandbox)["metadata"]["uid"]);
    sandbox.write("a.yaml", &config("a", "3").replace("k:", "'k/k':"));
    sandbox.apply("").code(2);
    let all = events();
    assert!(
        all.iter().any(|e| e["type"] == "Warning" && e["message"].as_str().unwrap().starts_with("1 failed"))
    );
}

#[test]
fn a_set_of_another_repo_is_left_alone() {
    let sandbox = cloned(Sandbox::anywhere(&["m1"]));
    let set = "--applyset shop/set";
    sandbox.create_namespace("m1");
    sandbox.apply(&format!("{set} --adopt always")).code(0);
    git(&sandbox, "remote set-url origin git@git.test:team/other");
    sandbox.remove("web.yaml");
    for (name, more) in [("apply", "--prune-limit 100"), ("apply", "--dry-run=server"), ("drift", "")] {
        let ran = sandbox.run(name, &format!("{set} {more}")).code(2);
        assert!(
            ran.err.contains("belongs to git.test/team/deploy, and this repo is of git.test/team/other"),
            "{ran:#?}"
        );
        assert!(ran.err.contains("--move-from shop/set"), "{ran:#?}");
        assert!(sandbox.has("m1", WEB));
    }
    // The same repo by another address.
    git(&sandbox, "remote set-url origin git@git.test:team/deploy");
    sandbox.apply(&format!("{set} --dry-run=client --prune-limit 100")).code(0);
    git(&sandbox, "remote set-url origin git@git.test:team/other");
    sandbox.apply(&format!("{set} --move-from shop/set --prune-limit 100")).code(0);
    assert!(!sandbox.has("m1", WEB));
    sandbox.apply(set).code(0);
}

#[test]
fn objects_move_from_one_set_to_another() {
    let sandbox = cloned(Sandbox::anywhere(&["m1"])).file("b.yaml", &config("b", "1"));
    sandbox.create_namespace("m1");
    sandbox.apply("--applyset shop/old --adopt always").code(0);
    let label =
        |path: &str| sandbox.get("m1", path)["metadata"]["labels"]["applyset.kubernetes.io/part-of"].clone();
    let (before, running) = (label(A), sandbox.running("m1"));

    let ran = sandbox.apply("--applyset shop/new --dry-run=client").code(0);
    assert!(ran.err.contains("warning: m1: the ApplySet shop/old belongs to this repo, too"), "{ran:#?}");
    assert!(ran.err.contains("--move-from shop/old"), "{ran:#?}");
    // What is left is as it is rendered, so that nothing is wrong yet.
    let ran = sandbox.apply("--applyset shop/new").code(0);
    assert!(ran.out.contains("it belongs to the ApplySet"), "{ran:#?}");
    assert_eq!(label(A), before);

    sandbox.remove("b.yaml");
    let ran = sandbox.apply("--applyset shop/new --move-from shop/old -o json").code(0);
    assert_eq!(ran.action("m1", "ConfigMap", "b")["action"], "delete");
    assert_ne!(label(A), before);
    assert_eq!(sandbox.running("m1"), running, "nothing restarts");
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/new"));
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/old"));
    // Once more is nothing more.
    let ran = sandbox.apply("--applyset shop/new --move-from shop/old -o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
    sandbox.run("drift", "--applyset shop/new").code(0);
}
