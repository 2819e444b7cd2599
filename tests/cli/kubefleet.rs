//! Repos for `KubeFleet` in which something is wrong or missing: what was sent before stays.

use crate::sandbox::Sandbox;

const CLUSTERS: &str = "apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata: {name: a}
---
apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata: {name: b}
";

const APP: &str = "apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: plain, namespace: shop}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: envelope, namespace: shop}
data:
  inner: {apiVersion: v1, kind: ConfigMap, metadata: {name: inner, namespace: shop}}
";

const PLACEMENT: &str = "apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: shop}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]
  policy: {placementType: PickFixed, clusterNames: [a, b]}
";

fn shop() -> Sandbox {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("app.yaml", APP);
    repo.write("placement.yaml", PLACEMENT);
    repo
}

/// A repo that was rendered; returns its files.
fn rendered() -> (Sandbox, Vec<String>) {
    let repo = shop();
    repo.run("render . --out out").code(0);
    let files = repo.files("out");
    assert_eq!(files.len(), 7, "{files:?}");
    (repo, files)
}

#[test]
fn what_was_sent_stays_when_a_policy_a_selection_or_an_envelope_cannot_be_read() {
    let unknown = "kind: Namespace, name: shop}, {group: '', version: v1, kind: Nonsense}";
    for (file, text) in [
        ("placement.yaml", PLACEMENT.replace("kind: Namespace, name: shop}", unknown)),
        ("placement.yaml", PLACEMENT.replace("[a, b]", "{a: b}")),
        ("app.yaml", APP.replace("kind: ConfigMap, metadata: {name: inner,", "kind: ConfigMap, metadata: {")),
    ] {
        let (repo, files) = rendered();
        repo.write(file, text);
        for _ in 0..2 {
            repo.run("render . --out out").code(2);
            let ran = repo.run("render . --out out --keep-going").code(2);
            assert_eq!(repo.files("out"), files, "{}", ran.err);
        }
    }
}

#[test]
fn a_list_without_clusters_changes_nothing() {
    let (repo, files) = rendered();
    repo.write("placement.yaml", PLACEMENT.replace("[a, b]", "[]"));
    repo.run("render . --out out").code(0);
    assert_eq!(repo.files("out"), files);
}

#[test]
fn selectors_inside_of_a_namespace_need_exactly_one_by_name() {
    let inside = |selectors: &str| {
        let repo = shop();
        let selectors = format!("[{selectors}]");
        let of_shop = "[{group: '', version: v1, kind: Namespace, name: shop}]";
        repo.write("placement.yaml", PLACEMENT.replace(of_shop, &selectors));
        repo.run("check .")
    };
    let scope = "selectionScope: NamespaceWithResourceSelectors";
    let named = format!("{{group: '', version: v1, kind: Namespace, name: shop, {scope}}}");
    let config = "{group: '', version: v1, kind: ConfigMap}";
    inside(&format!("{named}, {config}")).code(0);
    let any = format!("{{group: '', version: v1, kind: Namespace, {scope}}}");
    let ran = inside(&any).code(2);
    assert!(ran.out.contains("needs the name of the namespace"), "{}", ran.out);
    let ran = inside(&format!("{named}, {{group: '', version: v1, kind: Namespace, name: other}}")).code(2);
    assert!(ran.out.contains("must be the only one of a Namespace"), "{}", ran.out);
}

#[test]
fn an_update_that_the_api_server_refuses_changes_nothing() {
    let placement = |policy: &str| {
        format!(
            "apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {{name: shop}}
spec:
  resourceSelectors: [{{group: \"\", version: v1, kind: Namespace, name: shop}}]
  policy: {policy}
"
        )
    };
    let cluster = |name: &str| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}}}\n"
        )
    };
    let repo = Sandbox::new()
        .file("clusters.yaml", ["a", "b"].map(cluster).concat())
        .file("shop.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
        .file("placement.yaml", placement("{placementType: PickAll}"));
    repo.run("render --out out").code(0);
    repo.write("placement.yaml", placement("{placementType: PickN, numberOfClusters: 1}"));
    let ran = repo.run("plan --previous out/placements.yaml -o json");
    assert!(ran.err.contains("refused-update"), "{}", ran.err);
    let plan = ran.json();
    let row = plan["placements"].as_array().unwrap().iter().find(|row| row["object"]["kind"] == "Namespace");
    assert_eq!(row.unwrap()["clusters"].as_array().unwrap().len(), 2, "{plan}");
}
