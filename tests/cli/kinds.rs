//! Kinds: those that stay on a control plane, and those whose scope a repo does not say.

use crate::sandbox::Sandbox;

/// Objects that a control plane keeps, one per dialect and origin.
const KEPT: &[(&str, &str)] = &[
    ("autoscaling.karmada.io/v1alpha1", "FederatedHPA"),
    ("networking.karmada.io/v1alpha1", "MultiClusterService"),
    ("work.karmada.io/v1alpha2", "ResourceBinding"),
    ("operator.karmada.io/v1alpha1", "Karmada"),
    ("search.karmada.io/v1alpha1", "ResourceRegistry"),
    ("placement.kubernetes-fleet.io/v1", "ClusterResourceSnapshot"),
    ("placement.kubernetes-fleet.io/v1beta1", "ClusterApprovalRequest"),
    ("cluster.kubernetes-fleet.io/v1", "InternalMemberCluster"),
    ("placement.kubefleet.dev/v1alpha1", "PlacementPolicy"),
    ("core.kubeadmiral.io/v1alpha1", "FederatedObject"),
    ("core.kubeadmiral.io/v1alpha1", "ClusterCollectedStatus"),
    ("core.kubefed.io/v1alpha1", "FederatedServiceStatus"),
    ("multiclusterdns.kubefed.io/v1alpha1", "DNSEndpoint"),
];

fn documents(kinds: &[(&str, &str)]) -> String {
    let one = |(api_version, kind): &(&str, &str)| {
        format!("---\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x, namespace: shop}}\n")
    };
    kinds.iter().map(one).collect()
}

#[test]
fn objects_of_control_planes_are_no_templates() {
    let repo = Sandbox::web().file("hub.yaml", documents(KEPT));
    let ran = repo.run("check").code(0);
    assert!(ran.out.contains("clean: 1 template"), "{}", ran.out);
    assert!(ran.out.contains("13 objects stay on the control plane"), "{}", ran.out);
    assert!(ran.out.contains("1 FederatedHPA"), "{}", ran.out);
    assert!(!ran.out.contains("no manifests to place"), "{}", ran.out);
    let hub_only = Sandbox::new().file("hub.yaml", documents(KEPT)).run("check");
    assert!(
        hub_only.out.contains("the repo has no manifests to place: add those that they deploy"),
        "{hub_only:#?}"
    );
    let ran = repo.run("plan --fail-on unmatched").code(0);
    assert!(ran.err.contains("note: 13 objects stay on the control plane"), "{}", ran.err);
    let plan = repo.run("plan -o json").code(0).json();
    assert_eq!(plan["unmatched"].as_array().map_or(0, Vec::len), 0, "{plan:#}");
    let ran = repo.run("explain federatedhpa/x").code(0);
    assert!(ran.out.contains("stays on its control plane"), "{}", ran.out);
}

#[test]
fn objects_of_control_planes_are_placed_nowhere_where_all_others_are() {
    let repo = Sandbox::new()
        .file("federate.yaml", "clusters: [{name: a}, {name: b}]\nunplaced: everywhere\n")
        .file("hub.yaml", documents(KEPT))
        .file("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\n");
    let plan = repo.run("plan -o json").code(0).json();
    let placed: Vec<&str> = plan["placements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["object"]["kind"].as_str().unwrap())
        .collect();
    assert_eq!(placed, ["ConfigMap"]);
}

#[test]
fn an_unknown_kind_of_a_control_plane_has_the_nearest_known_one() {
    let kinds = &[("autoscaling.karmada.io/v1alpha1", "FederatedHPS")];
    for unplaced in ["warn", "everywhere"] {
        let repo = Sandbox::web()
            .file("hub.yaml", documents(kinds))
            .file("federate.yaml", format!("unplaced: {unplaced}\n"));
        let ran = repo.run("plan").code(0);
        assert!(ran.err.contains("warning[unknown-kind]"), "{}", ran.err);
        assert!(ran.err.contains("did you mean `FederatedHPA`?"), "{}", ran.err);
        assert!(!ran.out.contains("FederatedHPS"), "{}", ran.out);
        repo.run("plan --fail-on unmatched").code(2);
    }
    // A CRD of the repo knows it.
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: federatedhpss.autoscaling.karmada.io}\n\
               spec:\n  group: autoscaling.karmada.io\n  scope: Namespaced\n  names: {kind: FederatedHPS, plural: federatedhpss}\n";
    let ran = Sandbox::web().file("hub.yaml", documents(kinds)).file("crd.yaml", crd).run("plan").code(0);
    assert!(!ran.err.contains("unknown-kind"), "{}", ran.err);
}

const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: podinfo}\nspec: {interval: 5m}\n";

fn policy(kind: &str, selector: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: {kind}\nmetadata: {{name: p}}\nspec:\n  resourceSelectors: \
         [{selector}]\n  placement: {{}}\n"
    )
}

#[test]
fn a_custom_resource_without_a_namespace_is_in_the_default_one() {
    let selector = "{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease}";
    let repo =
        Sandbox::web().file("release.yaml", RELEASE).file("p.yaml", policy("PropagationPolicy", selector));
    let ran = repo.run("plan").code(0);
    assert!(ran.out.contains("HelmRelease default/podinfo"), "{}", ran.out);
    repo.run("check").code(0);
    repo.run("explain helmrelease/podinfo").code(0);
    // An earlier plan that names it without the namespace is still its memory.
    let mut previous = repo.run("plan -o json").code(0).json();
    for row in previous["placements"].as_array_mut().unwrap() {
        if row["object"]["kind"] == "HelmRelease" {
            row["object"].as_object_mut().unwrap().remove("namespace");
            row["clusters"] = serde_json::json!([{"name": "m2", "replicas": null}]);
        }
    }
    repo.write("previous.json", previous.to_string());
    let plan = repo.run("plan --previous previous.json -o json").code(0).json();
    let rows = plan["placements"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["object"]["namespace"] == "default"), "{plan:#}");
}

#[test]
fn cluster_scoped_kinds_of_the_ecosystem_are_known() {
    let issuer = "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: a}\nspec: {}\n";
    let bucket = "---\napiVersion: s3.aws.upbound.io/v1beta1\nkind: Bucket\nmetadata: {name: b}\nspec: {}\n";
    let selectors = "{apiVersion: cert-manager.io/v1, kind: ClusterIssuer}, {apiVersion: s3.aws.upbound.io/v1beta1, kind: Bucket}";
    let repo = Sandbox::web()
        .file("all.yaml", format!("{issuer}{bucket}"))
        .file("p.yaml", policy("ClusterPropagationPolicy", selectors));
    repo.run("render --out out").code(0);
    assert!(repo.path("out/m1/_cluster/clusterissuer.cert-manager.io_a.yaml").exists());
    assert!(repo.path("out/m1/_cluster/bucket.s3.aws.upbound.io_b.yaml").exists());
}

#[test]
fn an_unknown_scope_is_a_finding_where_it_decides() {
    let widget = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\nspec: {}\n";
    let selector = "{apiVersion: example.org/v1, kind: Widget}";
    let repo =
        Sandbox::web().file("widget.yaml", widget).file("p.yaml", policy("PropagationPolicy", selector));
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("warning[unknown-scope]"), "{}", ran.out);
    // A policy for any namespace places it whatever its scope is.
    repo.write("p.yaml", policy("ClusterPropagationPolicy", selector));
    repo.run("check").code(0);
    // Another object of the kind says that it is namespaced.
    repo.write("p.yaml", policy("PropagationPolicy", selector));
    let other =
        "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: v, namespace: default}\nspec: {}\n";
    repo.write("other.yaml", other);
    let ran = repo.run("check").code(0);
    assert!(!ran.out.contains("unknown-scope"), "{}", ran.out);
    repo.write("other.yaml", other.replace("name: v", "name: w").replace("spec: {}", "spec: {a: b}"));
    assert!(repo.run("check").code(2).out.contains("error[duplicate-object]"));
}

#[test]
fn observed_objects_without_a_namespace_are_cluster_scoped_and_typed_lists_are_read() {
    let selector = "{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet}";
    let set = "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata: {name: cs}\nspec: {replicas: 1, template: {spec: {containers: [{name: c, image: a}]}}}\n";
    let list = "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSetList\nmetadata: {resourceVersion: '1'}\nitems:\n- metadata: {name: cs, namespace: default}\n  spec: {replicas: 1, template: {spec: {containers: [{name: c, image: a}]}}}\n";
    let repo = Sandbox::web()
        .file("set.yaml", set)
        .file("p.yaml", policy("PropagationPolicy", selector))
        .file("seen/m1/sets.yaml", list);
    let ran = repo.run("apply --dry-run=client --observed seen -o json --cluster m1");
    let actions = ran.json();
    let of_set =
        actions["actions"].as_array().unwrap().iter().find(|one| one["object"]["kind"] == "CloneSet");
    assert_ne!(of_set.unwrap()["action"], "create", "{actions:#}");
}

#[test]
fn mistyped_metadata_of_policies_and_clusters_is_found() {
    for (from, to) in
        [("{name: web", "{name: web, lables: {a: b}"), ("  name: web\n", "  name: web\n  lables: {a: b}\n")]
    {
        let repo = Sandbox::web();
        let policy = repo.read("policy.yaml");
        if !policy.contains(from) {
            continue;
        }
        repo.write("policy.yaml", policy.replacen(from, to, 1));
        let ran = repo.run("check").code(1);
        assert!(
            ran.out.contains("`metadata.lables`") && ran.out.contains("did you mean `labels`?"),
            "{}",
            ran.out
        );
    }
    for (api_version, kind) in [
        ("cluster.karmada.io/v1alpha1", "Cluster"),
        ("core.kubeadmiral.io/v1alpha1", "FederatedCluster"),
        ("cluster.kubernetes-fleet.io/v1", "MemberCluster"),
        ("core.kubefed.io/v1beta1", "KubeFedCluster"),
    ] {
        let text = format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: m9, anotations: {{a: b}}}}\nspec: {{}}\n"
        );
        let ran = Sandbox::web().file("m9.yaml", text).run("check");
        assert!(ran.out.contains("did you mean `annotations`?"), "{kind}: {}", ran.out);
    }
}

#[test]
fn a_duplicate_key_is_a_warning_and_the_last_one_counts() {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata:\n  a: one\n  b: {{ cluster.name }}\n  a: two\n";
    let selector = "{apiVersion: v1, kind: ConfigMap}";
    for path in ["config.yaml", "config.yaml.j2"] {
        let repo = Sandbox::web().file(
            path,
            config.replace(
                "{{ cluster.name }}",
                if path.ends_with("j2") { "\"{{ cluster.name }}\"" } else { "x" },
            ),
        );
        repo.write("p.yaml", policy("ClusterPropagationPolicy", selector));
        let ran = repo.run("check").code(1);
        assert!(ran.out.contains("warning[duplicate-key]"), "{}", ran.out);
        assert!(ran.out.contains(path), "{}", ran.out);
        repo.run("render --out out").code(0);
        assert!(repo.read("out/m1/shop/configmap_c.yaml").contains("a: two"), "{path}");
    }
}

#[test]
fn what_follows_the_end_of_a_document_is_left_out_with_a_warning() {
    let config = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n")
    };
    let repo =
        Sandbox::web().file("all.yaml", format!("{}...\n{}---\n{}", config("a"), config("b"), config("c")));
    let ran = repo.run("check").code(1);
    assert!(ran.out.contains("warning[unread-document]") && ran.out.contains("all.yaml:5"), "{}", ran.out);
    let plan = repo.run("plan -o json").json();
    let names: Vec<&str> =
        plan["unmatched"].as_array().unwrap().iter().map(|id| id["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn plain_templates_of_a_kubefed_repo_do_not_belong_to_federation_v1() {
    let cluster = "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {name: m1, namespace: kube-federation-system}\nspec: {apiEndpoint: https://m1.example.com}\n";
    let repo = Sandbox::new().file("cluster.yaml", cluster).file("web.yaml", crate::sandbox::WEB);
    let plan = repo.run("plan -o json").json();
    assert_eq!(plan["placements"].as_array().map_or(0, Vec::len), 0, "{plan:#}");
    // With something of Federation v1, they do.
    let annotated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop, annotations: {federation.alpha.kubernetes.io/cluster-selector: '[]'}}\n";
    let plan = repo.file("c.yaml", annotated).run("plan -o json").json();
    assert_eq!(plan["placements"].as_array().map_or(0, Vec::len), 2, "{plan:#}");
}
