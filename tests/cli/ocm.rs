//! A repo for Open Cluster Management: plan, explanation, mistakes, and decisions as objects.

use crate::sandbox::Sandbox;

const CLUSTERS: &str = "apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: alpha, labels: {region: eu}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: beta, labels: {region: eu}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: gamma, labels: {region: us, cluster.open-cluster-management.io/clusterset: edge}}
";

const BINDING: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: shop}
spec: {clusterSet: global}
";

const PLACEMENT: &str = "apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: shop}
spec:
  predicates:
  - requiredClusterSelector:
      labelSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}
";

fn shop() -> Sandbox {
    Sandbox::new()
        .file("clusters.yaml", CLUSTERS)
        .file("binding.yaml", BINDING)
        .file("placement.yaml", PLACEMENT)
}

#[test]
fn a_placement_is_planned_and_explained() {
    let repo = shop();
    let plan = repo.run("plan").code(0).out;
    assert!(
        plan.contains("Placement shop/web") && plan.contains("alpha") && !plan.contains("gamma"),
        "{plan}"
    );
    let explained = repo.run("explain placement/web -n shop").code(0).out;
    for words in [
        "Placement shop/web (placement.yaml:1), placed by ocm",
        "cluster sets: global",
        "gamma  ",
        "Predicate: its label region=us does not match `region in (eu)`",
        "Balance 100 × 1 + Steady 100 × 1",
    ] {
        assert!(explained.contains(words), "`{words}` is not in\n{explained}");
    }
}

#[test]
fn a_mistake_says_how_many_clusters_it_empties() {
    let repo = shop();
    let plan = repo.run("plan -o json").code(0).out;
    repo.write("plan.json", plan);
    repo.write("placement.yaml", PLACEMENT.replace("operator: In", "operator: Equals"));
    let checked = repo.run("check --previous plan.json").code(2);
    let words = "error[misconfigured]: Placement shop/web is misconfigured, and the hub would take what follows it off 2 clusters";
    assert!(checked.out.contains(words), "{}", checked.out);
    repo.run("render --out out --previous plan.json").code(2);
}

#[test]
fn a_negative_number_and_an_expression_are_errors() {
    let repo = shop();
    for (field, code) in [
        ("numberOfClusters: -1", "error[negative-number]"),
        (
            "predicates: [{requiredClusterSelector: {celSelector: {celExpressions: [\"format.uuid().validate('a').hasValue()\"]}}}]",
            "error[expression]",
        ),
        (
            "predicates: [{requiredClusterSelector: {claimSelector: {matchExpressions: [{key: a, operator: Exists}]}}}]",
            "warning[unknown-claim]",
        ),
        ("clusterSets: [edge]", "warning[unbound-set]"),
        (
            "prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: -1}]}, numberOfClusters: 1",
            "warning[unsettled]",
        ),
        ("sortBy: Score", "warning[ignored-field]"),
        ("tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]", "warning[no-clock]"),
    ] {
        let head = PLACEMENT.split("spec:").next().unwrap();
        repo.write("placement.yaml", format!("{head}spec: {{{field}}}\n"));
        let ran = repo.run("check").code(if code.starts_with("error") { 2 } else { 1 });
        assert!(ran.out.contains(code), "{field}: {}", ran.out);
    }
}

#[test]
fn a_namespace_without_a_binding_selects_nothing() {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("placement.yaml", PLACEMENT);
    let explained = repo.run("explain placement/web -n shop").code(0).out;
    let words = "ClusterSet: it is in the set default, and no ManagedClusterSetBinding in the namespace shop binds that";
    assert!(explained.contains(words), "{explained}");
    assert!(repo.run("check").code(1).out.contains("warning[no-binding]"));
}

#[test]
fn placements_that_share_clusters_depend_on_their_order() {
    let repo = shop();
    let two = ["a", "b"].map(|name| {
        format!(
            "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{numberOfClusters: 1}}\n"
        )
    });
    repo.write("placement.yaml", two.join("---\n"));
    let out = repo.run("check").code(1).out;
    for (name, line) in [("a", 4), ("b", 9)] {
        let words =
            format!("warning[order-dependent]: the clusters of Placement shop/{name} depend on the order");
        assert!(out.contains(&words) && out.contains(&format!(" --> placement.yaml:{line}:")), "{out}");
    }
}

#[test]
fn decisions_are_printed_for_other_tools() {
    let repo = shop();
    let ocm = repo.run("plan -o placementdecisions=ocm -q").code(0).out;
    for words in ["name: web-decision-1", "clusterName: beta", "statusListKey: decisions"] {
        assert!(ocm.contains(words), "{ocm}");
    }
    let inventory = repo.run("plan -o placementdecisions=sig -q").code(0).out;
    assert!(inventory.contains("apiVersion: multicluster.x-k8s.io/v1alpha1"), "{inventory}");
    assert_eq!(inventory, repo.run("plan -o placementdecisions -q").code(0).out);
    let flux = repo.run("plan -o placementdecisions=flux-inputs -q").code(0).out;
    assert_eq!(flux.matches("kind: ResourceSetInputProvider").count(), 2, "{flux}");
}

#[test]
fn what_reads_decisions_stays_on_the_hub() {
    let repo = shop();
    let set = |generator: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: a, namespace: argocd}}\nspec: {{generators: [{{{generator}: {{}}}}]}}\n"
        )
    };
    repo.write("set.yaml", set("clusterDecisionResource"));
    assert!(repo.run("check").code(0).out.contains("1 ApplicationSet"));
    repo.write("set.yaml", set("clusters"));
    assert!(repo.run("check").out.contains("warning[unmatched]"));
}

#[test]
fn a_work_follows_its_placements_once() {
    let repo = shop();
    let work = |references: &str, level: &str, name: &str| {
        format!(
            "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  placementRefs: [{references}]\n  manifestWorkTemplate: {{workload: {{manifests: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: shop}}, data: {{level: {level}}}}}]}}}}\n"
        )
    };
    repo.write("all.yaml", PLACEMENT.replace("name: web", "name: all").replace("[eu]", "[eu, us]"));
    repo.write("work.yaml", work("{name: web}, {name: all}", "a", "w"));
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("warning[overlapping-references]"), "{}", ran.out);
    repo.run("render --out out").code(0);
    assert!(repo.path("out/gamma/shop/configmap_c.yaml").exists());
    repo.write("other.yaml", work("{name: all}", "b", "x"));
    let ran = repo.run("check").code(2);
    assert!(ran.out.contains("error[placed-in-duplicate]"), "{}", ran.out);
}

/// A repo whose placement selects one cluster and tolerates taints for some time.
fn tolerating(tolerations: &str) -> Sandbox {
    let repo = shop();
    let head = PLACEMENT.split("spec:").next().unwrap();
    repo.write(
        "placement.yaml",
        format!("{head}spec: {{numberOfClusters: 1, tolerations: [{tolerations}]}}\n"),
    );
    repo
}

#[test]
fn a_taint_moves_a_placement_when_its_toleration_ends() {
    let repo = tolerating("{key: maintenance, operator: Exists, tolerationSeconds: 300}");
    let taint = "whatif --taint alpha=maintenance:NoSelect";
    for scenario in [taint.to_owned(), format!("{taint} --at 2026-11-26T00:00:00Z")] {
        let out = repo.run(&scenario).code(1).out;
        assert!(out.contains("  t+5m     1 placement is evicted\n"), "{out}");
        let json = repo.run(&format!("{scenario} -o json")).code(1).json();
        let stages = json["timeline"].as_array().unwrap();
        let moved: Vec<(i64, i64)> = stages
            .iter()
            .map(|stage| (stage["seconds"].as_i64().unwrap(), stage["moved"].as_i64().unwrap()))
            .collect();
        assert_eq!(moved, [(0, 0), (300, 1)], "{json:#}");
    }
    // A taint without a toleration moves it at once, one for new clusters never.
    let at_once = repo.run("whatif --taint alpha=other:NoSelect -o json").code(1).json();
    assert_eq!(at_once["timeline"][0]["moved"], 1, "{at_once:#}");
    let for_new = repo.run("whatif --taint alpha=maintenance:NoSelectIfNew").code(0).out;
    assert!(!for_new.contains("evicted"), "{for_new}");
    let endless =
        tolerating("{key: maintenance, operator: Exists, tolerationSeconds: 300}, {operator: Exists}");
    endless.run(taint).code(0);
}

#[test]
fn a_lost_cluster_is_replaced_when_the_hub_notices_and_nothing_tolerates_it() {
    let moved_at = |tolerations: &str| {
        let json = tolerating(tolerations).run("whatif --lose alpha -o json").code(1).json();
        let first = json["timeline"].as_array().unwrap().iter().find(|stage| stage["moved"] != 0);
        first.unwrap_or_else(|| panic!("{json:#}"))["seconds"].as_i64().unwrap()
    };
    assert_eq!(moved_at(""), 300);
    let unreachable = "cluster.open-cluster-management.io/unreachable";
    assert_eq!(moved_at(&format!("{{key: {unreachable}, operator: Exists, tolerationSeconds: 600}}")), 900);
}

#[test]
fn an_explanation_shows_the_taint_with_its_time() {
    let repo = tolerating("{key: maintenance, operator: Exists, tolerationSeconds: 300}");
    let taint = "[{key: maintenance, effect: NoSelect, timeAdded: '2026-11-26T00:00:00Z'}]";
    repo.write(
        "clusters.yaml",
        CLUSTERS.replacen("{region: eu}}\n", &format!("{{region: eu}}}}\nspec: {{taints: {taint}}}\n"), 1),
    );
    let explain = |time: &str| repo.run(&format!("explain placement/web -n shop --now {time}")).code(0).out;
    assert!(explain("2026-11-26T00:04:59Z").contains("✓ alpha"));
    let after = explain("2026-11-26T00:05:00Z");
    let words = "TaintToleration: its taint maintenance:NoSelect since 2026-11-26T00:00:00Z is not tolerated";
    assert!(after.contains("✓ beta") && after.contains(words), "{after}");
}
