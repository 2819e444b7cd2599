//! Clusters that are not ready, `federate clusters` and `federate explain cluster/NAME`.

use serde_json::json;

use crate::sandbox::{POLICY, Sandbox, WEB};

const SINCE: &str = "2026-11-01T00:00:00Z";

/// A repo with two clusters of Karmada, of which `m1` is not ready.
fn karmada() -> Sandbox {
    let cluster = |name: &str, status: &str| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}, labels: {{env: prod}}}}\n\
             spec: {{region: eu}}\nstatus:\n  kubernetesVersion: v1.33.1\n  \
             apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment, name: deployments}}]}}]\n  \
             resourceSummary: {{allocatable: {{cpu: '10'}}, allocated: {{cpu: '4'}}}}\n  \
             conditions: [{{type: Ready, status: '{status}', reason: ClusterNotReachable, message: gone, lastTransitionTime: '{SINCE}'}}]\n"
        )
    };
    let clusters = cluster("m1", "False") + &cluster("m2", "True");
    Sandbox::new().file("clusters.yaml", clusters).file("policy.yaml", POLICY).file("web.yaml", WEB)
}

#[test]
fn every_command_that_plans_names_a_cluster_that_is_not_ready() {
    let repo = karmada();
    for arguments in ["init -q -b main", "add -A", "commit -qm first"] {
        repo.git(arguments);
    }
    let line = format!(
        "warning: cluster m1 is not ready since {SINCE} (ClusterNotReachable: gone): 1 object, 2 replicas placed there\n"
    );
    for command in [
        "check",
        "plan",
        "plan -o json",
        "explain deployment/web",
        "diff --from main",
        "whatif --lose m2",
        "render --out out",
        "commit --branch rendered",
        "drift --observed live",
        "apply --observed live --dry-run=client",
    ] {
        repo.write("live/m1/none.yaml", "");
        let ran = repo.run(command);
        assert_eq!(ran.err.matches(&line).count(), 1, "{command}: {}", ran.err);
        assert!(!repo.run(&format!("{command} -q")).err.contains("not ready"), "{command} -q");
    }
    let explained = repo.run("explain deployment/web").code(0);
    let row = explained.out.lines().find(|line| line.contains("m1 ") && line.contains("not ready")).unwrap();
    assert!(row.ends_with(&format!("not ready since {SINCE} (ClusterNotReachable: gone)")), "{row}");
    let json = repo.run("explain deployment/web -o json").code(0).json();
    assert_eq!(
        json["notReady"],
        json!({"m1": format!("not ready since {SINCE} (ClusterNotReachable: gone)")})
    );
}

#[test]
fn each_dialect_says_which_cluster_is_not_ready() {
    let conditions = |kind: &str| json!([{"type": kind, "status": "False", "reason": "Gone", "lastTransitionTime": SINCE}]);
    let clusters = [
        ("core.kubeadmiral.io/v1alpha1", "FederatedCluster", json!({"conditions": conditions("Ready")})),
        ("core.kubefed.io/v1beta1", "KubeFedCluster", json!({"conditions": conditions("Ready")})),
        (
            "core.kubefed.io/v1beta1",
            "KubeFedCluster",
            json!({"conditions": [{"type": "Offline", "status": "True", "reason": "Gone", "lastTransitionTime": SINCE}]}),
        ),
        (
            "cluster.kubernetes-fleet.io/v1",
            "MemberCluster",
            json!({"agentStatus": [{"type": "MemberAgent", "conditions": conditions("Healthy")}]}),
        ),
    ];
    for (api_version, kind, status) in clusters {
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "m1"}, "status": status});
        let repo = Sandbox::new().file("cluster.json", object.to_string());
        let list = repo.run("clusters -o json").code(0).json();
        let row = &list["clusters"][0];
        assert_eq!(
            (&row["ready"], &row["since"], &row["why"]),
            (&json!(false), &json!(SINCE), &json!("Gone")),
            "{kind}"
        );
    }
}

#[test]
fn a_silent_agent_and_a_taint_are_not_ready() {
    let silent = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": "m1"},
        "status": {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": SINCE, "conditions": [
            {"type": "Joined", "status": "True"}, {"type": "Healthy", "status": "True"}]}]}});
    let repo = Sandbox::new().file("cluster.json", silent.to_string());
    let ready =
        |now: &str| repo.run(&format!("clusters -o json {now}")).json()["clusters"][0]["ready"].clone();
    assert_eq!(ready(""), true);
    assert_eq!(ready("--now 2026-11-01T00:04:00Z"), true);
    assert_eq!(ready("--now 2026-11-01T00:06:00Z"), false);
    let tainted = format!(
        "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: m1}}\nspec:\n  taints: [{{key: \
         cluster.karmada.io/unreachable, effect: NoSchedule, timeAdded: '{SINCE}'}}]\n"
    );
    let list = Sandbox::new().file("cluster.yaml", tainted).run("clusters -o json").json();
    assert_eq!(list["clusters"][0]["since"], SINCE);
}

#[test]
fn the_inventory_is_a_table() {
    let repo = karmada();
    let table = repo.run("clusters").code(0);
    let want =
        "CLUSTER  READY  SINCE                 VERSION  REGION  FREE         ASKED  OBJECTS  REPLICAS  TAINTS
m1       no     2026-11-01T00:00:00Z  v1.33.1  eu      cpu 6 of 10  -      1        2         -
m2       yes    -                     v1.33.1  eu      cpu 6 of 10  -      1        2         -

2 clusters, 1 not ready
";
    assert_eq!(table.out, want);
    let wide = repo.run("clusters -o wide --cluster m1").code(0).out;
    assert!(
        wide.contains("env=prod") && wide.contains("ClusterNotReachable: gone") && !wide.contains("m2"),
        "{wide}"
    );
    assert!(repo.run("clusters -o yaml").code(0).out.contains("kind: ClusterList"));
}

#[test]
fn a_cluster_is_explained() {
    let repo = karmada();
    let text = repo.run("explain cluster/m1").code(0).out;
    for words in [
        "cluster m1 (Cluster m1, clusters.yaml:2)",
        "not ready since 2026-11-01T00:00:00Z: ClusterNotReachable: gone",
        "  env=prod",
        "cpu: 6 of 10 free",
        "✓ PropagationPolicy shop/web: 1 object, 2 replicas",
        "Deployment shop/web",
    ] {
        assert!(text.contains(words), "`{words}` is not in\n{text}");
    }
    let json = repo.run("explain cluster/m1 -o json").code(0).json();
    assert_eq!((&json["objects"], &json["policies"][0]["replicas"]), (&json!(1), &json!(2)));
    let policy = POLICY.replace("placement:\n", "placement:\n    clusterAffinity: {clusterNames: [m2]}\n");
    repo.write("policy.yaml", policy);
    let refused = repo.run("explain cluster/m1").code(0).out;
    assert!(refused.contains("PropagationPolicy shop/web: ClusterAffinity: "), "{refused}");
    assert!(refused.contains("nothing is placed there"), "{refused}");
    let none = repo.run("explain cluster/m11").code(2);
    assert!(none.err.contains("no cluster `m11` in the inventory (there are: m1, m2)"), "{}", none.err);
}

#[test]
fn a_snapshot_is_used_with_its_time_and_age() {
    let repo = karmada();
    repo.run("snapshot -f clusters.yaml --out snap --now 2026-11-22T10:00:00Z -q").code(0);
    let age = "snapshot snap: taken at 2026-11-22T10:00:00Z, 3h ago\n";
    for command in ["plan", "check", "explain deployment/web", "whatif --lose m2", "render --out out"] {
        let ran = repo.run(&format!("{command} --snapshot snap --now 2026-11-22T13:00:00Z"));
        assert_eq!(ran.err.matches(age).count(), 1, "{command}: {}", ran.err);
    }
    let list = repo.run("clusters --snapshot snap --now 2026-11-22T13:00:00Z -o json").code(0).json();
    assert_eq!(
        list["snapshot"],
        json!({"path": "snap", "taken": "2026-11-22T10:00:00Z", "ageSeconds": 10_800})
    );
    let table = repo.run("clusters --snapshot snap --now 2026-11-22T13:00:00Z").code(0).out;
    assert!(table.contains("SNAPSHOT") && table.contains("  3h\n"), "{table}");
}
