//! Members of other versions of Kubernetes, also beside one another.
//!
//! Only on the API server for tests: it is made to serve what a version serves.

use crate::sandbox::{Sandbox, WEB, config, deployment};
use federate_test_apiserver::{Fleet, TestCluster};

/// Kinds that not all of these versions serve: the first version that does, and the kind.
const SINCE: [(u32, &str, &str); 3] = [
    (33, "networking.k8s.io/v1", "ServiceCIDR"),
    (34, "resource.k8s.io/v1", "ResourceClaimTemplate"),
    (34, "storage.k8s.io/v1", "VolumeAttributesClass"),
];

fn of_version(name: &str, minor: u32) -> TestCluster {
    let served = SINCE.iter().filter(|(since, ..)| *since <= minor);
    served.fold(TestCluster::new(name), |cluster, (_, version, kind)| cluster.with_kind(version, kind))
}

const CLAIM: &str = "apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: shop}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
";
const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: claims, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate}]
  placement: {clusterAffinity: {}}
";

#[test]
fn every_version_is_applied_to_and_compared_with() {
    let versions: Vec<u32> = (30..=36).collect();
    let names: Vec<String> = versions.iter().map(|minor| format!("v1-{minor}")).collect();
    let clusters = names.iter().zip(&versions).map(|(name, minor)| of_version(name, *minor)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sandbox = Sandbox::simulated_by(&names, Fleet::serve_clusters(clusters).unwrap())
        .file("a.yaml", &config("a", "1"));
    sandbox.apply("").code(0);
    for name in &names {
        assert!(sandbox.has(name, WEB), "{name}");
        sandbox.forget(name);
    }
    sandbox.apply("").code(0);
    sandbox.run("drift", "").code(0);
    for name in &names {
        sandbox.wrote(name, 0);
    }
}

#[test]
fn a_kind_that_a_member_does_not_serve_yet_fails_there_alone() {
    let clusters = vec![of_version("old", 30), of_version("new", 36)];
    let sandbox = Sandbox::simulated_by(&["old", "new"], Fleet::serve_clusters(clusters).unwrap())
        .file("claim.yaml", CLAIM)
        .file("claims.yaml", POLICY);
    sandbox.apply("").code(2);
    for arguments in ["--dry-run=server -o json", "-o json"] {
        let ran = sandbox.apply(arguments).code(2);
        let claim = ran.action("old", "ResourceClaimTemplate", "gpu");
        assert_eq!(claim["outcome"], "failed", "{claim}");
        let why = "the cluster does not serve resource.k8s.io/v1 ResourceClaimTemplate";
        assert!(claim["error"].as_str().unwrap().starts_with(why), "{claim}");
        assert_eq!(ran.action("new", "ResourceClaimTemplate", "gpu")["action"], "unchanged");
    }
    assert!(sandbox.has("old", WEB) && sandbox.has("new", WEB));
    assert!(sandbox.has("new", "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaimtemplates/gpu"));
}

#[test]
fn a_field_that_a_member_does_not_know_yet_fails_there_alone() {
    let clusters = vec![
        of_version("old", 36),
        of_version("new", 36).with_added_field("apps/v1", "Deployment", &["spec", "pace"]),
    ];
    let web = deployment("nginx:1.27").replace("  replicas: 2\n", "  replicas: 2\n  pace: slow\n");
    let sandbox = Sandbox::simulated_by(&["old", "new"], Fleet::serve_clusters(clusters).unwrap())
        .file("a.yaml", &config("a", "1"))
        .file("web.yaml", &web);
    let ran = sandbox.apply("-o json").code(2);
    let old = ran.action("old", "Deployment", "web");
    assert_eq!(old["outcome"], "failed", "{old}");
    assert!(old["error"].as_str().unwrap().contains("pace"), "{old}");
    assert_eq!(ran.action("old", "ConfigMap", "a")["outcome"], "done");
    assert_eq!(ran.action("new", "Deployment", "web")["outcome"], "done");
    assert_eq!(sandbox.get("new", WEB)["spec"]["pace"], "slow");
}
