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

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

/// A placement of the Namespace `shop` with a policy.
fn placed_by(policy: &str) -> String {
    PLACEMENT.replace("{placementType: PickFixed, clusterNames: [a, b]}", policy)
}

#[test]
fn diff_and_whatif_show_that_a_refused_update_has_no_effect() {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("shop.yaml", NAMESPACE);
    repo.write("placement.yaml", placed_by("{placementType: PickAll}"));
    repo.git("init -q -b main");
    repo.git("add -A");
    repo.git("commit -q -m state");
    repo.run("render --out out").code(0);
    repo.write("placement.yaml", placed_by("{placementType: PickN, numberOfClusters: 1}"));
    let why = "ClusterResourcePlacement shop stays as it was: KubeFleet refuses the update, because `placementType` \
               never changes, here from `PickAll` to `PickN`";
    let ran = repo.run("diff --from main").code(2);
    assert!(ran.out.is_empty() && ran.err.contains(why), "{} {}", ran.out, ran.err);
    let ran = repo.run("diff --from main --keep-going").code(2);
    let text = format!(
        "main and work tree render the same

New findings
  error[refused-update] {why} (placement.yaml:6)
"
    );
    assert_eq!(ran.out, text);
    let previous = "--previous out/placements.yaml";
    assert!(repo.run(&format!("whatif {previous} --remove a")).code(2).out.is_empty());
    let ran = repo.run(&format!("whatif {previous} --keep-going --remove a")).code(2);
    // By the refused policy one of the clusters would have nothing.
    let text = "today → remove a: 2 objects placed on fewer clusters; 1 cluster leaves

Clusters
  - a

Placement changes
  ~ ClusterResourcePlacement shop, Namespace shop placed on fewer clusters
      placed → –       a
      by ClusterResourcePlacement shop

Timeline
  t+0s     a is being removed
           nothing moves yet
  t+0s     a has left
           2 objects moved
";
    assert_eq!(ran.out, text);
    assert!(ran.err.contains(why), "{}", ran.err);
}

/// An override of the ConfigMap `plain` for one placement, or for all of them.
fn override_of_plain(name: &str, placement: &str, patch: &str) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1
kind: ResourceOverride
metadata: {{name: {name}, namespace: shop}}
spec:
  {placement}
  resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: plain}}]
  policy:
    overrideRules:
    - clusterSelector: {{clusterSelectorTerms: []}}
      jsonPatchOverrides: [{{op: add, path: /data, value: {patch}}}]
"
    )
}

#[test]
fn the_placement_that_was_there_first_keeps_its_objects() {
    let (repo, files) = rendered();
    let newcomer = PLACEMENT.replace("metadata: {name: shop}", "metadata: {name: newcomer}");
    repo.write("newcomer.yaml", &newcomer);
    repo.write("override.yaml", override_of_plain("late", "placement: {name: newcomer}", "{by: newcomer}"));
    for _ in 0..2 {
        let ran = repo.run("render --out out --keep-going").code(2);
        assert!(
            ran.err.contains("is placed on a, b by both ClusterResourcePlacement shop and "),
            "{}",
            ran.err
        );
        assert_eq!(repo.files("out"), files);
        assert!(!repo.read("out/a/shop/configmap_plain.yaml").contains("newcomer"));
    }
    // Without the first one, the newcomer has them.
    repo.write("placement.yaml", "");
    repo.run("render --out out").code(0);
    assert!(repo.read("out/a/shop/configmap_plain.yaml").contains("by: newcomer"));
}

#[test]
fn an_object_has_one_override_unless_the_hub_has_no_webhooks() {
    let repo = shop();
    repo.write("first.yaml", override_of_plain("first", "", "{by: first}"));
    repo.write("second.yaml", override_of_plain("second", "placement: {name: other}", "{by: second}"));
    let ran = repo.run("render --out out").code(2);
    let why = "error[invalid-policy]: ResourceOverride shop/second selects an object that ResourceOverride shop/first \
               selects already\n --> second.yaml:6:23\n";
    assert!(ran.err.contains(why), "{}", ran.err);
    repo.write("federate.yaml", "dialects: {kubefleet: {enableWebhook: false}}\n");
    repo.run("render --out out").code(0);
    assert!(repo.read("out/a/shop/configmap_plain.yaml").contains("by: first"));
    repo.write("federate.yaml", "dialects: {kubefleet: {enableWebhook: 1}}\n");
    let ran = repo.run("render --out out").code(2);
    assert!(ran.err.contains("`enableWebhook` is true (the default) or false"), "{}", ran.err);
}

#[test]
fn overrides_see_the_labels_of_a_member_when_something_else_changes() {
    let labelled = |region: &str| {
        let labels = |region: &str| format!("labels: {{region: {region}}}}}");
        let first = CLUSTERS.replace("{name: a}", &format!("{{name: a, {}", labels(region)));
        first.replace("{name: b}", &format!("{{name: b, {}", labels("west")))
    };
    let repo = shop();
    repo.write("clusters.yaml", labelled("east"));
    let region = "{region: '${MEMBER-CLUSTER-LABEL-KEY-region}'}";
    repo.write("override.yaml", override_of_plain("regions", "", region));
    let rendered = |region: &str| {
        repo.run("render --out out").code(0);
        let text = repo.read("out/a/shop/configmap_plain.yaml");
        assert!(text.contains(&format!("region: {region}")), "{text}");
    };
    rendered("east");
    repo.write("clusters.yaml", labelled("south"));
    rendered("east");
    rendered("east");
    repo.write("app.yaml", APP.replace("metadata: {name: plain,", "metadata: {labels: {a: b}, name: plain,"));
    rendered("south");
}

#[test]
fn a_run_whose_stages_leave_a_cluster_out_is_reported() {
    let strategy = "apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterStagedUpdateStrategy
metadata: {name: stages}
spec:
  stages: [{name: all, labelSelector: SELECTOR}]
---
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterStagedUpdateRun
metadata: {name: run}
spec: {placementName: shop, stagedRolloutStrategyName: stages, state: Run}
";
    let repo = shop();
    repo.write("placement.yaml", format!("{PLACEMENT}  strategy: {{type: External}}\n"));
    repo.write("stages.yaml", strategy.replace("SELECTOR", "{}"));
    repo.run("check .").code(0);
    repo.write("stages.yaml", strategy.replace("SELECTOR", "{matchLabels: {a: b}}"));
    let ran = repo.run("check .").code(1);
    let why = "warning[run-fails]: ClusterStagedUpdateRun run fails when it is initialized: \
               ClusterStagedUpdateStrategy stages: no stage selects a, b";
    assert!(ran.out.contains(why), "{}", ran.out);
    repo.write("stages.yaml", strategy.replace("SELECTOR", "{}"));
    repo.write("placement.yaml", PLACEMENT);
    let ran = repo.run("check .").code(1);
    assert!(
        ran.out.contains("ClusterResourcePlacement shop does not have the strategy `External`"),
        "{}",
        ran.out
    );
}

#[test]
fn evictions_in_the_repo_are_explained() {
    let eviction = "apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementEviction
metadata: {name: leave}
spec: {placementName: shop, clusterName: a}
";
    let budget = "apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: 2}
";
    let repo = shop();
    repo.write("placement.yaml", placed_by("{placementType: PickAll}"));
    repo.write("eviction.yaml", eviction);
    let explained = || repo.run("explain ClusterResourcePlacement/shop").code(0).out;
    let text = explained();
    let allowed =
        "leave evicts it from a: Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified";
    assert!(text.contains(allowed), "{text}");
    repo.write("budget.yaml", budget);
    let text = explained();
    let blocked = "leave does not evict it from a: Eviction is blocked by specified \
                   ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, totalPlacements: 2";
    assert!(text.contains(blocked), "{text}");
    repo.write("placement.yaml", PLACEMENT);
    let text = explained();
    assert!(
        text.contains("does not evict it from a: Found ClusterResourcePlacement with PickFixed"),
        "{text}"
    );
}

#[test]
fn nodes_of_azure_have_the_properties_of_its_provider() {
    let sized = "{placementType: PickAll, affinity: {clusterAffinity: {\
                 requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {\
                 matchExpressions: [{name: kubernetes.azure.com/vm-sizes/Standard_D4s_v5/count, operator: Ge, \
                 values: ['1']}]}}]}}}}";
    let node = "apiVersion: v1
kind: Node
metadata: {name: node-0, labels: {beta.kubernetes.io/instance-type: Standard_D4s_v5}}
spec: {providerID: 'azure:///subscriptions/s/virtualMachines/0'}
";
    let repo = shop();
    repo.write("placement.yaml", placed_by(sized));
    repo.write(".live/a/node.yaml", node);
    repo.write(".live/b/node.yaml", node.replace("azure:///", "kind://"));
    let plan = repo.run("plan . --observed .live -o json").code(0).json();
    let row = plan["placements"].as_array().unwrap().iter().find(|row| row["object"]["kind"] == "Namespace");
    let clusters = row.unwrap()["clusters"].as_array().unwrap();
    assert_eq!(clusters.iter().map(|placed| &placed["name"]).collect::<Vec<_>>(), ["a"], "{plan}");
}
