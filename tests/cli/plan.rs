//! `federate plan`

use serde_json::json;

use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

#[test]
fn a_divided_deployment_is_shown_with_its_replicas() {
    let ran = Sandbox::web().run("plan").code(0);
    assert_eq!(
        ran.out,
        "\
OBJECT               POLICY                      REPLICAS  CLUSTERS
Deployment shop/web  PropagationPolicy shop/web         4  all 2 × 2

1 object, 2 clusters: 1 placed with 4 replicas, 0 unschedulable, 0 unmatched, by the rules of karmada main (2026-08-21, before 1.19)
"
    );
    assert_eq!(ran.err, "");
}

#[test]
fn a_wide_table_names_every_cluster() {
    let out = Sandbox::web().run("plan -o wide").code(0).out;
    assert!(out.contains("  2 × 2: m1 m2\n"), "{out}");
}

#[test]
fn json_is_the_plan_of_the_contract() {
    let plan = Sandbox::web().run("plan -o json").code(0).json();
    assert_eq!(plan["apiVersion"], "federate.dev/v1alpha1");
    assert_eq!(plan["kind"], "Plan");
    let row = &plan["placements"][0];
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"});
    assert_eq!(row["object"], object);
    assert_eq!(row["dialect"], "karmada");
    assert_eq!(row["clusters"], json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]));
}

#[test]
fn a_plan_of_a_plan_is_the_same_plan() {
    let repo = Sandbox::web();
    let first = repo.run("plan -o json").code(0);
    repo.write("plan.json", &first.out);
    // A plan is not a Kubernetes object to place, wherever it is.
    let second = repo.run("plan -o json --previous plan.json").code(0);
    assert_eq!(first.out, second.out);
}

#[test]
fn scaling_down_keeps_the_proportions_of_the_previous_plan() {
    let repo = Sandbox::new().file("web.yaml", WEB.replace("replicas: 4", "replicas: 6")).file(
        "clusters.yaml",
        CLUSTERS.replace(
            "spec: {region: eu}",
            "spec: {region: eu}\nstatus: {resourceSummary: {allocatable: {pods: 100}}, apiEnablements: [{groupVersion: apps/v1, resources: [{kind: Deployment}]}]}",
        ),
    );
    let policy = POLICY.to_owned()
        + "      replicaDivisionPreference: Weighted\n      weightPreference: {dynamicWeight: AvailableReplicas}\n";
    repo.write("policy.yaml", policy);
    repo.write(
        "old.yaml",
        "apiVersion: federate.dev/v1alpha1\nkind: Plan\nplacements:\n- object: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}\n  clusters: [{name: m1, replicas: 3}, {name: m2, replicas: 9}]\n",
    );
    let plan = repo.run("plan -o json --previous old.yaml -q").code(0).json();
    let want = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 4}]);
    assert_eq!(plan["placements"][0]["clusters"], want);
}

#[test]
fn a_template_without_policy_is_a_warning_unless_asked_otherwise() {
    let repo = Sandbox::new().file("web.yaml", WEB).file("clusters.yaml", CLUSTERS);
    let ran = repo.run("plan").code(0);
    assert!(ran.err.contains("warning[unmatched]"), "{}", ran.err);
    assert!(ran.err.contains("web.yaml:4"), "{}", ran.err);
    repo.run("plan --fail-on unmatched").code(2);
}

#[test]
fn an_unschedulable_template_says_why() {
    let repo = Sandbox::web();
    repo.write(
        "clusters.yaml",
        CLUSTERS.replace("spec: {", "spec: {taints: [{key: a, effect: NoSchedule}], "),
    );
    let ran = repo.run("plan").code(0);
    assert!(ran.out.contains("NoClusterFit: 0/2 clusters are available: 2 with a taint"), "{}", ran.out);
    repo.run("plan --fail-on unschedulable").code(2);
}

#[test]
fn one_broken_file_hides_nothing_else() {
    let repo = Sandbox::web().file("broken.yaml", "a: [1\nb: 2\n").file("twice.yaml", "a: 1\na: 2\n");
    let ran = repo.run("plan -o json").code(2);
    assert!(ran.err.contains("broken.yaml:2") && ran.err.contains("twice.yaml:2"), "{}", ran.err);
    assert_eq!(ran.json()["placements"][0]["object"]["name"], "web");
}

#[test]
fn an_unknown_cluster_is_named() {
    let ran = Sandbox::web().run("plan --cluster m3").code(2);
    assert_eq!(ran.err, "error: no cluster `m3` in the inventory, which has: m1, m2\n");
}

#[test]
fn narrowing_does_not_change_the_decision() {
    let plan = Sandbox::web().run("plan -o json --cluster m2").code(0).json();
    assert_eq!(plan["placements"][0]["clusters"], json!([{"name": "m2", "replicas": 2}]));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    use std::process::Stdio;
    let repo = Sandbox::web();
    let mut child = repo.command("plan").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_rebalancer_acts_once() {
    let repo = Sandbox::web();
    let capacity = "status: {resourceSummary: {allocatable: {pods: 100}}, apiEnablements: [{groupVersion: apps/v1, resources: [{kind: Deployment}]}]}\n";
    repo.write(
        "clusters.yaml",
        CLUSTERS.replace("spec: {region: eu}\n", &format!("spec: {{region: eu}}\n{capacity}")) + capacity,
    );
    let policy = POLICY.to_owned()
        + "      replicaDivisionPreference: Weighted\n      weightPreference: {dynamicWeight: AvailableReplicas}\n";
    repo.write("policy.yaml", &policy);
    let first = repo.run("plan -o json").code(0).json();
    let mut uneven = first;
    uneven["placements"][0]["clusters"] = json!([{"name": "m1", "replicas": 4}]);
    repo.write("plan.json", uneven.to_string());
    let kept = repo.run("plan -o json --previous plan.json").code(0).json();
    assert_eq!(kept["placements"][0]["clusters"], json!([{"name": "m1", "replicas": 4}]));
    repo.write(
        "rebalance.yaml",
        "apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata: {name: even}
spec:
  workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}]
",
    );
    let moved = repo.run("plan -o json --previous plan.json").code(0).json();
    let even = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]);
    assert_eq!(moved["placements"][0]["clusters"], even);
    assert_eq!(moved["placements"][0]["memory"]["rebalanced"], json!(["even"]));
    let mut uneven = moved;
    uneven["placements"][0]["clusters"] = json!([{"name": "m1", "replicas": 4}]);
    repo.write("plan.json", uneven.to_string());
    let kept = repo.run("plan -o json --previous plan.json").code(0).json();
    assert_eq!(kept["placements"][0]["clusters"], json!([{"name": "m1", "replicas": 4}]));
}

#[test]
fn several_clusters_are_named_without_taking_the_repo() {
    let repo = Sandbox::web();
    repo.write("apps/web.yaml", "");
    for line in ["plan --cluster m1 m2 .", "plan --cluster m1,m2 .", "plan . --cluster m1 --cluster m2"] {
        let out = repo.run(line).code(0).out;
        assert!(out.contains("all 2 × 2"), "{line}: {out}");
    }
    let empty = repo.run("plan --cluster m1 apps").code(2);
    assert!(empty.err.contains("no cluster `m1` in the inventory"), "{}", empty.err);
}

#[test]
fn names_are_what_explain_reads() {
    let repo = Sandbox::web();
    assert_eq!(repo.run("plan -o name").code(0).out, "deployment.apps/shop/web\n");
    repo.run("explain deployment.apps/shop/web").code(0);
}

#[test]
fn quiet_prints_the_rows_alone() {
    let out = Sandbox::web().run("plan -q").code(0).out;
    assert_eq!(out.lines().count(), 2, "{out}");
}

#[test]
fn replicas_are_those_of_the_manifests() {
    let repo = Sandbox::web();
    // Duplicated replicas are those of the template; an override changes them in one cluster.
    repo.write("policy.yaml", POLICY.replace("Divided", "Duplicated"));
    // A spec without replicas has one.
    let spec = "{selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: b}]}}}";
    for (path, value) in [("/spec/replicas", "1"), ("/spec", spec)] {
        repo.write(
            "override.yaml",
            format!(
                "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {{name: fewer, namespace: shop}}
spec:
  overrideRules:
  - targetCluster: {{clusterNames: [m2]}}
    overriders: {{plaintext: [{{path: {path}, operator: replace, value: {value}}}]}}
"
            ),
        );
        let out = repo.run("plan").code(0).out;
        assert!(out.contains("        5  m1:4 m2:1"), "{path}: {out}");
    }
}

#[test]
fn nothing_is_cut_in_a_pipe() {
    let repo = Sandbox::new().file("policy.yaml", POLICY.replace("Divided", "Duplicated"));
    let name = "a-name-that-is-longer-than-the-column-of-any-terminal-that-people-use";
    let long = |text: &str| text.replace("name: web", &format!("name: {name}"));
    repo.write("web.yaml", long(WEB));
    repo.write("policy.yaml", long(POLICY));
    let cluster = |at| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: member-{at:03}}}\n"
        )
    };
    repo.write("clusters.yaml", (0..60).map(cluster).collect::<String>());
    let out = repo.run("plan").code(0).out;
    let row = out.lines().nth(1).unwrap();
    assert!(row.contains(name) && row.contains("member-003") && !out.contains('…'), "{out}");
    // All names of clusters are in the line of their object.
    let row = |line: &str| repo.run(line).code(0).out.lines().nth(1).unwrap().to_owned();
    assert!(row("plan -v").ends_with("4 × 1: member-000 member-001 member-002 member-003"), "{out}");
    repo.write("policy.yaml", long(POLICY).replace("Divided", "Duplicated"));
    repo.write("clusters.yaml", (0..60).map(cluster).collect::<String>());
    assert!(row("plan").ends_with("all 60 × 4"), "{}", row("plan"));
}

/// A repo whose clusters report free resources.
fn sized() -> Sandbox {
    let status = |cpu: u32| {
        format!(
            "status: {{resourceSummary: {{allocatable: {{pods: 100, cpu: {cpu}, memory: 64Gi}}, allocated: {{cpu: 1}}}}, \
             apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment}}]}}]}}"
        )
    };
    let cluster = |name: &str, cpu| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\n{}\n",
            status(cpu)
        )
    };
    let image = "image: nginx:1.27";
    let web =
        WEB.replace(image, &format!("{image}\n        resources: {{requests: {{cpu: 500m, memory: 1Gi}}}}"));
    Sandbox::web().file("clusters.yaml", cluster("m1", 2) + &cluster("m2", 8)).file("web.yaml", web)
}

#[test]
fn requested_and_free_resources_are_shown_by_cluster() {
    let repo = sized();
    let ran = repo.run("plan --capacity").code(0);
    let (_, capacity) = ran.out.split_once("\n\n").and_then(|(_, rest)| rest.split_once("\n\n")).unwrap();
    assert_eq!(
        capacity,
        "\
CLUSTER  RESOURCE  REQUESTED  LEFT  ALLOCATABLE
m1       cpu               1     0            2
m1       memory       2048Mi  62Gi         64Gi
m1       pods              2    98          100
m2       cpu               1     6            8
m2       memory       2048Mi  62Gi         64Gi
m2       pods              2    98          100
"
    );
    // What the previous plan runs is counted in what clusters report.
    let plan = repo.run("plan -o json").code(0).out;
    repo.write("plan.json", plan);
    let ran = repo.run("plan --capacity --previous plan.json --cluster m1").code(0);
    assert!(ran.out.contains("m1       cpu               1     1            2\n"), "{}", ran.out);
    assert!(!ran.out.contains("m2  "), "{}", ran.out);
    let ran = repo.run("plan --capacity -o json").code(2);
    assert!(ran.err.contains("--capacity is a table"), "{}", ran.err);
}

/// The assignments of a quota are rendered, and its overall limits are compared with the plan.
#[test]
fn a_federated_quota_is_assigned_and_compared() {
    let quota = "apiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: shop, namespace: shop}\nspec:\n  overall: {cpu: 1500m, memory: 64Gi}\n  staticAssignments:\n  - {clusterName: m1, hard: {cpu: 500m}}\n  - {clusterName: m2, hard: {cpu: 1, memory: 1024Mi}}\n";
    let repo = sized().file("quota.yaml", quota);
    let ran = repo.run("render --out out").code(0);
    assert!(
        ran.err.contains(
            "warning[over-quota]: the plan requests 2 of cpu in the namespace shop, more than the 1500m"
        ) && ran.err.contains("--> quota.yaml:5:13"),
        "{}",
        ran.err
    );
    let written = |cluster: &str| repo.read(&format!("out/{cluster}/shop/resourcequota_shop.yaml"));
    assert_eq!(
        written("m2"),
        "apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: shop\n  namespace: shop\nspec:\n  hard:\n    cpu: \"1\"\n    memory: 1Gi\n"
    );
    assert!(written("m1").contains("cpu: 500m"));
    let explained = repo.run("explain resourcequota/shop -n shop").code(0).out;
    assert!(explained.contains("FederatedResourceQuota shop/shop (quota.yaml:1) assigns it"), "{explained}");
    repo.write("quota.yaml", quota.replace("500m", "-1").as_str());
    assert!(repo.run("render --out out").code(2).err.contains("error[invalid-policy]: `cpu` is less than 0"));
}

#[test]
fn a_deployment_with_0_replicas_stays_where_an_override_sets_them() {
    let requests = "        resources: {requests: {cpu: 100m}}\n";
    let policy = POLICY.replace("Divided", "Duplicated");
    let repo = Sandbox::web()
        .file("web.yaml", WEB.replace("replicas: 4", "replicas: 0") + requests)
        .file("policy.yaml", &policy);
    let ran = repo.run("plan -o json").code(0);
    assert!(
        ran.err.contains("warning[no-replicas]") && ran.err.contains("with an OverridePolicy"),
        "{ran:?}"
    );
    assert_eq!(ran.json()["placements"][0]["clusters"], json!([]));
    repo.write("web.yaml", WEB.replace("replicas: 4", "replicas: 1") + requests);
    repo.write(
        "zero.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: zero, namespace: shop}\nspec:
  overrideRules: [{overriders: {plaintext: [{path: /spec/replicas, operator: replace, value: 0}]}}]\n",
    );
    assert_eq!(repo.run("render --out out").code(0).err, "");
    for cluster in ["m1", "m2"] {
        let manifest = repo.read(&format!("out/{cluster}/shop/deployment.apps_web.yaml"));
        assert!(manifest.contains("replicas: 0\n"), "{manifest}");
    }
}

/// plan, diff and whatif count the same replicas, whether a control plane divides them or each cluster has all.
#[test]
fn replicas_are_counted_alike_everywhere() {
    let clusters = "unplaced: everywhere\nclusters: [{name: eu-1}, {name: us-1}]\n";
    let repo = Sandbox::new().file("federate.yaml", clusters).file("web.yaml", WEB);
    for line in ["init -q -b main", "add -A", "commit -q -m four"] {
        repo.git(line);
    }
    let total = |repo: &Sandbox| repo.run("plan").code(0).out.lines().last().unwrap_or_default().to_owned();
    assert!(total(&repo).contains("1 placed with 8 replicas"), "{}", total(&repo));
    repo.write("web.yaml", WEB.replace("replicas: 4", "replicas: 5"));
    let diff = repo.run("diff").code(1).out;
    assert!(diff.contains("replicas 8 → 10 (+2)"), "{diff}");
    repo.write("web.yaml", WEB.replace("  replicas: 4\n", ""));
    assert!(total(&repo).contains("1 placed with 2 replicas"), "{}", total(&repo));
    let lost = repo.run("whatif --lose eu-1 -o json").code(1).json();
    assert_eq!(lost["replicas"]["lost"], 1, "{lost}");
}

/// A scheduler's memory of a template that no policy places is no second row.
#[test]
fn a_template_without_policy_stands_once() {
    let repo = Sandbox::new()
        .file("m1.yaml", "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {name: m1}\nspec: {apiEndpoint: https://a}\n")
        .file("c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\n");
    let plan = repo.run("plan").code(0).out;
    assert_eq!(plan.matches("ConfigMap shop/c").count(), 1, "{plan}");
    assert!(
        plan.contains("1 object, 1 cluster: 0 placed with 0 replicas, 0 unschedulable, 1 unmatched"),
        "{plan}"
    );
}

#[test]
fn an_override_that_fails_is_an_error_of_plan_and_explain() {
    let failing = "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: fails, namespace: shop}\nspec:\n  \
                   overrideRules:\n  - overriders:\n      plaintext: [{path: /spec/absent/field, operator: replace, value: 1}]\n";
    let sandbox = Sandbox::web().file("override.yaml", failing);
    for command in ["plan", "plan -o json", "explain deployment/web -n shop", "render --out out"] {
        let ran = sandbox.run(command).code(2);
        // What is explained names the failure itself.
        let said = if command.starts_with("explain") { &ran.out } else { &ran.err };
        assert!(said.contains("OverridePolicy shop/fails fails: "), "{command}: {ran:?}");
    }
}
