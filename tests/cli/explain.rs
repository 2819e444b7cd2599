//! `federate explain`

use crate::sandbox::{CLUSTERS, Sandbox};

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
        "4 replicas divided by weight (Webster's method): m1 1 → 2, m2 1 → 2",
        "TaintToleration: the policy does not tolerate its taint `gpu=only:NoSchedule`",
        "m2: OverridePolicy shop/registry (override.yaml:1) changed /spec/template/spec/containers/0/image",
    ] {
        assert!(ran.out.contains(words), "`{words}` is not in\n{}", ran.out);
    }
    let json = repo.run("explain deployment/web -n shop -o json").code(0).json();
    assert_eq!(json["clusters"][2]["refusedBy"], "TaintToleration");
}

#[test]
fn what_is_not_there_or_ambiguous_is_said_so() {
    let repo = Sandbox::web();
    let other = crate::sandbox::WEB.replace("namespace: shop", "namespace: other");
    repo.write("other.yaml", other);
    let ran = repo.run("explain deployment/none").code(2);
    assert_eq!(ran.err, "error: no template and no policy deployment/none in the repo\n");
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
}
