//! Overrides of KubeAdmiral that add labels and annotations to templates without any.

use serde_json::json;

use crate::sandbox::Sandbox;

const REPO: &str = "apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: m1}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: shop}
spec: {schedulingMode: Duplicate}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: OverridePolicy
metadata: {name: team, namespace: shop}
spec:
  overrideRules:
  - overriders:
      jsonpatch:
      - {operator: add, path: /metadata/annotations/team, value: x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: shop, labels: LABELS}
";

#[test]
fn patches_add_to_labels_and_annotations_that_the_template_lacks() {
    let labels = json!({
        "kubeadmiral.io/propagation-policy-name": "all",
        "kubeadmiral.io/override-policy-name": "team",
    });
    let repo = Sandbox::new().file("repo.yaml", REPO.replace("LABELS", &labels.to_string()));
    repo.run("render . --out out").code(0);
    let text = repo.read("out/m1/shop/configmap_conf.yaml");
    assert!(text.contains("  annotations:\n    team: x\n"), "{text}");
    assert!(!text.contains("labels"), "{text}");
}

const MIGRATING: &str = "apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: m1}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: m2}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: divided, namespace: shop}
spec:
  schedulingMode: Divide
  autoMigration: {when: {podUnschedulableFor: 1m}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {kubeadmiral.io/propagation-policy-name: divided}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
";

/// A Deployment with two pods that fit on no node since a time.
fn stuck_since(time: &str) -> String {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let owner = |kind: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": true}]);
    let metadata = |name: &str, uid: &str, owners: &serde_json::Value| json!({"name": name, "namespace": "shop", "uid": uid, "labels": {"app": "web"}, "ownerReferences": owners});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web", "d", &json!([])),
        "spec": {"replicas": 2, "selector": selector, "template": template},
        "status": {"replicas": 2, "readyReplicas": 0}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": metadata("web-1", "r", &owner("Deployment", "d")),
        "spec": {"replicas": 2, "selector": selector, "template": template}});
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, name, &owner("ReplicaSet", "r")),
            "spec": {"containers": []},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "lastTransitionTime": time}]}})
    };
    let all = [deployment, set, pod("web-1-a"), pod("web-1-b")];
    all.map(|object| format!("---\n{object}\n")).concat()
}

#[test]
fn replicas_migrate_away_from_pods_that_are_stuck_in_a_cluster() {
    let repo = Sandbox::new().file("repo.yaml", MIGRATING);
    repo.run("render . --out out").code(0);
    let replicas = |minute: &str| {
        let line = "plan . --previous out/placements.yaml --observed .live -o json --now 2026-11-20T12:";
        let plan = repo.run(&format!("{line}{minute}:00Z")).code(0).json();
        let clusters = plan["placements"][0]["clusters"].as_array().unwrap();
        clusters.iter().map(|placed| format!("{} {}", placed["name"], placed["replicas"])).collect::<Vec<_>>()
    };
    repo.write(".live/m1/objects.yaml", stuck_since("2026-11-20T12:00:00Z"));
    // The threshold of the policy is a minute.
    assert_eq!(replicas("00"), ["\"m1\" 2", "\"m2\" 2"]);
    assert_eq!(replicas("02"), ["\"m2\" 4"]);
}
