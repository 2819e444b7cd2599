//! The guard of a Sync counts what clusters have, and not what was planned for them.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, config};

fn once(sandbox: &Sandbox) -> Ran {
    sandbox.ran(&mut sandbox.sync("--once"))
}

fn status(sandbox: &Sandbox) -> Value {
    let text = fs::read_to_string(sandbox.path("state/default/web/status.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["status"].clone()
}

/// `ConfigMap`s of these names in one file.
fn write_configs(sandbox: &Sandbox, names: &[&str]) {
    let all: Vec<String> = names.iter().map(|name| config(name, "1")).collect();
    sandbox.write("configs.yaml", &all.join("---\n"));
}

/// A Sync that retries soon.
fn write_sync(sandbox: &Sandbox) {
    sandbox.write_sync("1m", "  retryInterval: 10ms\n  apply: {}\n");
}

#[test]
fn what_a_server_has_refused_does_not_count_as_deleted_when_it_is_corrected() {
    // More than a few objects, most of which have never existed.
    let sandbox = Sandbox::anywhere(&["m1"]);
    let bad = ["Bad_1", "Bad_2", "Bad_3", "Bad_4", "Bad_5"];
    write_configs(&sandbox, &[&["good"][..], &bad].concat());
    write_sync(&sandbox);
    let ran = once(&sandbox).code(2);
    assert!(ran.out.contains("ReconciliationFailed: m1: "), "{ran:#?}");
    write_configs(&sandbox, &["good", "good-1", "good-2", "good-3", "good-4", "good-5"]);
    let ran = once(&sandbox).code(0);
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/good-5"), "{ran:#?}");
}

#[test]
fn what_clusters_have_counts_as_before() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    write_configs(&sandbox, &["a", "b", "c", "d", "e", "f"]);
    write_sync(&sandbox);
    once(&sandbox).code(0);
    write_configs(&sandbox, &["a", "b"]);
    let ran = once(&sandbox).code(2);
    assert!(ran.out.contains("PruneFailed: 4 of the 8 objects would go, and more than 30 %"), "{ran:#?}");
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/f"));
    // What somebody has deleted already does not go once more.
    for name in ["c", "d", "e"] {
        sandbox.delete("m1", &format!("/api/v1/namespaces/shop/configmaps/{name}"));
    }
    once(&sandbox).code(0);
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/f"));
}

#[test]
fn a_cluster_that_cannot_be_read_counts_with_what_was_planned_for_it() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    write_configs(&sandbox, &["a", "b", "c", "d", "e", "f"]);
    write_sync(&sandbox);
    once(&sandbox).code(0);
    write_configs(&sandbox, &["a", "b"]);
    sandbox.kubeconfig(|config| {
        for cluster in config["clusters"].as_array_mut().unwrap() {
            cluster["cluster"]["server"] = json!("https://127.0.0.1:1");
        }
    });
    let ran = once(&sandbox).code(2);
    assert!(ran.out.contains("PruneFailed: 8 of the 16 objects would go"), "{ran:#?}");
}

#[test]
fn one_of_a_few_objects_may_go_and_not_all() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    write_configs(&sandbox, &["a", "b"]);
    write_sync(&sandbox);
    once(&sandbox).code(0);
    write_configs(&sandbox, &["a"]);
    once(&sandbox).code(0);
    for cluster in ["m1", "m2"] {
        assert!(!sandbox.has(cluster, "/api/v1/namespaces/shop/configmaps/b"));
    }
    sandbox.remove("configs.yaml");
    sandbox.remove("web.yaml");
    sandbox.remove("namespace.yaml");
    let ran = once(&sandbox).code(2);
    assert!(ran.out.contains("PruneFailed: nothing is rendered any more"), "{ran:#?}");
}

#[test]
fn a_cluster_that_leaves_keeps_its_objects_and_stalls_nothing() {
    let clusters = ["m1", "m2", "m3"];
    let sandbox = Sandbox::anywhere(&clusters);
    let names: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
    write_configs(&sandbox, &names.iter().map(String::as_str).collect::<Vec<_>>());
    write_sync(&sandbox);
    once(&sandbox).code(0);
    let inventory = sandbox.read_file("clusters.yaml");
    let left: Vec<&str> = inventory.split("---\n").filter(|one| !one.contains("name: m3")).collect();
    sandbox.write("clusters.yaml", &left.join("---\n"));
    let ran = once(&sandbox).code(0);
    assert!(!ran.out.contains("PruneFailed"), "{ran:#?}");
    assert_eq!(status(&sandbox)["orphans"]["clusters"], json!(["m3"]));
    assert!(sandbox.has("m3", "/api/v1/namespaces/shop/configmaps/c0"));
    // With `pruneClusters`, they would go.
    sandbox.write("clusters.yaml", &inventory);
    once(&sandbox).code(0);
    let set = sandbox.applyset().map(|set| format!(", applySet: {set}")).unwrap_or_default();
    sandbox.write_sync("1m", &format!("  apply: {{pruneClusters: true{set}}}\n"));
    once(&sandbox).code(0);
    sandbox.write("clusters.yaml", &left.join("---\n"));
    let ran = once(&sandbox).code(2);
    assert!(ran.out.contains("cluster m3 would lose everything"), "{ran:#?}");
    assert!(sandbox.has("m3", "/api/v1/namespaces/shop/configmaps/c0"));
}
