//! A repo for `KubeFed`: plan, explanation and rendering.

use crate::sandbox::Sandbox;

const CLUSTERS: &str = "apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: alpha, namespace: kube-federation-system, labels: {env: prod}}
---
apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: beta, namespace: kube-federation-system, labels: {env: prod}}
---
apiVersion: core.kubefed.io/v1beta1
kind: KubeFedCluster
metadata: {name: gamma, namespace: kube-federation-system}
status: {conditions: [{type: Ready, status: \"False\"}]}
";

const SHOP: &str = "apiVersion: types.kubefed.io/v1beta1
kind: FederatedNamespace
metadata: {name: shop, namespace: shop}
spec: {placement: {clusters: [{name: alpha}, {name: gamma}]}}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedDeployment
metadata: {name: web, namespace: shop}
spec:
  template: {spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: a}]}}}}
  overrides:
  - clusterName: alpha
    clusterOverrides: [{path: /spec/template/spec/containers/0/image, value: b}]
---
apiVersion: scheduling.kubefed.io/v1alpha1
kind: ReplicaSchedulingPreference
metadata: {name: web, namespace: shop}
spec: {targetKind: FederatedDeployment, totalReplicas: 10}
";

fn shop() -> Sandbox {
    let repo = Sandbox::new();
    repo.write("clusters.yaml", CLUSTERS);
    repo.write("shop.yaml", SHOP);
    repo
}

#[test]
fn each_cluster_is_explained() {
    let ran = shop().run("explain deployment/web").code(0);
    for words in [
        "Deployment shop/web (shop.yaml:15), placed by kubefed",
        "ReplicaSchedulingPreference shop/web (shop.yaml:15) decides clusters and replicas",
        "FederatedNamespace shop/shop (shop.yaml:1) limits it",
        "round 1, 10 by weight over 2",
        "FederatedNamespace shop/shop excludes it: not named in `placement.clusters`; the 5 replicas scheduled there are lost",
        "it is not ready, so the scheduler skips it",
        "alpha: FederatedDeployment shop/web (shop.yaml:6) changed /spec/template/spec/containers[name=web]/image",
        "alpha: ReplicaSchedulingPreference shop/web (shop.yaml:15) changed /spec/replicas",
    ] {
        assert!(ran.out.contains(words), "`{words}` is not in\n{}", ran.out);
    }
}

#[test]
fn lost_replicas_and_useless_policies_are_reported() {
    let ran = shop().run("check").code(1);
    for words in [
        "warning[not-ready]: cluster `gamma` is not ready",
        "warning[lost-replicas]: 5 replicas of Deployment shop/web are lost: they are scheduled into beta",
    ] {
        assert!(ran.out.contains(words), "`{words}` is not in\n{}", ran.out);
    }
    assert!(!ran.out.contains("unused-policy"), "{}", ran.out);
}

#[test]
fn a_plain_template_is_explained_by_what_placed_it() {
    let repo = Sandbox::new();
    repo.write("clusters.yaml", "{apiVersion: federation/v1beta1, kind: Cluster, metadata: {name: a}}\n");
    repo.write(
        "job.yaml",
        "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completions: 7}}\n",
    );
    let ran = repo.run("explain job/j").code(0);
    for words in
        ["placed by kubefed", "Federation v1 sends everything to every ready cluster", "completions:"]
    {
        assert!(ran.out.contains(words), "`{words}` is not in\n{}", ran.out);
    }
}

#[test]
fn a_withdrawn_workload_stays_and_the_folder_is_still_ones_own() {
    let repo = Sandbox::new();
    let cluster = |name: &str| {
        format!("{{apiVersion: federation/v1beta1, kind: Cluster, metadata: {{name: {name}}}}}\n")
    };
    repo.write("clusters.yaml", cluster("a") + "---\n" + &cluster("b"));
    let web = |annotations: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop, annotations: {annotations}}}\nspec: {{replicas: 4}}\n"
        )
    };
    repo.write(
        "web.yaml",
        web("{federation.kubernetes.io/deployment-preferences: '{\"clusters\": {\"*\": {\"weight\": 1}}}'}"),
    );
    repo.run("render --out out").code(0);
    repo.write("web.yaml", web("{federation.kubernetes.io/hpa-target-cluster-list: '{\"Names\": [\"a\"]}'}"));
    // The folder accounts for the remaining file, and so does the plan for the next run.
    for _ in 0..2 {
        repo.run("render --out out").code(0);
        assert!(repo.read("out/b/shop/deployment.apps_web.yaml").contains("replicas: 0"));
        assert!(repo.read("out/a/shop/deployment.apps_web.yaml").contains("replicas: 2"));
    }
}

#[test]
fn a_preference_concerns_objects_of_its_kind_only() {
    let repo = shop();
    let service = "---\napiVersion: types.kubefed.io/v1beta1\nkind: FederatedService\nmetadata: {name: web, namespace: shop}\n\
                   spec:\n  template: {spec: {ports: [{port: 80}]}}\n  placement: {clusters: [{name: alpha}]}\n";
    repo.write("service.yaml", service);
    let found = repo.run("check .").out;
    assert!(!found.contains("FederatedService"), "{found}");
}

#[test]
fn scenarios_scale_what_federated_objects_carry() {
    // The preference divides what it is scaled to; beta is not selected by the namespace.
    let ran = shop().run("whatif --scale deployment/shop/web=+100% -o json").code(1).json();
    let losses = ran["losses"].as_array().unwrap();
    assert_eq!((losses.len(), &losses[0]["added"]), (1, &serde_json::json!(5)), "{ran:#}");
    let ran = shop().run("whatif --scale deployment/shop/nothing=2").code(2);
    assert!(ran.err.contains("the repo has no template"), "{}", ran.err);
}
