//! `federate snapshot`: turns a dump of a hub into an inventory and the memory of a plan.

use std::fs;

use crate::sandbox::{POLICY, Sandbox, WEB};

const CLUSTERS: &str = "apiVersion: v1
kind: List
items:
- apiVersion: cluster.karmada.io/v1alpha1
  kind: Cluster
  metadata: {name: m1, resourceVersion: '7', managedFields: []}
  spec: {region: eu}
  status:
    kubernetesVersion: v1.34.2
    apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]
- apiVersion: cluster.karmada.io/v1alpha1
  kind: Cluster
  metadata: {name: m2}
  spec: {region: us}
  status:
    apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: other, namespace: shop}
";

const BINDING: &str = "apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata:
  name: web-deployment
  namespace: shop
  annotations:
    policy.karmada.io/applied-placement: '{\"replicaScheduling\":{\"replicaSchedulingType\":\"Divided\"}}'
    propagationpolicy.karmada.io/name: web
    propagationpolicy.karmada.io/namespace: shop
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}
  replicas: 4
  placement: {replicaScheduling: {replicaSchedulingType: Divided}}
  clusters: [{name: m2, replicas: 3}, {name: m1, replicas: 1}]
";

#[test]
fn a_plan_goes_on_from_a_snapshot() {
    let sandbox = Sandbox::new().file("clusters.yaml", CLUSTERS).file("bindings.yaml", BINDING);
    let taken = sandbox.run("snapshot -f clusters.yaml bindings.yaml --out repo").code(0);
    assert_eq!(taken.err, "karmada: 2 clusters and 1 placements in repo\n");
    let cluster = sandbox.read("repo/clusters/karmada/m1.yaml");
    assert!(cluster.contains("v1.34.2") && !cluster.contains("resourceVersion"), "{cluster}");
    sandbox.write("repo/web.yaml", WEB);
    sandbox.write("repo/policy.yaml", POLICY);
    let clusters = |line: &str| sandbox.run(line).json()["placements"][0]["clusters"].to_string();
    let fresh = clusters("plan repo -o json");
    let next = clusters("plan repo --previous repo/placements.yaml -o json");
    assert_eq!(fresh, r#"[{"name":"m1","replicas":2},{"name":"m2","replicas":2}]"#);
    assert_eq!(next, r#"[{"name":"m1","replicas":1},{"name":"m2","replicas":3}]"#);
}

#[test]
fn the_installation_says_which_release_decided() {
    let scheduler = |tag: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: karmada-scheduler, namespace: karmada-system}}\n\
             spec: {{template: {{spec: {{containers: [{{name: s, image: 'docker.io/karmada/karmada-scheduler:{tag}'}}]}}}}}}\n"
        )
    };
    let sandbox = Sandbox::new().file("hub.yaml", CLUSTERS).file("bindings.yaml", BINDING);
    sandbox.write("scheduler.yaml", scheduler("v1.15.3"));
    let snapshot = "snapshot -f hub.yaml bindings.yaml scheduler.yaml --out repo";
    let said = sandbox.run(snapshot).code(0).err;
    assert!(
        said.contains("karmada: release 1.15.3 runs; write `dialects: {karmada: {version: \"1.15.3\"}}`"),
        "{said}"
    );
    assert!(sandbox.read("repo/snapshot.yaml").contains("version: 1.15.3"));
    sandbox.write("repo/web.yaml", WEB);
    sandbox.write("repo/policy.yaml", POLICY);
    let planned = |arguments: &str| {
        sandbox.run(&format!("plan repo --previous repo/placements.yaml {arguments}")).code(0).err
    };
    assert!(planned("").contains("warning[other-release]"));
    assert_eq!(planned("--karmada-version 1.15.3"), "");
    sandbox.write("scheduler.yaml", scheduler("v1.40.0"));
    let said = sandbox.run(snapshot).code(0).err;
    assert!(said.contains("karmada: `v1.40.0` is not a known release of Karmada"), "{said}");
}

#[test]
fn only_a_snapshot_is_replaced() {
    let sandbox = Sandbox::new().file("hub.yaml", CLUSTERS).file("mine/notes.txt", "keep");
    let refused = sandbox.run("snapshot -f hub.yaml --out mine -q").code(2);
    assert!(refused.err.contains("choose a new or empty folder"), "{refused:?}");
    for _ in 0..2 {
        sandbox.run("snapshot -f hub.yaml --out snapshot -q").code(0);
    }
    let first = sandbox.read("snapshot/snapshot.yaml");
    assert!(first.contains("kind: Snapshot") && first.contains("digest: sha256:"), "{first}");
    assert!(fs::read_dir(sandbox.path(".")).unwrap().count() == 3, "nothing is left beside it");
}

#[test]
fn a_dump_without_a_control_plane_is_an_error() {
    let sandbox = Sandbox::new().file("web.yaml", WEB);
    let refused = sandbox.run("snapshot -f web.yaml --out snapshot").code(2);
    assert!(refused.err.contains("neither an inventory object nor a binding"), "{refused:?}");
    assert!(!sandbox.path("snapshot").exists());
}
