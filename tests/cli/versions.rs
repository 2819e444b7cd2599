//! Releases of a control plane: `dialects.karmada.version` and `--karmada-version`.

use serde_json::json;

use crate::sandbox::{CLUSTERS, Sandbox, WEB};

const WEIGHTED: &str = "\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [m1]}, weight: 1}
        - {targetCluster: {clusterNames: [m2]}, weight: 1}
";

fn repo(replicas: i64) -> Sandbox {
    let web = WEB.replace("replicas: 4", &format!("replicas: {replicas}"));
    Sandbox::new().file("web.yaml", web).file("clusters.yaml", CLUSTERS).file("policy.yaml", WEIGHTED)
}

#[test]
fn the_file_and_the_option_name_the_release_that_divides() {
    let repo = repo(5);
    // 5 over 1:1 is a tie; Webster's method goes by the uid of the template, and older releases by chance.
    for arguments in ["plan -o json", "plan -o json --karmada-version 1.15"] {
        let plan = repo.run(arguments).code(0).json();
        let want = json!([{"name": "m1", "replicas": 3}, {"name": "m2", "replicas": 2}]);
        assert_eq!(plan["placements"][0]["clusters"], want);
    }
    let newest = repo.run("explain deployment/web -n shop").code(0);
    assert!(!newest.out.contains("by chance"), "{}", newest.out);
    let older = repo.run("explain deployment/web -n shop --karmada-version 1.15").code(0);
    let said = "Karmada 1.15.9 decides by chance which of m1, m2 get one more";
    assert!(older.out.contains(said), "{}", older.out);
    repo.write("federate.yaml", "dialects: {karmada: {version: \"1.14.3\"}}\n");
    let older = repo.run("explain deployment/web -n shop").code(0);
    assert!(older.out.contains("Karmada 1.14.3 decides by chance"), "{}", older.out);
    let newest = repo.run("explain deployment/web -n shop --karmada-version v1.19").code(0);
    assert!(!newest.out.contains("by chance"), "{}", newest.out);
}

#[test]
fn a_workload_scaled_to_zero_went_everywhere() {
    let repo = repo(0);
    let web = WEB.replace("replicas: 4", "replicas: 0");
    repo.write("web.yaml", web + "        resources: {requests: {cpu: 100m}}\n");
    let clusters = |arguments: &str| repo.run(arguments).code(0).json()["placements"][0]["clusters"].clone();
    assert_eq!(clusters("plan -o json --karmada-version 1.16"), json!([]));
    let everywhere = json!([{"name": "m1", "replicas": null}, {"name": "m2", "replicas": null}]);
    assert_eq!(clusters("plan -o json --karmada-version 1.15"), everywhere);
}

#[test]
fn a_version_that_is_not_known_is_refused_with_those_that_are() {
    let repo = repo(4);
    let ran = repo.run("plan --karmada-version 1.12").code(2);
    assert!(
        ran.err.contains("Karmada has no release `1.12` that is known here; known are 1.13 (up to 1.13.10)"),
        "{}",
        ran.err
    );
    repo.write("federate.yaml", "dialects:\n  karmada:\n    version: \"1.30\"\n");
    let ran = repo.run("plan").code(2);
    assert!(ran.err.contains("federate.yaml:3"), "{}", ran.err);
    assert!(ran.err.contains("Karmada has no release `1.30`"), "{}", ran.err);
    repo.write("federate.yaml", "dialects: {karmada: {version: 1.16}}\n");
    let ran = repo.run("plan").code(2);
    assert!(ran.err.contains("write it in quotes"), "{}", ran.err);
}

#[test]
fn a_field_that_the_release_does_not_have_is_ignored_and_named() {
    let repo = repo(4);
    let policy = WEIGHTED.replace(
        "  placement:\n",
        "  placement:\n    clusterAffinities:\n    - affinityName: first\n      clusterNames: [m1]\n      overflowAffinities: [{affinityName: more, clusterNames: [m2]}]\n",
    );
    repo.write("policy.yaml", policy);
    assert_eq!(repo.run("plan").code(0).err, "");
    let ran = repo.run("plan --karmada-version 1.17").code(0);
    assert!(ran.err.contains("warning[ignored-field]"), "{}", ran.err);
    assert!(ran.err.contains("policy.yaml:10"), "{}", ran.err);
    assert!(ran.err.contains("has no field `overflowAffinities` and drops it"), "{}", ran.err);
}
