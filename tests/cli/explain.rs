//! `federate explain`

use serde_json::json;

use crate::sandbox::{CLUSTERS, POLICY, Sandbox, WEB};

#[test]
fn it_names_the_filter_the_arithmetic_and_the_override() {
    let repo = Sandbox::web();
    let tainted = CLUSTERS.to_owned()
        + "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m3}\nspec: {taints: [{key: gpu, value: only, effect: NoSchedule}]}\n";
    repo.write("clusters.yaml", tainted);
    repo.write(
        "override.yaml",
        "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: registry, namespace: shop}
spec:
  overrideRules:
  - targetCluster: {clusterNames: [m2]}
    overriders:
      imageOverrider:
      - {component: Registry, operator: add, value: us.example.com}
",
    );
    let ran = repo.run("explain deployment/web").code(0);
    for words in [
        "Deployment shop/web (web.yaml:1), placed by karmada",
        "PropagationPolicy shop/web (policy.yaml:1) matches by name, priority 0",
        "4 replicas divided by weight (Webster's method): m1 2 (weight 1), m2 2 (weight 1)",
        "TaintToleration: the policy does not tolerate its taint `gpu=only:NoSchedule`",
        "m2: OverridePolicy shop/registry (override.yaml:1) changed /spec/template/spec/containers[name=web]/image",
    ] {
        assert!(ran.out.contains(words), "`{words}` is not in\n{}", ran.out);
    }
    let json = repo.run("explain deployment/web -n shop -o json").code(0).json();
    assert_eq!(json["clusters"][2]["refusedBy"], "TaintToleration");
    let taint = json!({"key": "gpu", "value": "only", "effect": "NoSchedule"});
    assert_eq!(json["clusters"][2]["causes"], json!([{"cluster": {"taint": taint}}]), "{json}");
    assert!(json["clusters"][0].get("causes").is_none(), "{json}");
}

#[test]
fn what_is_not_there_or_ambiguous_is_said_so() {
    let repo = Sandbox::web();
    let other = crate::sandbox::WEB.replace("namespace: shop", "namespace: other");
    repo.write("other.yaml", other);
    let ran = repo.run("explain deployment/none").code(2);
    assert_eq!(
        ran.err,
        "error: the repo has no template and no policy deployment/none; `federate plan` lists the objects\n"
    );
    let ran = repo.run("explain deploymnt/shop/web").code(2);
    assert!(ran.err.ends_with("deploymnt/web; did you mean deployment.apps/shop/web?\n"), "{}", ran.err);
    let ran = repo.run("explain deployment/web").code(2);
    assert!(ran.err.contains("ambiguous: Deployment other/web, Deployment shop/web"), "{}", ran.err);
    let ran = repo.run("explain web").code(2);
    assert!(ran.err.contains("is not KIND/NAME"), "{}", ran.err);
}

#[test]
fn a_policy_stands_for_what_it_places() {
    let repo = Sandbox::web();
    let by_policy = repo.run("explain propagationpolicy/web").code(0);
    assert_eq!(by_policy.out, repo.run("explain deployment/web").code(0).out);
    assert_eq!(by_policy.out, repo.run("explain pp/web").code(0).out);
    assert_eq!(by_policy.out, repo.run("explain deploy/shop/web").code(0).out);
    repo.write("more.yaml", WEB.replace("name: web", "name: api"));
    repo.write("policy.yaml", POLICY.replace("    name: web\n", ""));
    let several = repo.run("explain pp/web").code(0).out;
    assert!(
        several.starts_with("PropagationPolicy shop/web (policy.yaml:1) places 2 objects\n"),
        "{several}"
    );
    assert!(several.contains("Deployment shop/api") && several.contains("Deployment shop/web"), "{several}");
}

#[test]
fn an_override_policy_names_what_it_changes() {
    let repo = Sandbox::web();
    let policy = |cluster: &str| {
        format!(
            "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {{name: registry, namespace: shop}}
spec:
  overrideRules:
  - targetCluster: {{clusterNames: [{cluster}]}}
    overriders: {{imageOverrider: [{{component: Registry, operator: add, value: us.example.com}}]}}
"
        )
    };
    repo.write("override.yaml", policy("m2"));
    let ran = repo.run("explain op/registry").code(0);
    assert_eq!(
        ran.out,
        "OverridePolicy shop/registry (override.yaml:1) overrides 1 object

  Deployment shop/web in m2: /spec/template/spec/containers[name=web]/image
"
    );
    repo.write("override.yaml", policy("m3"));
    let ran = repo.run("explain op/registry").code(0);
    assert_eq!(ran.out, "OverridePolicy shop/registry (override.yaml:1) changes no manifest\n");
    assert!(ran.err.contains("warning[unused-override]"), "{}", ran.err);
}

#[test]
fn an_object_that_is_placed_nowhere_is_explained() {
    let repo = Sandbox::web();
    repo.write("web.yaml", WEB.replace("name: web", "name: shop-web"));
    let ran = repo.run("explain deploy/shop-web").code(0);
    assert!(
        ran.out.starts_with("Deployment shop/shop-web (web.yaml:1) is placed on no cluster\n"),
        "{}",
        ran.out
    );
    let policy = "PropagationPolicy shop/web (policy.yaml:1): selects only the name `web`";
    assert!(ran.out.contains(policy), "{}", ran.out);
    let missing = repo.run("explain deploy/shop-wb").code(2);
    assert!(missing.err.contains("did you mean deployment.apps/shop/shop-web?"), "{}", missing.err);
}

#[test]
fn many_equal_clusters_share_a_line() {
    let repo = Sandbox::web();
    let cluster = |at| {
        let taint = if at < 90 { "{taints: [{key: gpu, effect: NoSchedule}]}" } else { "{}" };
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: m{at:02}}}\nspec: {taint}\n"
        )
    };
    repo.write("clusters.yaml", (0..95).map(cluster).collect::<String>());
    let out = repo.run("explain deploy/web").code(0).out;
    assert!(out.contains("    90 clusters         -  TaintToleration: "), "{out}");
    assert!(out.contains("\n      m00, m01, m02, ") && out.contains(" and 48 more\n"), "{out}");
    assert!(repo.run("explain deploy/web -v").code(0).out.contains("m42"));
}

#[test]
fn the_next_round_depends_on_the_bindings_of_the_hub() {
    let member = |name: &str| {
        format!(
            "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}}}\n---\n"
        )
    };
    let placement =
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: shop}
spec:
  resourceSelectors: [{group: \"\", version: v1, kind: Namespace, name: shop}]
  strategy: {rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: 2}
---
apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let repo = Sandbox::new()
        .file("fleet.yaml", member("m1") + &member("m2") + &member("m3"))
        .file("placement.yaml", placement);
    let round = |available: &str| {
        let binding = |cluster: &str, available: &str, resources: &str| {
            format!(
                "    - {{cluster: {cluster}, state: Bound, generation: 1, resources: {resources}, conditions: [\n        \
                 {{type: Available, status: '{available}', reason: ResourceNotAvailableYet, observedGeneration: 1}}]}}\n"
            )
        };
        let plan = "apiVersion: federate.dev/v1alpha1\nkind: Plan\nplacements:\n- object: {apiVersion: \
                    placement.kubernetes-fleet.io/v1, kind: ClusterResourcePlacement, name: shop}\n  clusters: \
                    [{name: m1}, {name: m2}, {name: m3}]\n  memory:\n    policy: null\n    bindings:\n"
            .to_owned()
            + &binding("m1", "True", "latest")
            + &binding("m2", available, "old")
            + &binding("m3", "True", "old");
        repo.write("hub/plan.yaml", plan);
        let line =
            "explain clusterresourceplacement/shop --previous hub/plan.yaml --now 2026-11-22T12:00:00Z -q";
        repo.run(line).code(0).out
    };
    let (all, some) = (round("True"), round("False"));
    assert!(all.contains("on the hub: the next round updates m2; must wait: m3; up to date: m1\n"), "{all}");
    assert!(all.contains("rollout: first m1, then m2, m3\n"), "{all}");
    assert!(all.contains("permits an eviction while all are available\n"), "{all}");
    // As many are unavailable as may be.
    let waits = "on the hub: the next round updates nothing; must wait: m2, m3; up to date: m1; the next check is after 60 s\n";
    assert!(some.contains(waits), "{some}");
    assert!(some.contains("permits no eviction while 2 of 3 are available\n"), "{some}");
}
