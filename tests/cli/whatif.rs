//! `federate whatif` with each control plane.

use serde_json::json;

use crate::sandbox::{CLUSTERS, Sandbox};

/// Clusters of `KubeAdmiral`, 20 CPUs each, joined and ready.
fn kubeadmiral() -> Sandbox {
    let cluster = |name: &str, region: &str| {
        let status = json!({
            "conditions": [{"type": "Joined", "status": "True"}, {"type": "Ready", "status": "True"}],
            "apiResourceTypes":
                [{"group": "apps", "version": "v1", "kind": "Deployment", "pluralName": "deployments", "scope": "Namespaced"}],
            "resources": {"allocatable": {"cpu": "20"}, "available": {"cpu": "10"}},
        });
        json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "FederatedCluster",
            "metadata": {"name": name, "labels": {"region": region}}, "status": status})
    };
    let list = json!({"apiVersion": "v1", "kind": "List",
        "items": [cluster("m1", "eu"), cluster("m2", "eu"), cluster("m3", "us")]});
    let policy = json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"schedulingMode": "Divide",
        "reschedulePolicy": {"rescheduleWhen": {"clusterJoined": true}}}});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web",
        "namespace": "shop", "labels": {"kubeadmiral.io/propagation-policy-name": "web"}},
        "spec": {"replicas": 6, "template": {"spec": {"containers": [{"name": "web", "image": "web"}]}}}});
    Sandbox::new()
        .file("clusters.json", list.to_string())
        .file("policy.json", policy.to_string())
        .file("web.json", web.to_string())
}

#[test]
fn a_lost_cluster_loses_its_replicas_where_nothing_is_evicted() {
    let ran = kubeadmiral().run("whatif --lose m1").code(1);
    let text = "lose m1: no placement changes; what runs there is not moved

Replicas
OBJECT               LOST  REGAINED  LEFT
Deployment shop/web     3         0     3

3 replicas lost, 0 regained, 3 missing
";
    assert_eq!(ran.out, text);
    let json = Sandbox::web().run("whatif --lose m1 -o json").code(1).json();
    assert_eq!(json["replicas"], json!({"lost": 2, "regained": 0, "missing": 2}));
    assert_eq!((&json["kind"], &json["scenario"]), (&json!("WhatIf"), &json!(["lose m1"])));
}

#[test]
fn a_cluster_that_leaves_or_may_run_nothing_is_replaced() {
    let repo = kubeadmiral();
    for scenario in ["--remove m1", "--taint m1=maintenance:NoExecute"] {
        let json = repo.run(&format!("whatif {scenario} -o json")).code(1).json();
        assert_eq!(json["replicas"], json!({"lost": 3, "regained": 3, "missing": 0}), "{scenario}");
        assert_eq!(json["losses"][0]["left"], 6);
    }
    let ran = repo.run("whatif --remove region=eu").code(1);
    for words in
        ["- m1, m2", "~ Deployment shop/web moved, 6 replicas", "5 replicas lost, 5 regained, 0 missing"]
    {
        assert!(ran.out.contains(words), "`{words}` is not in\n{}", ran.out);
    }
}

#[test]
fn workloads_are_scaled_clusters_join_and_resize() {
    let repo = kubeadmiral();
    let scaled = repo.run("whatif --scale deployment/shop/web=+50% -o json").code(1).json();
    assert_eq!(scaled["placements"][0]["replicas"], json!({"from": 6, "to": 9}));
    let mut new = repo.read("clusters.json");
    for name in ["1", "2", "3"] {
        new = new.replace(&format!("\"m{name}\""), &format!("\"n{name}\""));
    }
    repo.write(".more/clusters.json", new);
    let added = repo.run("whatif --add .more/clusters.json -o json").code(1).json();
    assert_eq!(added["clusters"]["added"], json!(["n1", "n2", "n3"]));
    assert_eq!(
        repo.run("whatif --label m1=tier=gold").code(0).out,
        "label m1=tier=gold: no placement changes\n"
    );
    let resized = repo.run("whatif --capacity m1=10% --scale deployment/shop/web=60 -o json").code(1).json();
    assert_eq!(resized["placements"][0]["replicas"], json!({"from": 6, "to": 60}));
}

#[test]
fn each_cluster_is_lost_in_turn_the_worst_first() {
    let repo = kubeadmiral();
    let pinned = json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "pinned", "namespace": "shop"},
        "spec": {"schedulingMode": "Duplicate", "placement": [{"cluster": "m3"}]}});
    repo.write("pinned.json", pinned.to_string());
    let web = repo.read("web.json").replace("\"web\"", "\"pinned\"");
    repo.write("pinned-web.json", web);
    let table = "CLUSTER  MOVED  LOST  REGAINED  MISSING  RUNS NOWHERE
m3           0     7         0        7  Deployment shop/pinned
m1           0     3         0        3
m2           0     2         0        2

0 of 3 clusters can be lost without missing replicas or objects that run nowhere
";
    assert_eq!(repo.run("whatif --each cluster").code(1).out, table);
    let json = repo.run("whatif --each region -o json").code(1).json();
    assert_eq!((&json["each"], &json["rows"][0]["lose"]), (&json!("region"), &json!("us")));
    assert_eq!(json["rows"][1]["clusters"], json!(["m1", "m2"]));
}

#[test]
fn what_is_not_there_is_an_error() {
    let repo = Sandbox::web();
    for (scenario, words) in [
        (
            "",
            "the scenario is empty: name at least one event, such as `--lose CLUSTER`, or use `--each cluster`",
        ),
        ("--lose m9", "no cluster `m9` in the inventory (there are: m1, m2)"),
        ("--scale deployment/shop/db=3", "the repo has no template `deployment/shop/db`"),
        ("--capacity m1=50%", "cluster `m1` cannot be resized: its capacity is unknown"),
        ("--taint m1=gpu", "`m1=gpu` is not CLUSTER=KEY[=VALUE]:EFFECT"),
        ("--add web.yaml", "web.yaml contains no inventory object"),
        ("--add clusters.yaml", "the inventory already has a cluster `m1`"),
    ] {
        let ran = repo.run(&format!("whatif {scenario}")).code(2);
        assert!(ran.err.contains(words), "`{words}` is not in\n{}", ran.err);
    }
    repo.write(
        "clusters.yaml",
        CLUSTERS.to_owned()
            + "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m1}\n",
    );
    repo.run("whatif --lose m1").code(2);
}
