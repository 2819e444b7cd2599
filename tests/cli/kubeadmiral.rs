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
