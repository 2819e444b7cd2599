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
fn bindings_that_are_left_out_are_named_with_the_reason() {
    let follower =
        BINDING.replace("  placement:", "  unused:").replace("web-deployment", "web-config-configmap");
    let deleted = BINDING.replace("web-deployment", "old-deployment").replace(
        "  namespace: shop\n  annot",
        "  namespace: shop\n  deletionTimestamp: 2026-01-01T00:00:00Z\n  annot",
    );
    let sandbox = Sandbox::new()
        .file("clusters.yaml", CLUSTERS)
        .file("bindings.yaml", format!("{BINDING}---\n{follower}---\n{deleted}"));
    let taken = sandbox.run("snapshot -f clusters.yaml bindings.yaml --out snapshot").code(0);
    let expected = "karmada: 2 clusters and 1 placement in snapshot
karmada: left out ResourceBinding shop/old-deployment: being deleted
karmada: left out ResourceBinding shop/web-config-configmap: without `spec.placement`, as for objects that follow others
";
    assert_eq!(taken.err, expected);
}

#[test]
fn a_plan_goes_on_from_a_snapshot() {
    let sandbox = Sandbox::new().file("clusters.yaml", CLUSTERS).file("bindings.yaml", BINDING);
    let taken = sandbox.run("snapshot -f clusters.yaml bindings.yaml --out repo").code(0);
    assert_eq!(taken.err, "karmada: 2 clusters and 1 placement in repo\n");
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
    sandbox.write("scheduler.yaml", scheduler("latest"));
    let said = sandbox.run(snapshot).code(0).err;
    assert!(said.contains("karmada: `latest` is not a known release of Karmada"), "{said}");
    // What is written is what runs, also where federate does not know it yet.
    sandbox.write("scheduler.yaml", scheduler("v1.18.9"));
    let said = sandbox.run(snapshot).code(0).err;
    assert!(
        said.contains("karmada: release 1.18.9 runs; write `dialects: {karmada: {version: \"1.18.9\"}}`"),
        "{said}"
    );
    assert!(
        said.contains("karmada: Karmada 1.18.9 is newer") && said.contains("the rules of 1.18.2 decide"),
        "{said}"
    );
    assert!(sandbox.read("repo/snapshot.yaml").contains("version: 1.18.9"));
    assert_eq!(planned("--karmada-version 1.18.2"), "");
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

/// Two clusters with free resources; `m2` has a taint.
const STATUSES: &str = "apiVersion: v1
kind: List
items:
- apiVersion: cluster.karmada.io/v1alpha1
  kind: Cluster
  metadata: {name: m1, labels: {stale: 'true'}}
  spec: {region: old}
  status: &status
    apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]
    resourceSummary: {allocatable: {cpu: '9', pods: '100'}, allocated: {cpu: '1', pods: '4'}}
- apiVersion: cluster.karmada.io/v1alpha1
  kind: Cluster
  metadata: {name: m2}
  spec:
    taints: [{key: cluster.karmada.io/not-ready, effect: NoSchedule, timeAdded: '2026-11-22T09:00:00Z'}]
  status: *status
";

/// A repo with an inventory without status, and a snapshot beside it.
fn observed() -> Sandbox {
    let sandbox = Sandbox::new().file("hub.yaml", STATUSES).file("bindings.yaml", BINDING);
    let sandbox = sandbox.file("repo/web.yaml", WEB).file("repo/policy.yaml", POLICY);
    let sandbox = sandbox.file("repo/clusters.yaml", crate::sandbox::CLUSTERS);
    sandbox.run("snapshot -f hub.yaml bindings.yaml --out snapshot --now 2026-11-22T10:00:00Z -q").code(0);
    sandbox
}

#[test]
fn the_spec_is_that_of_the_repo_and_the_status_that_of_the_snapshot() {
    let sandbox = observed();
    let clusters = |line: &str| sandbox.run(line).json()["placements"][0]["clusters"].to_string();
    assert_eq!(
        clusters("plan repo --snapshot snapshot -o json"),
        r#"[{"name":"m1","replicas":1},{"name":"m2","replicas":3}]"#
    );
    let fresh = "plan repo --snapshot snapshot --fresh -o json";
    assert_eq!(clusters(fresh), r#"[{"name":"m1","replicas":4}]"#, "m2 is tainted");
    sandbox.write("repo/policy.yaml", POLICY.replace("placement:", "placement:\n    clusterAffinity: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [old]}]}}"));
    assert!(
        sandbox.run(fresh).json()["placements"][0]["unschedulable"].is_object(),
        "the region is the repo's"
    );
    for command in ["render repo --out out", "check repo", "whatif repo --lose m1", "drift repo"] {
        assert!(!sandbox.run(&format!("{command} --snapshot snapshot")).err.contains("unexpected argument"));
    }
}

#[test]
fn a_snapshot_may_be_within_the_repo_or_in_a_revision() {
    let sandbox = observed();
    let plan = |arguments: &str| sandbox.run(&format!("plan repo -o json {arguments}")).code(0).json();
    let outside = plan("--snapshot snapshot");
    fs::rename(sandbox.path("snapshot"), sandbox.path("repo/snapshot")).unwrap();
    assert_eq!(plan("--snapshot repo/snapshot"), outside);
    for line in ["init -q -b main", "add -A", "commit -qm first"] {
        sandbox.git(line);
    }
    fs::remove_dir_all(sandbox.path("repo/snapshot")).unwrap();
    assert_eq!(plan("--snapshot main:repo/snapshot"), outside);
    let missing = sandbox.run("plan repo --snapshot main:repo/other").code(2);
    assert!(missing.err.contains("revision `main` has no folder `repo/other`"), "{missing:?}");
    // Without an inventory in the repo, the clusters are those of the snapshot.
    fs::remove_file(sandbox.path("repo/clusters.yaml")).unwrap();
    assert_eq!(plan("--snapshot main:repo/snapshot")["placements"], outside["placements"]);
}

#[test]
fn old_and_changed_snapshots_are_reported() {
    let sandbox = observed();
    let plan = |arguments: &str| sandbox.run(&format!("plan repo --snapshot snapshot {arguments}"));
    let old = plan("--max-age 36h --now 2026-11-24T10:00:00Z").code(2);
    assert!(
        old.err.contains("it was taken at 2026-11-22T10:00:00Z") && old.err.contains("--max-age"),
        "{old:?}"
    );
    plan("--max-age 36h --now 2026-11-23T10:00:00Z").code(0);
    let cluster = sandbox.read("snapshot/clusters/karmada/m1.yaml").replace("cpu: \"9\"", "cpu: \"90\"");
    sandbox.write("snapshot/clusters/karmada/m1.yaml", cluster);
    assert!(plan("").code(0).err.contains("warning[snapshot-changed]"));
    fs::remove_file(sandbox.path("snapshot/snapshot.yaml")).unwrap();
    let none = plan("").code(2);
    assert!(none.err.contains("cannot read the snapshot snapshot: it has no snapshot.yaml"), "{none:?}");
}

#[test]
fn the_facts_that_decided_are_named() {
    let sandbox = observed();
    let ran = sandbox.run("explain deployment/web repo --snapshot snapshot").code(0);
    let words =
        "Facts of the snapshot that decided\n  the earlier placement on m1 (1), m2 (3); without it: m1 (4)\n";
    assert!(ran.out.contains(words), "{}", ran.out);
    let fresh = sandbox.run("explain deployment/web repo --snapshot snapshot --fresh").code(0);
    let words = "  m2: the taint cluster.karmada.io/not-ready:NoSchedule; without it: m1 (2), m2 (2)\n";
    assert!(fresh.out.contains(words), "{}", fresh.out);
    let json = sandbox.run("explain deployment/web repo --snapshot snapshot --fresh -o json").code(0).json();
    assert_eq!(json["facts"][0]["kind"], "taint");
    assert!(!sandbox.run("explain deployment/web repo").code(0).out.contains("Facts"));
}

#[test]
fn the_state_of_a_cluster_decides_about_federated_objects() {
    let cluster = |name: &str, ready: &str| {
        format!(
            "---\napiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {{name: {name}, namespace: kube-federation-system}}\n\
             spec: {{apiEndpoint: 'https://{name}:6443', secretRef: {{name: {name}}}}}\nstatus: {{conditions: [{{type: Ready, status: '{ready}'}}]}}\n"
        )
    };
    let web = "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedDeployment\nmetadata: {name: web, namespace: shop}\nspec:\n  \
               template: {spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: c}]}}}}\n  \
               placement: {clusterSelector: {}}\n---\n\
               apiVersion: scheduling.kubefed.io/v1alpha1\nkind: ReplicaSchedulingPreference\nmetadata: {name: web, namespace: shop}\n\
               spec: {targetKind: FederatedDeployment, totalReplicas: 4}\n---\n\
               apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
               apiVersion: types.kubefed.io/v1beta1\nkind: FederatedNamespace\nmetadata: {name: shop, namespace: shop}\n\
               spec: {placement: {clusterSelector: {}}}\n";
    let sandbox = Sandbox::new().file("hub.yaml", &(cluster("m1", "False") + &cluster("m2", "True")));
    sandbox.run("snapshot -f hub.yaml --out snapshot").code(0);
    sandbox.write("repo/web.yaml", web);
    let ran = sandbox.run("explain deployment/web repo --snapshot snapshot").code(0);
    let words = "  m1: it is not ready; if it was ready: m1 (2), m2 (2)\n";
    assert!(ran.out.contains(words), "{}", ran.out);
}

#[test]
fn the_number_of_nodes_that_decided_is_named() {
    let cluster = |name: &str, nodes: u8| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1beta1\nkind: MemberCluster\nmetadata: {{name: {name}}}\nspec: {{}}\n\
             status:\n  conditions: [{{type: Joined, status: 'True'}}]\n  \
             agentStatus: [{{type: MemberAgent, conditions: [{{type: Joined, status: 'True'}}, {{type: Healthy, status: 'True'}}]}}]\n  \
             properties: {{kubernetes-fleet.io/node-count: {{value: '{nodes}'}}}}\n"
        )
    };
    let policy = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: large}\nspec:\n  \
                  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]\n  \
                  policy: {placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {\
                  clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: kubernetes-fleet.io/node-count, operator: Ge, values: ['3']}]}}]}}}}\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let sandbox = Sandbox::new().file("hub.yaml", &(cluster("m1", 2) + &cluster("m2", 5)));
    sandbox.run("snapshot -f hub.yaml --out snapshot").code(0);
    sandbox.write("repo/policy.yaml", policy);
    sandbox.write("repo/shop.yaml", namespace);
    let ran = sandbox.run("explain namespace/shop repo --snapshot snapshot").code(0);
    let words = "  m2: its properties: kubernetes-fleet.io/node-count 5; without them: no cluster\n";
    assert!(ran.out.contains(words), "{}", ran.out);
    assert!(!ran.out.contains("m1: its properties"), "{}", ran.out);
}

#[test]
fn a_file_that_is_not_a_plan_is_not_a_memory() {
    let sandbox = Sandbox::web().file("other.yaml", "a: b\n").file("other.json", r#"{"a": "b"}"#);
    sandbox.write(".federateignore", "other.*");
    for file in ["other.yaml", "other.json"] {
        let ran = sandbox.run(&format!("plan --previous {file}")).code(2);
        assert!(ran.err.contains("neither `kind: Plan` nor `placements`"), "{ran:?}");
    }
}
