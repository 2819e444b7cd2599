//! `ClusterProfile` objects as inventory, with clusters of `federate.yaml` merged over them.

use serde_json::json;

use crate::sandbox::{POLICY, Sandbox, WEB};

/// A profile as Open Cluster Management publishes it: without labels of the cluster.
fn profile(name: &str, region: &str, healthy: &str) -> String {
    format!(
        "---\napiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ClusterProfile\n\
         metadata: {{name: {name}, namespace: fleet, labels: {{x-k8s.io/cluster-manager: ocm}}}}\n\
         spec: {{displayName: {name}, clusterManager: {{name: ocm}}}}\nstatus:\n  version: {{kubernetes: v1.33.0}}\n  \
         properties: [{{name: region.open-cluster-management.io, value: {region}}}]\n  \
         conditions: [{{type: ControlPlaneHealthy, status: '{healthy}', reason: Lease, message: none since noon}}]\n"
    )
}

fn profiles() -> Sandbox {
    let profiles = profile("m1", "eu", "True") + &profile("m2", "us", "True") + &profile("m3", "us", "False");
    Sandbox::new().file("profiles.yaml", profiles).file("policy.yaml", POLICY).file("web.yaml", WEB)
}

#[test]
fn profiles_are_clusters() {
    let clusters = profiles().run("clusters -o json").code(0).json();
    let row = |at: usize, field: &str| clusters["clusters"][at][field].clone();
    assert_eq!(row(0, "name"), "m1");
    assert_eq!(row(0, "object")["kind"], "ClusterProfile");
    assert_eq!((row(0, "region"), row(1, "region")), (json!("eu"), json!("us")));
    assert_eq!((row(0, "version"), row(0, "ready")), (json!("v1.33.0"), json!(true)));
    assert_eq!((row(2, "ready"), row(2, "why")), (json!(false), json!("Lease: none since noon")));
}

#[test]
fn configured_clusters_are_merged_over_profiles() {
    let repo = profiles();
    repo.write(
        "federate.yaml",
        "clusters:\n- {name: m1, labels: {env: prod}, provider: acme}\n- {name: m2, region: ap, taints: [{key: a, effect: NoSchedule}]}\n- {name: m4}\n\
         clusterProfiles: {provider: [platform], region: [place, region.open-cluster-management.io]}\n",
    );
    let clusters = repo.run("clusters -o json").code(0).json();
    let names: Vec<&str> =
        clusters["clusters"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["m1", "m2", "m3", "m4"]);
    let first = &clusters["clusters"][0];
    assert_eq!(first["labels"], json!({"env": "prod", "x-k8s.io/cluster-manager": "ocm"}));
    assert_eq!((&first["provider"], &first["region"]), (&json!("acme"), &json!("eu")));
    assert!(first["origin"].as_str().unwrap().starts_with("profiles.yaml:"), "{first}");
    let second = &clusters["clusters"][1];
    assert_eq!((&second["region"], &second["taints"]), (&json!("ap"), &json!(["a:NoSchedule"])));
    assert_eq!(second["version"], "v1.33.0", "what is not configured stays");
}

#[test]
fn a_label_that_no_profile_has_is_a_finding_that_says_where_to_add_it() {
    let repo = profiles();
    let selecting = "placement:\n    clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}";
    repo.write("policy.yaml", POLICY.replace("placement:", selecting));
    let found = repo.run("check -o json").json();
    let finding =
        found["findings"].as_array().unwrap().iter().find(|row| row["code"] == "unknown-cluster-label");
    let finding = finding.unwrap_or_else(|| panic!("{found}"));
    assert_eq!(finding["message"], "no cluster of the inventory has the label `env`");
    assert!(finding["help"].as_str().unwrap().contains("below `clusters` in federate.yaml"), "{finding}");
    repo.write("federate.yaml", "clusters: [{name: m1, labels: {env: prod}}]\n");
    let plan = repo.run("plan -o json").code(0).json();
    assert_eq!(plan["placements"][0]["clusters"][0]["name"], "m1", "{plan}");
    assert_eq!(plan["placements"][0]["clusters"].as_array().unwrap().len(), 1, "{plan}");
}

#[test]
fn mistakes_in_profiles_are_named() {
    let repo = profiles();
    repo.write("more.yaml", profile("m1", "eu", "True").replace("namespace: fleet", "namespace: other"));
    let twice = repo.run("plan").code(2).err;
    assert!(twice.contains("cluster `m1` is described twice") && twice.contains("more.yaml"), "{twice}");
    repo.write("more.yaml", profile("m9", "eu", "True").replace("properties: [", "properties: [7, "));
    let unreadable = repo.run("plan").code(2).err;
    assert!(unreadable.contains("more.yaml") && unreadable.contains("invalid-cluster"), "{unreadable}");
}

#[test]
fn other_kinds_of_the_group_are_templates() {
    let repo = profiles();
    repo.write(
        "export.yaml",
        "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceExport\nmetadata: {name: web, namespace: shop}\n",
    );
    let plan = repo.run("plan -o json").code(0).json();
    assert!(
        plan["unmatched"].as_array().unwrap().iter().any(|object| object["kind"] == "ServiceExport"),
        "{plan}"
    );
    // A repo without a control plane's policies is not one that is migrated.
    repo.write("policy.yaml", "");
    let said = repo.run("migrate --to karmada --out out");
    assert!(!said.err.contains("cluster-profiles"), "{}", said.err);
}
