//! Several dialects in one repo: every dialect with every inventory, and two claims on one object.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// One cluster of each kind of inventory, without status.
const INVENTORIES: [(&str, &str); 6] = [
    ("Cluster", "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\n"),
    ("FederatedCluster", "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\n"),
    ("MemberCluster", "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\n"),
    ("KubeFedCluster", "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\n"),
    ("federation Cluster", "apiVersion: federation/v1beta1\nkind: Cluster\n"),
    ("ManagedCluster", "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\n"),
];

fn cluster(head: &str, name: &str, env: &str) -> String {
    let namespace =
        if head.contains("KubeFedCluster") { "  namespace: kube-federation-system\n" } else { "" };
    format!("{head}metadata:\n  name: {name}\n{namespace}  labels: {{env: {env}}}\n")
}

fn deployment(metadata: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: shop\n{metadata}spec:\n  replicas: 4\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: c, image: nginx}}]}}\n"
    )
}

/// A Deployment for the clusters labelled `env: prod`, in each dialect.
fn placed_by(dialect: &str) -> String {
    match dialect {
        "karmada" => format!("{}---\n{KARMADA}", deployment("")),
        "kubeadmiral" => {
            let label = "  labels: {kubeadmiral.io/propagation-policy-name: web}\n";
            format!("{}---\n{KUBEADMIRAL}", deployment(label))
        }
        "kubefleet" => format!("{}---\n{KUBEFLEET}", deployment("")),
        "kubefed" => KUBEFED.to_owned(),
        "ocm" => OCM.to_owned(),
        _ => deployment(V1),
    }
}

const KARMADA: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}}
";

const KUBEADMIRAL: &str = "apiVersion: core.kubeadmiral.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  schedulingMode: Duplicate
  clusterSelector: {env: prod}
";

const KUBEFLEET: &str = "apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: shop}
spec:
  resourceSelectors: [{group: \"\", version: v1, kind: Namespace, name: shop}]
  policy:
    affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {env: prod}}}]}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
";

const KUBEFED: &str = "apiVersion: types.kubefed.io/v1beta1
kind: FederatedDeployment
metadata: {name: web, namespace: shop}
spec:
  template: {spec: {replicas: 4}}
  placement: {clusterSelector: {matchLabels: {env: prod}}}
---
apiVersion: types.kubefed.io/v1beta1
kind: FederatedNamespace
metadata: {name: shop, namespace: shop}
spec: {placement: {clusterSelector: {}}}
";

const OCM: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: shop}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: prod, namespace: shop}
spec: {predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {env: prod}}}}]}
---
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: web, namespace: shop}
spec:
  placementRefs: [{name: prod}]
  manifestWorkTemplate: {workload: {manifests: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 4}}]}}
";

const V1: &str = "  annotations:\n    federation.alpha.kubernetes.io/cluster-selector: '[{\"key\":\"env\",\"operator\":\"in\",\"values\":[\"prod\"]}]'\n";

/// The rows of the plan for an object.
fn rows<'p>(plan: &'p Value, kind: &str, name: &str) -> Vec<&'p Value> {
    let all = plan["placements"].as_array().unwrap();
    all.iter().filter(|row| row["object"]["kind"] == kind && row["object"]["name"] == name).collect()
}

fn names(row: &Value) -> Vec<&str> {
    row["clusters"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
}

#[test]
fn every_dialect_places_on_every_inventory() {
    for dialect in ["karmada", "kubeadmiral", "kubefleet", "kubefed", "v1", "ocm"] {
        for (inventory, head) in INVENTORIES {
            let repo = Sandbox::new()
                .file("m1.yaml", cluster(head, "m1", "prod"))
                .file("m2.yaml", cluster(head, "m2", "dev"))
                .file("web.yaml", placed_by(dialect));
            let plan = repo.run("plan -o json").code(0).json();
            let rows = rows(&plan, "Deployment", "web");
            assert_eq!(rows.len(), 1, "{dialect} over {inventory}: {plan}");
            assert_eq!(names(rows[0]), ["m1"], "{dialect} over {inventory}");
            let rendered = repo.run("render --out out").code(0);
            assert!(repo.path("out/m1/shop/deployment.apps_web.yaml").is_file(), "{}", rendered.out);
        }
    }
}

#[test]
fn one_inventory_may_mix_kinds() {
    let mut repo = Sandbox::new();
    for (at, (_, head)) in INVENTORIES.iter().enumerate() {
        repo = repo.file(&format!("c{at}.yaml"), cluster(head, &format!("m{at}"), "prod"));
    }
    for dialect in ["karmada", "kubeadmiral", "kubefleet", "kubefed", "v1", "ocm"] {
        repo.write("web.yaml", placed_by(dialect));
        let plan = repo.run("plan -o json").code(0).json();
        assert_eq!(
            names(rows(&plan, "Deployment", "web")[0]),
            ["m0", "m1", "m2", "m3", "m4", "m5"],
            "{dialect}"
        );
    }
}

#[test]
fn a_template_that_two_dialects_place_is_an_error_that_names_both_policies() {
    let label = "  labels: {kubeadmiral.io/propagation-policy-name: web}\n";
    let repo = Sandbox::new()
        .file("m1.yaml", cluster(INVENTORIES[0].1, "m1", "prod"))
        .file("web.yaml", deployment(label))
        .file("policies.yaml", format!("{KARMADA}---\n{KUBEADMIRAL}"));
    let ran = repo.run("render --out out").code(2);
    let both = "Deployment shop/web is placed by both PropagationPolicy shop/web (karmada) and PropagationPolicy \
                shop/web (kubeadmiral)";
    assert!(ran.err.contains(both), "{}", ran.err);
    assert!(ran.err.contains("web.yaml:4"), "{}", ran.err);
    assert!(!repo.path("out").exists());
    // Also if one of them contains the object.
    repo.write("web.yaml", deployment(""));
    repo.write("policies.yaml", format!("{KARMADA}---\n{KUBEFED}"));
    let ran = repo.run("check").code(2);
    assert!(
        ran.out.contains("PropagationPolicy shop/web (karmada) and FederatedDeployment shop/web (kubefed)"),
        "{}",
        ran.out
    );
}

#[test]
fn rules_without_a_policy_yield_to_policies_and_to_each_other() {
    let repo = Sandbox::new()
        .file("m1.yaml", cluster(INVENTORIES[0].1, "m1", "prod"))
        .file("m2.yaml", cluster(INVENTORIES[1].1, "m2", "dev"))
        .file("shop.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
        .file("web.yaml", deployment("  labels: {kubeadmiral.io/propagation-policy-name: web}\n"))
        .file("own.yaml", KUBEADMIRAL)
        .file(
            "config.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: left, namespace: shop}\n",
        )
        .file("theirs.yaml", KARMADA.replace("apps/v1, kind: Deployment, name: web", "v1, kind: ConfigMap, name: settings"));
    let plan = repo.run("plan -o json").code(0).json();
    let dialect = |kind: &str, name: &str| {
        let rows = rows(&plan, kind, name);
        assert_eq!(rows.len(), 1, "{kind} {name}");
        rows[0]["dialect"].as_str().unwrap().to_owned()
    };
    assert_eq!(dialect("Deployment", "web"), "kubeadmiral");
    assert_eq!(dialect("ConfigMap", "settings"), "karmada");
    assert_eq!(dialect("Namespace", "shop"), "karmada");
    let left = json!([{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "left"}]);
    assert_eq!(plan["unmatched"], left);
}

#[test]
fn a_plan_is_the_memory_of_all_dialects() {
    let repo = Sandbox::new()
        .file("m1.yaml", cluster(INVENTORIES[1].1, "m1", "prod"))
        .file("web.yaml", placed_by("kubeadmiral"));
    repo.run("render --out out").code(0);
    // A new cluster is not a reason to reschedule; a taint is.
    repo.write("m2.yaml", cluster(INVENTORIES[1].1, "m2", "prod"));
    let plan = repo.run("plan --previous out/placements.yaml -o json").code(0).json();
    let row = rows(&plan, "Deployment", "web")[0];
    assert_eq!((names(row), &row["memory"]["deferred"]), (vec!["m1"], &json!("clusterJoined:false")));
    let fresh = repo.run("plan --fresh -o json").code(0).json();
    assert_eq!(names(rows(&fresh, "Deployment", "web")[0]), ["m1", "m2"]);
    let tainted =
        cluster(INVENTORIES[1].1, "m1", "prod") + "spec:\n  taints: [{key: a, effect: NoSchedule}]\n";
    repo.write("m1.yaml", tainted);
    let plan = repo.run("plan --previous out/placements.yaml -o json").code(0).json();
    assert_eq!(names(rows(&plan, "Deployment", "web")[0]), ["m1", "m2"]);
}

#[test]
fn settings_that_no_dialect_knows_are_errors_with_their_place() {
    let repo = Sandbox::new()
        .file("m1.yaml", cluster(INVENTORIES[1].1, "m1", "prod"))
        .file("shop.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
        .file("web.yaml", placed_by("kubeadmiral"))
        .file("federate.yaml", "dialects:\n  kubeadmiral:\n    excludeNamespaces: ^sh\n");
    let plan = repo.run("plan -o json").code(0).json();
    assert_eq!(names(rows(&plan, "Namespace", "shop")[0]), Vec::<&str>::new());
    repo.write("federate.yaml", "dialects:\n  kubeadmiral:\n    excludeNamespace: ^sh\n  nope: {}\n");
    let ran = repo.run("check").code(2);
    for part in
        ["federate.yaml:3:5", "has no setting `excludeNamespace`", "federate.yaml:4:3", "no dialect `nope`"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    repo.write("federate.yaml", "dialects:\n  kubeadmiral:\n    excludeNamespaces: '('\n");
    let ran = repo.run("check").code(2);
    assert!(
        ran.out.contains("not a regular expression") && ran.out.contains("federate.yaml:3:5"),
        "{}",
        ran.out
    );
}
