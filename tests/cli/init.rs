//! `federate init`

use crate::sandbox::{POLICY, Sandbox, WEB};

#[test]
fn a_folder_of_manifests_gets_clusters_a_policy_and_a_workflow() {
    let sandbox = Sandbox::new().file("deploy/web.yaml", WEB);
    sandbox.git("init -q -b main");
    let ran = sandbox.run("init deploy --cluster eu-1 us-1").code(0);
    assert_eq!(
        ran.out,
        "\
wrote deploy/federate.yaml: the clusters: set their labels and regions
wrote deploy/policy.yaml: a policy that places every object on every cluster
wrote .github/workflows/federate.yml: comments on pull requests, and commits to the branch `rendered` after the merge

Next:
  federate check deploy               # errors and likely mistakes
  federate plan deploy                # where each object is placed
  federate render deploy --out out    # the manifests of each cluster
"
    );
    assert!(sandbox.read(".github/workflows/federate.yml").contains("paths: deploy\n"));
    assert!(sandbox.read("deploy/policy.yaml").contains("  - apiVersion: apps/v1\n    kind: Deployment\n"));
    let plan = sandbox.run("plan deploy -q").code(0);
    assert!(plan.out.contains("all 2 × 4") && plan.err.is_empty(), "{plan:#?}");
    sandbox.run("check deploy").code(0);
    let again = sandbox.run("init deploy").code(0).out;
    assert!(
        again.starts_with("the folder has clusters, policies and a workflow: nothing to write\n"),
        "{again}"
    );
}

#[test]
fn every_dialect_gets_its_own_kinds() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    for (dialect, cluster) in [
        ("karmada", "kind: Cluster"),
        ("kubeadmiral", "kind: FederatedCluster"),
        ("kubefleet", "kind: MemberCluster"),
        ("kubefed", "kind: KubeFedCluster"),
    ] {
        let sandbox = Sandbox::new().file("web.yaml", WEB).file("namespace.yaml", namespace);
        let printed = sandbox.run(&format!("init --dialect {dialect} --dry-run")).code(0).out;
        assert!(printed.contains(cluster) && sandbox.files("").len() == 2, "{printed}");
        let ran = sandbox.run(&format!("init --dialect {dialect}")).code(0).out;
        assert!(ran.contains("wrote clusters.yaml"), "{ran}");
        let found = sandbox.run("check -o json").json();
        let errors = found["findings"].as_array().unwrap().iter().filter(|one| one["severity"] == "error");
        assert_eq!(errors.count(), 0, "{found:#}");
        if ["karmada", "kubefleet"].contains(&dialect) {
            let plan = sandbox.run("plan -q").code(0).out;
            assert!(
                plan.lines().any(|l| l.starts_with("Deployment shop/web") && l.contains("all 2")),
                "{plan}"
            );
        }
    }
}

#[test]
fn kubefleet_needs_the_namespaces_of_the_objects() {
    let sandbox = Sandbox::new().file("web.yaml", WEB);
    let ran = sandbox.run("init --dialect kubefleet").code(0).out;
    assert!(ran.contains("add a Namespace for each namespace of your objects"), "{ran}");
}

#[test]
fn what_is_there_stays_and_gives_the_dialect() {
    let sandbox = Sandbox::new().file("web.yaml", WEB).file("policy.yaml", POLICY);
    let ran = sandbox.run("init").code(0).out;
    assert!(ran.starts_with("wrote clusters.yaml"), "{ran}");
    assert_eq!(sandbox.read("policy.yaml"), POLICY);
    assert!(sandbox.read("clusters.yaml").contains("cluster.karmada.io"));
    let refused = sandbox.run("init --cluster ../up").code(2).err;
    assert!(refused.contains("the cluster name \"../up\" is refused"), "{refused}");
}

#[test]
fn clusters_of_federate_yaml_are_like_those_of_an_inventory() {
    let sandbox = Sandbox::new().file("web.yaml", WEB);
    sandbox.write(
        "federate.yaml",
        "clusters:
- {name: eu-1, region: eu, labels: {env: prod}}
- {name: us-1, region: us, labels: {env: prod}, taints: [{key: gpu, effect: NoSchedule}]}
- {name: test-1}
",
    );
    let select = "placement:\n    clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}\n";
    sandbox.write("policy.yaml", POLICY.replace("placement:\n", select));
    let out = sandbox.run("explain deploy/web").code(0).out;
    assert!(out.contains("✓ eu-1            4  chosen"), "{out}");
    assert!(out.contains("us-1            -  TaintToleration"), "{out}");
    sandbox.write("federate.yaml", "clusters: [{name: a/b}]\n");
    let err = sandbox.run("plan").code(2).err;
    assert!(err.contains("the cluster name \"a/b\" is refused: the name contains a path separator"), "{err}");
    sandbox.write("federate.yaml", "clusters: [{name: m1}]\n");
    sandbox.write("clusters.yaml", crate::sandbox::CLUSTERS);
    assert!(sandbox.run("plan").code(2).err.contains("error[duplicate-cluster]"));
}
