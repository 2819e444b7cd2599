//! Dependencies of a workload follow it, also if a `*.j2` template refers to different objects per cluster.

use crate::sandbox::Sandbox;

/// A Deployment that takes its settings from a `ConfigMap` and a Secret named after the cluster.
fn deployment(labels: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
{labels}spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
      - name: web
        image: nginx:1.27
        envFrom:
        - configMapRef: {{name: \"web-{{{{ cluster.name }}}}\"}}
        - secretRef: {{name: shared}}
"
    )
}

const REFERRED: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: web-m1, namespace: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web-m2, namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: shared, namespace: shop}
";

const KARMADA: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  propagateDeps: true
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [m1, m2]}}
";

const KUBEADMIRAL: &str = "apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: m1}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: FederatedCluster
metadata: {name: m2}
---
apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec: {schedulingMode: Duplicate}
";

#[test]
fn each_cluster_receives_what_its_own_manifest_refers_to() {
    let label = "  labels: {kubeadmiral.io/propagation-policy-name: web}\n";
    for (dialect, labels, policy) in [("karmada", "", KARMADA), ("kubeadmiral", label, KUBEADMIRAL)] {
        let repo = Sandbox::new()
            .file("web.yaml.j2", deployment(labels))
            .file("referred.yaml", REFERRED)
            .file("policy.yaml", policy);
        let ran = repo.run("render --out out");
        assert_eq!(ran.code, 0, "{dialect}: {}{}", ran.out, ran.err);
        assert!(!ran.err.contains("web-m2"), "{dialect}: {}", ran.err);
        for (cluster, other) in [("m1", "m2"), ("m2", "m1")] {
            let files = repo.files(&format!("out/{cluster}")).join("\n");
            let has = |name: &str| files.contains(name);
            assert!(has("web.yaml") && has("shared"), "{dialect}: {files}");
            assert!(has(&format!("web-{cluster}")) && !has(&format!("web-{other}")), "{dialect}: {files}");
        }
    }
}

#[test]
fn what_keeps_an_object_from_following_is_named() {
    let web = deployment("").replace("web-{{ cluster.name }}", "web-m1");
    let run = |policy: &str| {
        let repo =
            Sandbox::new().file("web.yaml", &web).file("referred.yaml", REFERRED).file("policy.yaml", policy);
        repo.run("check").out
    };
    let nowhere = run(&KARMADA.replace("clusterNames: [m1, m2]", "labelSelector: {matchLabels: {a: b}}"));
    let expected = "warning[unschedulable]: ConfigMap shop/web-m1: it goes where Deployment shop/web goes, which is on no cluster";
    assert!(nowhere.contains(expected), "{nowhere}");
    assert!(nowhere.contains("`federate explain Deployment/web` shows why"), "{nowhere}");
    let refused = "apiVersion: federate.dev/v1alpha1\nkind: Config\nunplaced: error\n";
    let repo =
        Sandbox::new().file("web.yaml", &web).file("referred.yaml", REFERRED).file("federate.yaml", refused);
    repo.write(
        "policy.yaml",
        KARMADA.replace("clusterNames: [m1, m2]", "labelSelector: {matchLabels: {a: b}}"),
    );
    let checked = repo.run("check").code(2).out;
    assert!(checked.contains("error[unschedulable]: ConfigMap shop/web-m1"), "{checked}");
    assert!(checked.contains("warning[unschedulable]: Deployment shop/web"), "{checked}");
    let alone = run(&KARMADA.replace("  propagateDeps: true\n", ""));
    let expected =
        "Deployment shop/web refers to it: set `propagateDeps: true` in PropagationPolicy shop/web, ";
    assert!(alone.contains(expected), "{alone}");
}
