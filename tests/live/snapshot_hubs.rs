//! `federate snapshot --hub-context` from the API servers of KubeAdmiral, KubeFleet, KubeFed and Open Cluster Management.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::snapshot::offline;

/// A kind on the hub: group, version, kind, plural, scope.
pub(crate) type Kind = [&'static str; 5];

/// Serves a kind on the hub.
pub(crate) fn define(sandbox: &Sandbox, kind: Kind) {
    define_on(sandbox, "hub", kind);
}

/// Serves a kind in a cluster.
pub(crate) fn define_on(sandbox: &Sandbox, cluster: &str, [group, version, kind, plural, scope]: Kind) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]},
    });
    sandbox.create_global(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
}

/// Creates an object of a kind on the hub.
fn create(sandbox: &Sandbox, [group, version, kind, plural, scope]: Kind, mut body: Value) {
    body["apiVersion"] = format!("{group}/{version}").into();
    body["kind"] = kind.into();
    let namespace = if scope == "Namespaced" { "/namespaces/shop" } else { "" };
    sandbox.create_soon("hub", &format!("/apis/{group}/{version}{namespace}/{plural}"), &body);
}

/// A hub that serves some kinds.
fn hub(kinds: &[Kind]) -> Sandbox {
    let sandbox = Sandbox::anywhere_alone(&["hub"]);
    for kind in kinds {
        define(&sandbox, *kind);
    }
    sandbox.create_namespace("hub");
    sandbox
}

/// Takes a snapshot of the hub, and returns its description on standard error and the plan in it.
fn snapshot(sandbox: &Sandbox) -> (String, String) {
    let ran = sandbox.run("snapshot", "--out snapshot --hub-context hub --no-members").code(0);
    let plan = fs::read_to_string(sandbox.path("snapshot/placements.yaml")).unwrap();
    (ran.err, sandbox.known(&plan))
}

fn web() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}})
}

#[test]
fn a_hub_of_kubeadmiral_says_where_objects_are() {
    let cluster = ["core.kubeadmiral.io", "v1alpha1", "FederatedCluster", "federatedclusters", "Cluster"];
    let object = ["core.kubeadmiral.io", "v1alpha1", "FederatedObject", "federatedobjects", "Namespaced"];
    let sandbox = hub(&[cluster, object]);
    create(
        &sandbox,
        cluster,
        json!({"metadata": {"name": "m1"}, "spec": {}, "status": {"conditions": [
        {"type": "Joined", "status": "True"}, {"type": "Ready", "status": "True"}]}}),
    );
    create(
        &sandbox,
        object,
        json!({"metadata": {"name": "web-deployments.apps", "namespace": "shop"}, "spec": {
        "template": web(),
        "placements": [{"controller": "kubeadmiral.io/global-scheduler", "placement": [{"cluster": "m1"}]}],
        "overrides": [{"controller": "kubeadmiral.io/global-scheduler", "clusters": [{"cluster": "m1", "patches": [
            {"op": "replace", "path": "/spec/replicas", "value": 5}]}]}]}}),
    );
    let (said, plan) = snapshot(&sandbox);
    assert!(said.contains("kubeadmiral: 1 cluster and 1 placement in snapshot"), "{said}");
    assert!(plan.contains("  - name: m1\n    replicas: 5\n"), "{plan}");
    assert!(sandbox.path("snapshot/clusters/kubeadmiral/m1.yaml").exists());
}

#[test]
fn a_hub_of_kubefed_says_where_objects_are() {
    let cluster = ["core.kubefed.io", "v1beta1", "KubeFedCluster", "kubefedclusters", "Namespaced"];
    let object = ["types.kubefed.io", "v1beta1", "FederatedDeployment", "federateddeployments", "Namespaced"];
    let sandbox = hub(&[cluster, object]);
    create(
        &sandbox,
        cluster,
        json!({"metadata": {"name": "m1", "namespace": "shop"},
        "spec": {"apiEndpoint": "https://m1", "secretRef": {"name": "m1"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let template = web();
    create(
        &sandbox,
        object,
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {
        "template": {"spec": template["spec"]}, "placement": {"clusters": [{"name": "m1"}]},
        "overrides": [{"clusterName": "m1", "clusterOverrides": [{"path": "/spec/replicas", "value": 5}]}]}}),
    );
    let (said, plan) = snapshot(&sandbox);
    assert!(said.contains("kubefed: 1 cluster and 1 placement in snapshot"), "{said}");
    assert!(plan.contains("  - name: m1\n    replicas: 5\n"), "{plan}");
}

#[test]
fn a_hub_of_kubefleet_says_where_objects_are() {
    let group = "placement.kubernetes-fleet.io";
    let cluster = ["cluster.kubernetes-fleet.io", "v1beta1", "MemberCluster", "memberclusters", "Cluster"];
    let placement = [group, "v1beta1", "ClusterResourcePlacement", "clusterresourceplacements", "Cluster"];
    let binding = [group, "v1beta1", "ClusterResourceBinding", "clusterresourcebindings", "Cluster"];
    let policy =
        [group, "v1beta1", "ClusterSchedulingPolicySnapshot", "clusterschedulingpolicysnapshots", "Cluster"];
    let sandbox = hub(&[cluster, placement, binding, policy]);
    create(
        &sandbox,
        cluster,
        json!({"metadata": {"name": "m1"}, "spec": {"identity": {"name": "m1", "kind": "User"}},
        "status": {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": "2026-11-22T10:00:00Z",
            "conditions": [{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": "True"}]}]}}),
    );
    create(
        &sandbox,
        placement,
        json!({"metadata": {"name": "shop", "generation": 1}, "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
        "policy": {"placementType": "PickAll"}}, "status": {"observedResourceIndex": "1"}}),
    );
    let labels = json!({"kubernetes-fleet.io/parent-CRP": "shop", "kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/policy-index": "0"});
    create(
        &sandbox,
        policy,
        json!({"metadata": {"name": "shop-0", "labels": labels,
        "annotations": {"kubernetes-fleet.io/CRP-generation": "1"}},
        "spec": {"policy": {"placementType": "PickAll"}, "policyHash": "aA=="}}),
    );
    create(
        &sandbox,
        binding,
        json!({"metadata": {"name": "shop-m1", "labels": {"kubernetes-fleet.io/parent-CRP": "shop"}},
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "AllWorkAreAvailable",
            "message": "all", "observedGeneration": 1, "lastTransitionTime": "2026-11-22T10:00:00Z"}]},
        "spec": {"state": "Bound", "targetCluster": "m1", "schedulingPolicySnapshotName": "shop-0",
            "resourceSnapshotName": "shop-0-snapshot", "clusterDecision": {"clusterName": "m1", "selected": true, "reason": "picked"}}}),
    );
    let (said, plan) = snapshot(&sandbox);
    assert!(said.contains("kubefleet: 1 cluster and 1 placement in snapshot"), "{said}");
    assert!(plan.contains("ClusterResourcePlacement") && plan.contains("  - name: m1\n"), "{plan}");
    assert!(plan.contains("resources: old") && plan.contains("AllWorkAreAvailable"), "{plan}");
    assert!(!plan.contains("message"), "{plan}");
}

#[test]
fn a_hub_of_open_cluster_management_says_what_its_scheduler_reads() {
    let group = "cluster.open-cluster-management.io";
    let cluster = [group, "v1", "ManagedCluster", "managedclusters", "Cluster"];
    let set = [group, "v1beta2", "ManagedClusterSet", "managedclustersets", "Cluster"];
    let binding = [group, "v1beta2", "ManagedClusterSetBinding", "managedclustersetbindings", "Namespaced"];
    let decision = [group, "v1beta1", "PlacementDecision", "placementdecisions", "Namespaced"];
    let score = [group, "v1alpha1", "AddOnPlacementScore", "addonplacementscores", "Namespaced"];
    let sandbox = hub(&[cluster, set, binding, decision, score]);
    let status = json!({"conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True"}]});
    for name in ["m1", "shop"] {
        create(
            &sandbox,
            cluster,
            json!({"metadata": {"name": name, "labels": {"team": "shop"}}, "spec": {}, "status": status}),
        );
    }
    let selector =
        json!({"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"team": "shop"}}});
    create(&sandbox, set, json!({"metadata": {"name": "team"}, "spec": {"clusterSelector": selector}}));
    create(
        &sandbox,
        binding,
        json!({"metadata": {"name": "team", "namespace": "shop"}, "spec": {"clusterSet": "team"}}),
    );
    let labels = json!({"cluster.open-cluster-management.io/placement": "web"});
    create(
        &sandbox,
        decision,
        json!({"metadata": {"name": "web-decision-1", "namespace": "shop", "labels": labels},
        "status": {"decisions": [{"clusterName": "m1", "reason": ""}]}}),
    );
    create(
        &sandbox,
        score,
        json!({"metadata": {"name": "usage", "namespace": "shop"}, "status": {"scores": [{"name": "free", "value": 70}]}}),
    );
    let (said, plan) = snapshot(&sandbox);
    assert!(said.contains("ocm: 2 clusters and 1 placement in snapshot"), "{said}");
    assert!(plan.contains("kind: Placement") && plan.contains("  - name: m1\n"), "{plan}");
    let recorded =
        |kind: &str| fs::read_to_string(sandbox.path(&format!("snapshot/recorded/ocm/{kind}.yaml"))).unwrap();
    assert!(recorded("ManagedClusterSet").contains("selectorType: LabelSelector"));
    assert!(recorded("ManagedClusterSetBinding").contains("clusterSet: team"));
    let scores = recorded("AddOnPlacementScore");
    assert!(scores.contains("value: 70") && !scores.contains("resourceVersion"), "{scores}");

    // A repo that has neither clusters nor sets decides with those of the snapshot.
    for file in ["clusters.yaml", "policy.yaml", "web.yaml"] {
        sandbox.remove(file);
    }
    let placement = |rest: &str| {
        let head = "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n";
        let spec = format!(
            "clusterSets: [team], numberOfClusters: 1, prioritizerPolicy: {{mode: Exact, configurations: [{rest}]}}"
        );
        sandbox.write(
            "placement.yaml",
            &format!("{head}metadata: {{name: web, namespace: shop}}\nspec: {{{spec}}}\n"),
        );
        offline(&sandbox, "plan repo --snapshot snapshot -q").code(0).out
    };
    let steady = placement("{scoreCoordinate: {builtIn: Steady}}");
    assert!(steady.contains("m1"), "the decision is the memory: {steady}");
    let free = placement("{scoreCoordinate: {type: AddOn, addOn: {resourceName: usage, scoreName: free}}}");
    assert!(free.contains("shop") && !free.contains("m1"), "the score is that of the snapshot: {free}");
    // A binding of the repo takes the place of all of the snapshot.
    sandbox.write(
        "binding.yaml",
        "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {name: global, \
         namespace: shop}\nspec: {clusterSet: global}\n",
    );
    let explained = offline(&sandbox, "explain placement/web repo -n shop --snapshot snapshot").code(0).out;
    assert!(explained.contains("none of the sets team is bound to the namespace shop"), "{explained}");
}
