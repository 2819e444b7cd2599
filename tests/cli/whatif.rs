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
        "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}}});
    Sandbox::new()
        .file("clusters.json", list.to_string())
        .file("policy.json", policy.to_string())
        .file("web.json", web.to_string())
}

#[test]
fn a_lost_cluster_loses_its_replicas_where_nothing_is_evicted() {
    let ran = kubeadmiral().run("whatif --lose m1").code(1);
    let text = "lose m1: nothing moves, and 3 replicas are lost
Nothing moves because the schedulers keep what they have placed: with `--remove` in place of `--lose`, 1 object moves.

Timeline
  t+0s     m1 is lost
           3 replicas lost
  t+130s   m1: Offline is True, Ready is Unknown
           nothing moves: the schedulers keep what they have placed

Replicas
OBJECT               LOST  REGAINED  LEFT
Deployment shop/web     3         0     3

Free after that
CLUSTER  LEAST FREE      FREE
m2              cpu  10 of 20  50 %
m3              cpu  10 of 20  50 %

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
    // A cluster that is lost and removed is lost once, and nothing happens to it after it has left.
    let ran = repo.run("whatif --lose m1 --remove m1").code(1);
    let timeline = "
  t+0s     m1 is lost
           m1 is being removed
           3 replicas lost
  t+0s     m1 has left
           1 object moved, 3 replicas regained

Replicas
";
    assert!(ran.out.contains(timeline), "{}", ran.out);
    let ran = repo.run("whatif --remove region=eu").code(1);
    for words in
        ["- m1, m2", "~ Deployment shop/web moved, 5 of 6 replicas", "5 replicas lost, 5 regained, 0 missing"]
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
        "label m1=tier=gold: nothing changes\nNothing moves because no policy decides otherwise: `federate explain KIND/NAME` shows which clusters a policy can \
         choose.\n\nTimeline\n  t+0s     m1 gets the label tier=gold\n           nothing moves: no policy decides otherwise\n\n\
         Free after that\nCLUSTER  LEAST FREE      FREE\nm1              cpu  10 of 20  50 %\nm2              cpu  10 of 20  50 %\nm3              cpu  10 of 20  50 %\n"
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
    let table = "CLUSTER  MOVED  LOST  REGAINED  MISSING   LEAST FREE  RUNS NOWHERE
m3           0     7         0        7  m1 cpu 50 %  Deployment shop/pinned
m1           0     3         0        3  m2 cpu 50 %
m2           0     2         0        2  m1 cpu 50 %

Nothing moves because the schedulers keep what they have placed: with `--remove` in place of `--lose`, 2 objects move.

0 of 3 clusters can be lost without missing replicas or objects that run nowhere
";
    assert_eq!(repo.run("whatif --each cluster").code(1).out, table);
    let json = repo.run("whatif --each region -o json").code(1).json();
    assert_eq!((&json["each"], &json["rows"][0]["lose"]), (&json!("region"), &json!("us")));
    assert_eq!(json["rows"][1]["clusters"], json!(["m1", "m2"]));
    let pairs = repo.run("whatif --each cluster --pairs -o json").code(1).json();
    let lost: Vec<&serde_json::Value> =
        pairs["rows"].as_array().unwrap().iter().map(|row| &row["lose"]).collect();
    assert_eq!(lost, [&json!("m1, m3"), &json!("m2, m3"), &json!("m1, m2")]);
}

/// Two clusters of Karmada with a workload that is divided.
fn karmada(policy: &str) -> Sandbox {
    let repo = Sandbox::web();
    repo.write(
        "policy.yaml",
        crate::sandbox::POLICY.replace("placement:\n", &format!("placement:\n{policy}")),
    );
    repo
}

#[test]
fn karmada_moves_what_a_removed_cluster_ran() {
    let json = karmada("").run("whatif --remove m1 -o json").code(1).json();
    assert_eq!(json["replicas"], json!({"lost": 2, "regained": 2, "missing": 0}));
    let events: Vec<&serde_json::Value> =
        json["timeline"].as_array().unwrap().iter().flat_map(|s| s["events"].as_array().unwrap()).collect();
    assert_eq!(events, [&json!("m1 is being removed"), &json!("m1 has left")]);
    let text = "today → remove m1: 1 object moved; 1 cluster leaves

Clusters
  - m1

Placement changes
  ~ Deployment shop/web moved, 2 of 4 replicas
      2 → –            m1
      2 → 4            m2
      by PropagationPolicy shop/web

Timeline
  t+0s     m1 is being removed
           1 object moved, 2 replicas lost, 2 replicas regained
  t+0s     m1 has left
           nothing more moves

Replicas
OBJECT               LOST  REGAINED  LEFT
Deployment shop/web     2         2     4

2 replicas lost, 2 regained, 0 missing
";
    assert_eq!(karmada("").run("whatif --remove m1").code(1).out, text);
}

#[test]
fn karmada_evicts_only_with_failover_and_after_what_is_tolerated() {
    let tolerates =
        "    clusterTolerations: [{key: down, operator: Exists, effect: NoExecute, tolerationSeconds: 90}]\n";
    let repo = karmada(tolerates);
    let off = repo.run("whatif --taint m1=down:NoExecute -o json").code(0).json();
    assert_eq!(off["replicas"]["lost"], 0);
    let on = repo.run("whatif --taint m1=down:NoExecute --gates Failover=true -o json").code(1).json();
    assert_eq!(on["replicas"], json!({"lost": 2, "regained": 2, "missing": 0}));
    let moved: Vec<(i64, i64)> = (on["timeline"].as_array().unwrap().iter())
        .map(|stage| (stage["seconds"].as_i64().unwrap(), stage["moved"].as_i64().unwrap()))
        .collect();
    assert_eq!(moved, [(0, 0), (90, 1), (91, 0)]);
    let lost = repo.run("whatif --lose m1 --gates Failover=true").code(1);
    assert!(
        lost.out.contains("  t+30s    m1: Ready is False, taint cluster.karmada.io/not-ready:NoSchedule\n"),
        "{}",
        lost.out
    );
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {name: down}\nspec:\n  \
                  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ['True']}]\n  \
                  taints: [{key: down, effect: NoExecute}]\n";
    repo.write("taints.yaml", policy);
    let lost = repo.run("whatif --lose m1 --gates Failover=true").code(1);
    for line in [
        "taint down:NoExecute",
        "  t+2m     1 placement is evicted",
        "2 replicas lost, 2 regained, 0 missing",
    ] {
        assert!(lost.out.contains(line), "`{line}` is not in\n{}", lost.out);
    }
}

/// Two policies that differ only in how copies are purged.
#[test]
fn karmada_purges_evicted_copies_as_the_policy_says() {
    let events = |mode: &str| {
        let policy = format!("  failover: {{cluster: {{purgeMode: {mode}}}}}\n");
        let repo = Sandbox::web().file("policy.yaml", format!("{}{policy}", crate::sandbox::POLICY));
        repo.run("whatif --taint m1=down:NoExecute --gates Failover=true").code(1).out
    };
    let (directly, gracefully) = (events("Directly"), events("Gracefully"));
    assert!(directly.contains("1 copy is removed at once"), "{directly}");
    assert!(!gracefully.contains("removed at once"), "{gracefully}");
    assert!(gracefully.contains("1 placement is evicted") && directly.contains("1 placement is evicted"));
}

#[test]
fn kubeadmiral_migrates_replicas_that_stay_unschedulable() {
    let repo = kubeadmiral();
    let policy = repo.read("policy.json").replace(
        "\"schedulingMode\"",
        "\"autoMigration\":{\"when\":{\"podUnschedulableFor\":\"2m\"}},\"placement\":[{\"cluster\":\"m1\",\"preferences\":\
         {\"weight\":1}},{\"cluster\":\"m2\",\"preferences\":{\"weight\":1}},{\"cluster\":\"m3\",\"preferences\":\
         {\"weight\":1}}],\"schedulingMode\"",
    );
    repo.write("policy.json", policy);
    let web = repo
        .read("web.json")
        .replace("\"replicas\":6", "\"replicas\":12")
        .replace("\"image\":\"web\"", "\"image\":\"web\",\"resources\":{\"requests\":{\"cpu\":\"1\"}}");
    repo.write("web.json", web);
    let text = "today → capacity m2=55%, remove m1: 1 object moved; 1 cluster leaves

Clusters
  - m1

Placement changes
  ~ Deployment shop/web moved, 4 of 12 replicas
      4 → –            m1
      4 → 5            m2
      4 → 7            m3
      by PropagationPolicy shop/web

Timeline
  t+0s     m2 is resized
           m1 is being removed
           nothing moves yet
  t+0s     m1 has left
           m2: 1 replica does not fit
           1 object moved, 4 replicas lost, 4 replicas regained
  t+2m     m2: 1 replica is still unschedulable, and is scheduled again
           1 object moved, 1 replica lost, 1 replica regained

Replicas
OBJECT               LOST  REGAINED  LEFT
Deployment shop/web     4         4    12

Free after that
CLUSTER  LEAST FREE     FREE
m2              cpu  0 of 11   0 %
m3              cpu  7 of 20  35 %

4 replicas lost, 4 regained, 0 missing
";
    assert_eq!(repo.run("whatif --remove m1 --capacity m2=55%").code(1).out, text);
    // Without `avoidDisruption`, the replica is also kept where it does not fit.
    let policy = repo.read("policy.json").replace(
        "\"rescheduleWhen\"",
        "\"replicaRescheduling\":{\"avoidDisruption\":false},\"rescheduleWhen\"",
    );
    repo.write("policy.json", policy);
    let kept = repo.run("whatif --remove m1 --capacity m2=55%").code(1).out;
    assert!(kept.contains("      4 → 6            m2\n      4 → 7            m3\n"), "{kept}");
}

#[test]
fn kubefleet_replaces_members_as_fast_as_the_rollout_permits() {
    let member = |name: &str| json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": name}});
    let placement = json!({"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"}, "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickN", "numberOfClusters": 4},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}});
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}}});
    let members = ["m1", "m2", "m3", "m4", "m5", "m6"].map(member).to_vec();
    let items: Vec<serde_json::Value> = members.into_iter().chain([placement, shop, web]).collect();
    let repo = Sandbox::new();
    repo.write("all.json", json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    let text = "today → remove m3, remove m4: 3 objects moved; 2 clusters leave

Clusters
  - m3, m4

Placement changes
  ~ Deployment shop/web moved, 6 of 12 replicas
      – → 3            m1, m2
      3 → –            m3, m4
      by ClusterResourcePlacement web
  ~ ClusterResourcePlacement web, Namespace shop moved
      – → placed       m1, m2
      placed → –       m3, m4
      by ClusterResourcePlacement web

Timeline
  t+0s     m3 is being removed
           m4 is being removed
           nothing moves yet
  t+0s     m3 has left
           m4 has left
           1 placement waits for its rollout
           3 objects moved, 6 replicas lost, 3 replicas regained
  t+60s    1 placement is rolled out
           3 objects moved, 3 replicas regained

Replicas
OBJECT               LOST  REGAINED  LEFT
Deployment shop/web     6         6    12

6 replicas lost, 6 regained, 0 missing
";
    assert_eq!(repo.run("whatif --remove m3 --remove m4").code(1).out, text);
    // Nothing is scheduled again before the member that does not answer is gone.
    let text = "today → lose m3, remove m3: 3 objects moved; 1 cluster leaves

Clusters
  - m3

Placement changes
  ~ Deployment shop/web moved, 3 of 12 replicas
      – → 3            m2
      3 → –            m3
      by ClusterResourcePlacement web
  ~ ClusterResourcePlacement web, Namespace shop moved
      – → placed       m2
      placed → –       m3
      by ClusterResourcePlacement web

Timeline
  t+0s     m3 is lost
           m3 is being removed
           3 replicas lost
  t+5m     m3: no heartbeat for 5 minutes, nothing new is placed there
           nothing moves yet
  t+15m    m3 has left
           3 objects moved, 3 replicas regained

Replicas
OBJECT               LOST  REGAINED  LEFT
Deployment shop/web     3         3    12

3 replicas lost, 3 regained, 0 missing
";
    assert_eq!(repo.run("whatif --lose m3 --remove m3").code(1).out, text);
    // A limit that permits nothing is waited for until the end, and so is an update run.
    let limited = repo.read("all.json");
    for strategy in [
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
        json!({"type": "External"}),
    ] {
        let former = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
        let text = limited.replace(&former.to_string(), &strategy.to_string());
        assert_ne!(text, limited);
        repo.write("all.json", text);
        let text = repo.run("whatif --remove m3 --remove m4").code(1).out;
        assert!(text.contains("2 placements wait for their rollout"), "{text}");
        assert!(!text.contains("rolled out"), "{text}");
    }
}

#[test]
fn sets_of_works_reach_new_clusters_as_fast_as_their_strategy_permits() {
    let group = "open-cluster-management.io";
    let metadata = json!({"name": "web", "namespace": "shop"});
    let member = |name: &str| json!({"apiVersion": format!("cluster.{group}/v1"), "kind": "ManagedCluster", "metadata": {"name": name}});
    let binding = json!({"apiVersion": format!("cluster.{group}/v1beta2"), "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "global", "namespace": "shop"}, "spec": {"clusterSet": "global"}});
    let placement = json!({"apiVersion": format!("cluster.{group}/v1beta1"), "kind": "Placement", "metadata": metadata,
        "spec": {"numberOfClusters": 2}});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}}}});
    let strategy =
        json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "minSuccessTime": "5m"}});
    let works = json!({"apiVersion": format!("work.{group}/v1alpha1"), "kind": "ManifestWorkReplicaSet", "metadata": metadata,
        "spec": {"placementRefs": [{"name": "web", "rolloutStrategy": strategy}],
            "manifestWorkTemplate": {"workload": {"manifests": [web]}}}});
    let members = ["m1", "m2", "m3", "m4"].map(member).to_vec();
    let items: Vec<serde_json::Value> = members.into_iter().chain([binding, placement, works]).collect();
    let repo = Sandbox::new();
    repo.write("all.json", json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    let out = repo.run("whatif --remove m1 --remove m2").code(1).out;
    assert!(out.contains("           1 placement waits for its rollout\n"), "{out}");
    assert!(
        out.contains(
            "  t+5m     1 placement is rolled out\n           1 object moved, 3 replicas regained\n"
        ),
        "{out}"
    );
    // Without a time that a success must last, and without a limit, nothing waits.
    for (from, to) in [("5m", "0s"), ("Progressive", "All")] {
        repo.write("all.json", repo.read("all.json").replace(from, to));
        let out = repo.run("whatif --remove m1 --remove m2").code(1).out;
        assert!(!out.contains("rollout") && !out.contains("t+5m"), "{out}");
    }
}

#[test]
fn the_scenarios_of_a_repo_are_checked() {
    let repo = kubeadmiral();
    let scenario = |at_least: &str| {
        format!(
            "apiVersion: federate.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: any}}\nspec:\n  each: cluster\n  \
             expect: [{{kind: Deployment, atLeast: {at_least}}}]\n"
        )
    };
    repo.write("scenario.yaml", scenario("50%"));
    assert!(!repo.run("check").out.contains("scenario"));
    assert_eq!(repo.run("whatif --scenario scenario.yaml").code(0).out, "✓ any\n");
    repo.write("scenario.yaml", scenario("70%"));
    let words = "without m1, Deployment shop/web keeps 3 of 6 replicas, and 70 % are expected";
    let checked = repo.run("check").code(1);
    assert!(
        checked.out.contains(&format!("warning[expectation-failed]: scenario any: {words}")),
        "{}",
        checked.out
    );
    let ran = repo.run("whatif --scenario scenario.yaml -o json").code(1).json();
    assert_eq!(ran["results"][0]["violations"][0], words);
    repo.write("scenario.yaml", scenario("most"));
    let wrong = repo.run("check").code(2);
    assert!(wrong.out.contains("error[invalid-scenario]"), "{}", wrong.out);
}

#[test]
fn a_scenario_does_not_hold_for_what_runs_nowhere_before() {
    let repo = kubeadmiral();
    let policy = repo
        .read("policy.json")
        .replace("\"schedulingMode\"", "\"clusterSelector\":{\"region\":\"asia\"},\"schedulingMode\"");
    repo.write("policy.json", policy);
    let scenario = "apiVersion: federate.dev/v1alpha1
kind: Scenario
metadata: {name: any}
spec:
  each: cluster
  expect: [{kind: Deployment, atLeast: 50%}]
";
    repo.write("scenario.yaml", scenario);
    let ran = repo.run("whatif --scenario scenario.yaml").code(1).out;
    assert_eq!(ran, "✗ any\n    Deployment shop/web runs nowhere, even before the scenario\n");
}

#[test]
fn losses_can_be_errors_and_comments() {
    let repo = kubeadmiral();
    repo.run("whatif --lose m1 --fail-on lost-replicas").code(2);
    repo.run("whatif --remove m1 --fail-on lost-replicas,unschedulable").code(1);
    let markdown = repo.run("whatif --lose m1 -o markdown").code(1).out;
    assert!(
        markdown.starts_with("**What if: lose m1**\n\n3 replicas lost, 0 regained, 3 missing\n\n```text\n")
    );
    let wrong = repo.run("whatif --lose m1 --gates Other=true").code(2);
    assert!(wrong.err.contains("the only gate that scenarios know is Failover"), "{}", wrong.err);
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

/// Clusters of Karmada; `m1` is not ready.
const ONE_NOT_READY: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
spec: {region: eu}
status:
  apiEnablements: [{groupVersion: apps/v1, resources: [{kind: Deployment, name: deployments}]}]
  conditions: [{type: Ready, status: 'False', reason: ClusterNotReachable, lastTransitionTime: '2026-11-01T00:00:00Z'}]
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
spec: {region: us}
";

#[test]
fn what_runs_nowhere_comes_first_and_is_never_cut() {
    let repo = Sandbox::new().file("federate.yaml", "clusters: [{name: eu-1}, {name: us-1}]\n");
    let policy = |name: &str, kind: &str, cluster: &str| {
        format!(
            "---\napiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment{kind}}}]\n  placement: {{clusterAffinity: {{{cluster}}}}}\n"
        )
    };
    let policies = policy("all", "", "") + &policy("zz", ", name: zz-critical", "clusterNames: [eu-1]");
    repo.write("policy.yaml", policies);
    let names = (1..=25).map(|number| format!("app{number}")).chain(["zz-critical".to_owned()]);
    for name in names {
        repo.write(
            &format!("{name}.yaml"),
            crate::sandbox::WEB.replace("name: web\n", &format!("name: {name}\n")),
        );
    }
    let table = repo.run("whatif --lose eu-1").code(1).out;
    assert!(table.starts_with("Runs nowhere\nOBJECT"), "{table}");
    assert!(table.lines().nth(2).unwrap().starts_with("Deployment shop/zz-critical"), "{table}");
    let markdown = repo.run("whatif --lose eu-1 -o markdown").code(1).out;
    assert!(
        markdown.contains("```text\nRuns nowhere\n") && markdown.contains("shop/zz-critical"),
        "{markdown}"
    );
    let json = repo.run("whatif --lose eu-1 -o json").code(1).json();
    assert_eq!(json["losses"][0]["object"]["name"], "zz-critical");
    let pairs = repo.run("whatif --each cluster --pairs").code(1).out;
    assert!(pairs.starts_with("Runs nowhere\nOBJECT") && pairs.contains("(eu-1, us-1)"), "{pairs}");
}

#[test]
fn a_comment_is_cut_where_it_matters_least() {
    let repo = Sandbox::new()
        .file("federate.yaml", "clusters: [{name: eu-1}, {name: us-1}]\nunplaced: everywhere\n");
    for number in 0..1500 {
        let name = format!("app-{number:04}-{}", "x".repeat(40));
        repo.write(
            &format!("{name}.yaml"),
            crate::sandbox::WEB.replace("name: web\n", &format!("name: {name}\n")),
        );
    }
    let markdown = repo.run("whatif --lose eu-1 -o markdown").code(1).out;
    assert!(markdown.chars().count() <= 65_536, "{}", markdown.chars().count());
    assert!(markdown.contains("cut to fit a comment") && markdown.ends_with("```\n"), "no cut is said");
    assert!(markdown.contains("\nTimeline\n") || markdown.contains("replicas lost"), "the sums are cut");
}

#[test]
fn nothing_moves_with_the_reason_and_what_changes_it() {
    let taints = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {name: down}\nspec:\n  \
                  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ['True']}]\n  \
                  taints: [{key: down, effect: NoExecute}]\n";
    let gate = karmada("").file("taints.yaml", taints).run("whatif --lose m1 -o json").code(1).json();
    assert_eq!((&gate["unmoved"]["reason"], &gate["unmoved"]["moved"]), (&json!("GateOff"), &json!(1)));
    assert_eq!(gate["unmoved"]["help"], "with `--gates Failover=true`, 1 object moves");
    let tolerates = "    clusterTolerations: [{key: down, operator: Exists, effect: NoExecute}]\n";
    let tolerated = karmada(tolerates);
    let tolerated = tolerated.run("whatif --taint m1=down:NoExecute --gates Failover=true").code(0).out;
    assert!(tolerated.contains("Nothing moves because the policies tolerate the taints: "), "{tolerated}");
    let kept = kubeadmiral().run("whatif --lose m1").code(1).out;
    assert!(
        kept.contains("Nothing moves because the schedulers keep what they have placed: with `--remove`"),
        "{kept}"
    );
    let empty = karmada("    clusterAffinity: {clusterNames: [m2]}\n").run("whatif --lose m1").code(0).out;
    assert!(empty.contains("Nothing moves because nothing is placed there"), "{empty}");
}

#[test]
fn all_reasons_why_nothing_moves_are_named_at_once() {
    let unmoved =
        |repo: &Sandbox, line: &str| repo.run(&format!("whatif {line} -o json")).json()["unmoved"].clone();
    let repo = karmada("");
    let both = unmoved(&repo, "--lose m1");
    assert_eq!((&both["reason"], &both["also"]), (&json!("GateOff"), &json!(["NotTainted"])), "{both}");
    assert_eq!(
        both["summary"],
        "the feature gate Failover is off and no taint evicts from the lost clusters"
    );
    let help = both["help"].as_str().unwrap();
    assert!(
        help.starts_with("with `--gates Failover=true --taint m1=outage:NoExecute`, 1 object moves"),
        "{help}"
    );
    // One of them alone changes nothing, and the other one is still named.
    let taint = unmoved(&repo, "--lose m1 --gates Failover=true");
    assert_eq!(
        (&taint["reason"], &taint["also"]),
        (&json!("NotTainted"), &serde_json::Value::Null),
        "{taint}"
    );
    let gate = unmoved(&repo, "--lose m1 --taint m1=outage:NoExecute");
    assert_eq!((&gate["reason"], &gate["also"]), (&json!("GateOff"), &serde_json::Value::Null), "{gate}");
    let advised = unmoved(&repo, "--lose m1 --gates Failover=true --taint m1=outage:NoExecute");
    assert_eq!(advised, serde_json::Value::Null);
    let all = unmoved(&karmada("    clusterTolerations: [{operator: Exists}]\n"), "--lose m1");
    assert_eq!(
        (&all["reason"], &all["also"]),
        (&json!("GateOff"), &json!(["NotTainted", "Tolerated"])),
        "{all}"
    );
}

#[test]
fn more_replicas_are_added_and_not_regained() {
    let json = kubeadmiral().run("whatif --scale deployment/shop/web=+3 -o json").code(1).json();
    assert_eq!(json["replicas"], json!({"lost": 0, "regained": 0, "missing": 0, "added": 3}));
    let text = kubeadmiral().run("whatif --scale deployment/shop/web=+3").code(1).out;
    assert!(text.ends_with("0 replicas lost, 0 regained, 0 missing, 3 added\n"), "{text}");
    assert!(!text.contains("regained\n\nReplicas"), "{text}");
}

#[test]
fn a_resized_cluster_shows_what_is_free() {
    let text = kubeadmiral().run("whatif --capacity m1=200%").code(0).out;
    assert!(
        text.contains("Free after that\nCLUSTER") && text.contains("m1              cpu  30 of 40"),
        "{text}"
    );
}

#[test]
fn replicas_in_a_cluster_that_is_not_ready_do_not_run() {
    let repo = Sandbox::web();
    repo.write("clusters.yaml", ONE_NOT_READY);
    let ran = repo.run("whatif --lose m1").code(0);
    assert!(ran.out.contains("Nothing moves because the clusters were not ready before"), "{}", ran.out);
    assert!(ran.err.contains("warning: cluster m1 is not ready since 2026-11-01T00:00:00Z"), "{}", ran.err);
    let json = repo.run("whatif --lose m2 -o json").code(1).json();
    assert_eq!((&json["losses"][0]["left"], &json["losses"][0]["nowhere"]), (&json!(0), &json!(true)));
}

#[test]
fn an_expectation_about_nothing_is_an_error() {
    let repo = kubeadmiral();
    let scenario = |expect: &str| {
        format!(
            "apiVersion: federate.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: any}}\nspec:\n  each: cluster\n  expect: [{expect}]\n"
        )
    };
    for nothing in ["{kind: Deploymnt, atLeast: 50%}", "{selector: tier=critical, atLeast: '1'}"] {
        repo.write("scenario.yaml", scenario(nothing));
        let ran = repo.run("whatif --scenario scenario.yaml").code(2);
        assert!(
            ran.err.contains("scenario.yaml:1: `spec.expect`: no object of the plan has the "),
            "{}",
            ran.err
        );
        assert!(repo.run("check").code(2).out.contains("error[invalid-scenario]"));
    }
    repo.write("scenario.yaml", scenario("{kind: Deployment, atLeast: '7'}"));
    let ran = repo.run("whatif --scenario scenario.yaml").code(1).out;
    assert!(
        ran.contains("Deployment shop/web has 6 replicas even before the scenario, and 7 are expected"),
        "{ran}"
    );
}
