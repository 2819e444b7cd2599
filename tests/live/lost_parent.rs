//! The parent of an `ApplySet` that somebody deleted or edited: what it named is found again, and nothing is left behind in
//! silence.

use federate_test_apiserver::{FaultKind, InjectedFault};
use serde_json::json;

use crate::sandbox::{PARENT, Ran, Sandbox, WEB, config};

const SECRET: &str = "/api/v1/namespaces/shop/secrets/s";
const SECRET_FILE: &str =
    "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {k: v}\n";

/// Everything is applied, the Secret, which is the last of its kind, leaves git, and the parent is gone.
fn lost(sandbox: Sandbox) -> Sandbox {
    let sandbox = sandbox.file("a.yaml", &config("a", "1")).file("s.yaml", SECRET_FILE);
    sandbox.apply("").code(0);
    sandbox.remove("s.yaml");
    sandbox.delete("m1", PARENT);
    sandbox
}

fn kinds(sandbox: &Sandbox) -> Vec<String> {
    let parent = sandbox.get("m1", PARENT);
    let kinds = &parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"];
    kinds.as_str().unwrap().split(',').map(str::to_owned).collect()
}

#[track_caller]
fn says_gone(ran: &Ran) {
    let text =
        "is gone, so that every kind of the cluster was searched for members: also found were Secret shop/s";
    assert!(ran.err.contains(text), "{ran:#?}");
}

#[test]
fn a_parent_that_was_deleted_is_missed_and_what_it_named_is_found() {
    let sandbox = lost(Sandbox::anywhere(&["m1"]));
    let ran = sandbox.run("drift", "-o json").code(1);
    says_gone(&ran);
    assert!(ran.err.contains("`federate apply` writes the parent again"), "{ran:#?}");
    assert_eq!(ran.action("m1", "Secret", "s")["action"], "delete");
    let ran = sandbox.apply("--dry-run=server -o json").code(0);
    says_gone(&ran);
    assert_eq!(ran.action("m1", "Secret", "s")["action"], "delete");
    assert!(sandbox.has("m1", SECRET) && !sandbox.has("m1", PARENT));

    let ran = sandbox.apply("-o json").code(0);
    says_gone(&ran);
    assert!(ran.err.contains("the parent is written again"), "{ran:#?}");
    assert_eq!(ran.action("m1", "Secret", "s")["action"], "delete");
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
    assert!(!sandbox.has("m1", SECRET) && sandbox.has("m1", WEB));
    assert_eq!(kinds(&sandbox), ["ConfigMap", "Deployment.apps", "Namespace"]);
    let ran = sandbox.apply("").code(0);
    assert!(!ran.err.contains("is gone"), "{ran:#?}");
    sandbox.run("drift", "").code(0);
}

#[test]
fn a_parent_is_missed_also_where_nothing_else_has_changed() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("s.yaml", SECRET_FILE);
    // The first apply has no parent, and misses none.
    let ran = sandbox.apply("").code(0);
    assert!(!ran.err.contains("is gone"), "{ran:#?}");
    sandbox.delete("m1", PARENT);
    for (command, arguments) in [("drift", ""), ("apply", "--dry-run=client"), ("apply", "")] {
        let ran = sandbox.run(command, arguments).code(0);
        assert!(ran.err.contains("is gone, so that every kind"), "{command}: {ran:#?}");
        assert!(ran.err.contains("no further members were found"), "{command}: {ran:#?}");
    }
    assert_eq!(kinds(&sandbox), ["Deployment.apps", "Namespace", "Secret"]);
}

#[test]
fn a_parent_that_was_edited_names_all_kinds_again() {
    let sandbox = lost(Sandbox::anywhere(&["m1"]));
    // Somebody has made another one in its place, which names too little.
    let id = "applyset.kubernetes.io/id";
    let label = sandbox.get("m1", WEB)["metadata"]["labels"]["applyset.kubernetes.io/part-of"].clone();
    let path = sandbox.own(PARENT);
    let name = path.rsplit('/').next().unwrap();
    let annotations = json!({"applyset.kubernetes.io/contains-group-kinds": "ConfigMap"});
    let metadata =
        json!({"name": name, "namespace": "default", "labels": {id: label}, "annotations": annotations});
    let parent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    sandbox.create("m1", "/api/v1/namespaces/default/configmaps", "kubectl-create", &parent);
    let ran = sandbox.apply("").code(0);
    assert!(ran.err.contains("does not name the kinds of all members"), "{ran:#?}");
    assert!(!sandbox.has("m1", SECRET));
    assert_eq!(kinds(&sandbox), ["ConfigMap", "Deployment.apps", "Namespace"]);
}

#[test]
fn what_cannot_be_listed_is_named_stays_and_is_looked_at_again() {
    // A list of all namespaces that is forbidden is tried in a namespace.
    for (code, times) in [(403, 2), (400, 1)] {
        let sandbox = lost(Sandbox::simulated(&["m1"]));
        let fault = InjectedFault::new("list", FaultKind::Status(code)).on_path("secrets").with_times(times);
        sandbox.fleet.lock_cluster("m1").add_fault(fault);
        let ran = sandbox.apply("").code(0);
        assert!(ran.err.contains("Secret could not be listed ("), "{code}: {ran:#?}");
        assert!(ran.err.contains("and members of these kinds stay"), "{code}: {ran:#?}");
        assert!(sandbox.has("m1", SECRET));
        // The parent names the kind, so that it is listed when that works.
        assert_eq!(kinds(&sandbox), ["ConfigMap", "Deployment.apps", "Namespace", "Secret"]);
        sandbox.apply("").code(0);
        assert!(!sandbox.has("m1", SECRET));
    }
}

#[test]
fn a_sync_finds_what_a_lost_parent_named() {
    for drift in ["report", "correct"] {
        let sandbox =
            Sandbox::anywhere(&["m1"]).file("a.yaml", &config("a", "1")).file("s.yaml", SECRET_FILE);
        sandbox
            .write_sync("1s", &format!("  retryInterval: 10ms\n  apply: {{}}\n  drift: {{mode: {drift}}}\n"));
        let once = || sandbox.ran(&mut sandbox.sync("--once"));
        once().code(0);
        let parent = sandbox.applyset().map_or_else(
            || "/api/v1/namespaces/default/configmaps/federate.default.web".to_owned(),
            |_| PARENT.to_owned(),
        );
        sandbox.delete("m1", &parent);
        let ran = once().code(0);
        assert!(ran.err.contains("is gone, so that every kind"), "{drift}: {ran:#?}");
        if sandbox.has("m1", &parent) {
            sandbox.delete("m1", &parent);
        }
        sandbox.remove("s.yaml");
        let ran = once().code(0);
        assert!(ran.err.contains("is gone, so that every kind"), "{drift}: {ran:#?}");
        assert!(!sandbox.has("m1", SECRET), "{drift}");
        assert!(sandbox.has("m1", &parent), "{drift}");
    }
}

#[test]
fn a_sync_finds_what_a_lost_parent_named_although_nothing_of_a_kind_is_left() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("s.yaml", SECRET_FILE);
    sandbox.create_namespace("m1");
    sandbox.remove("namespace.yaml");
    sandbox.remove("web.yaml");
    sandbox.write_sync("1s", "  apply: {pruneLimit: 100}\n");
    if let Some(set) = sandbox.applyset() {
        sandbox.write_sync("1s", &format!("  apply: {{pruneLimit: 100, applySet: {set}}}\n"));
    }
    let once = || sandbox.ran(&mut sandbox.sync("--once"));
    once().code(0);
    let path =
        if sandbox.is_real() { PARENT } else { "/api/v1/namespaces/default/configmaps/federate.default.web" };
    sandbox.delete("m1", path);
    sandbox.remove("s.yaml");
    sandbox.write("a.yaml", &config("a", "1"));
    let ran = once().code(0);
    assert!(ran.err.contains("is gone, so that every kind"), "{ran:#?}");
    assert!(!sandbox.has("m1", SECRET), "{ran:#?}");
}
