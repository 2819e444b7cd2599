//! What a plan is made from and only the clusters know: the plan that the last apply left there, what runs of a
//! workload, and free resources.

use serde_json::json;

use crate::sandbox::{NAMESPACE, Sandbox, WEB, config};
use federate_test_apiserver::{Fleet, TestCluster};

const KEPT: &str = "/api/v1/namespaces/default/configmaps/federate.plan";

/// A policy that gives the Deployment to one of these clusters.
fn one_of(clusters: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: web, namespace: shop}}\n\
         spec:\n  resourceSelectors:\n  - {{apiVersion: apps/v1, kind: Deployment}}\n  - {{apiVersion: v1, kind: ConfigMap}}\n  \
         placement:\n    clusterAffinity: {clusters}\n    spreadConstraints: [{{spreadByField: cluster, minGroups: 1, maxGroups: 1}}]\n\
         ---\n\
         apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {{name: all}}\nspec:\n  \
         resourceSelectors:\n  - {{apiVersion: v1, kind: Namespace}}\n  placement: {{clusterAffinity: {{}}}}\n"
    )
}

#[test]
fn two_laptops_agree_by_the_plan_that_the_clusters_remember() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    sandbox.write("policy.yaml", &one_of("{clusterNames: [m2]}"));
    sandbox.apply("--remember").code(0);
    assert!(sandbox.has("m2", WEB) && !sandbox.has("m1", WEB));
    for cluster in ["m1", "m2"] {
        let kept = sandbox.get(cluster, KEPT);
        assert_eq!(kept["data"]["generation"], "1");
        assert_eq!(kept["metadata"]["ownerReferences"][0]["kind"], "ConfigMap", "it goes with the parent");
        sandbox.forget(cluster);
    }
    sandbox.apply("--remember").code(0);
    sandbox.wrote("m1", 0);
    sandbox.wrote("m2", 0);

    // By now either cluster would do; the scheduler leaves what runs where it is, if it knows.
    sandbox.write("policy.yaml", &one_of("{}"));
    let create = |ran: &crate::sandbox::Ran| {
        ran.json()["actions"].as_array().unwrap().iter().any(|action| action["action"] == "create")
    };
    let forgetful = sandbox.apply("--dry-run=client -o json");
    assert!(create(&forgetful), "without memory it would move to m1");
    let hint = "warning: m1, m2: an apply with --remember has stored its plan here (ConfigMap default/";
    assert!(forgetful.err.contains(hint), "{forgetful:#?}");
    let fresh = sandbox.apply("--remember --fresh --dry-run=client -o json");
    assert!(!fresh.err.contains("has stored its plan"), "{fresh:#?}");
    assert!(create(&fresh), "--fresh takes the place of what is remembered: {fresh:#?}");
    let drift = sandbox.run("drift", "--remember").code(0);
    assert!(drift.out.contains("no drift"), "{drift:#?}");
    sandbox.apply("--remember").code(0);
    assert!(sandbox.has("m2", WEB) && !sandbox.has("m1", WEB));
    assert_eq!(sandbox.get("m1", KEPT)["data"]["generation"], "2");
    assert_eq!(sandbox.get("m1", KEPT)["binaryData"], sandbox.get("m2", KEPT)["binaryData"]);
}

#[test]
fn a_plan_that_was_edited_is_not_decided_by() {
    let sandbox = Sandbox::anywhere(&["m1", "m2"]);
    sandbox.write("policy.yaml", &one_of("{clusterNames: [m2]}"));
    sandbox.apply("--remember").code(0);
    sandbox.write("policy.yaml", &one_of("{}"));
    let edit = |cluster: &str| sandbox.edit(cluster, "test", KEPT, &json!({"data": {"digest": "0"}}));
    edit("m1");
    let ran = sandbox.apply("--remember --dry-run=client").code(0);
    assert!(ran.err.contains("warning: m1: the plan that is kept in ConfigMap default/"), "{ran:#?}");
    assert!(!ran.out.contains("create"), "the other cluster remembers it, too: {ran:#?}");
    edit("m2");
    let ran = sandbox.apply("--remember").code(2);
    assert!(ran.err.contains("it was edited; delete the ConfigMap to schedule without it"), "{ran:#?}");
    assert!(!sandbox.has("m1", WEB));
}

#[test]
fn a_plan_that_is_too_large_for_one_config_map_is_kept_in_parts() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    sandbox.write("policy.yaml", &one_of("{clusterNames: [m2]}"));
    // Names that do not compress.
    let mut random = 1_u64;
    let name = |at: usize| {
        let letter = |random: &mut u64| {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from_digit(u32::try_from(*random >> 40).unwrap() % 36, 36).unwrap()
        };
        let letters: String = (0..240).map(|_| letter(&mut random)).collect();
        format!("c{at}{letters}")
    };
    let many: Vec<String> = (0..5000).map(name).map(|name| config(&name, "1")).collect();
    sandbox.write("many.yaml", &many.join("---\n"));
    sandbox.apply("--remember --cluster m1").code(0);
    let kept = sandbox.get("m1", KEPT);
    let parts: usize = kept["data"]["parts"].as_str().unwrap().parse().unwrap();
    let slot = kept["data"]["slot"].as_str().unwrap();
    assert!(parts > 1, "{}", kept["data"]);
    assert!(sandbox.has("m1", &format!("{KEPT}.{slot}.{}", parts - 1)));
    sandbox.forget("m1");
    let ran = sandbox.apply("--remember --cluster m1").code(0);
    assert!(ran.err.is_empty(), "{ran:#?}");
    sandbox.wrote("m1", 0);
}

/// Adds a node with so many processors.
fn node(sandbox: &Sandbox, cluster: &str, cpu: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    sandbox.create(cluster, "/api/v1/nodes", "test", &node);
    let amounts = json!({"cpu": cpu, "memory": "64Gi", "pods": "110"});
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}]}});
    sandbox.edit(cluster, "test", "/api/v1/nodes/node-1/status", &status);
}

#[test]
fn replicas_are_divided_by_the_free_resources_of_the_clusters() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    let asks = sandbox.read_file("web.yaml").replace("replicas: 2", "replicas: 8");
    sandbox.write("web.yaml", &asks.replace("nginx:1.27'", "nginx:1.27', resources: {requests: {cpu: 1}}"));
    let policy = one_of("{}").replace(
        "    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]\n",
        "    replicaScheduling:\n      replicaSchedulingType: Divided\n      replicaDivisionPreference: Weighted\n      \
         weightPreference: {dynamicWeight: AvailableReplicas}\n",
    );
    sandbox.write("policy.yaml", &policy);
    for (cluster, cpu) in [("m1", "12"), ("m2", "4")] {
        node(&sandbox, cluster, cpu);
    }
    let ran = sandbox.apply("").code(0);
    assert!(!ran.err.contains("unknown-capacity"), "{ran:#?}");
    let replicas = |cluster: &str| sandbox.get(cluster, WEB)["spec"]["replicas"].clone();
    // Karmada counts nodes by grades: one with 12 processors is one of at least 8.
    assert_eq!((replicas("m1"), replicas("m2")), (5.into(), 3.into()));
    assert!(sandbox.run("drift", "").code(0).out.contains("no drift"));
}

const FLEET: &str = "apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: shop}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]
  policy:
    placementType: PickN
    numberOfClusters: 1
    affinity:
      clusterAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          preference:
            propertySorter: {name: resources.kubernetes-fleet.io/available-cpu, sortOrder: Descending}
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
          - propertySelector:
              matchExpressions: [{name: kubernetes-fleet.io/node-count, operator: Ge, values: ['1']}]
";

#[test]
fn properties_of_a_fleet_are_read_from_the_nodes_of_the_clusters() {
    let sandbox = Sandbox::simulated(&["m1", "m2", "m3"]);
    let inventory = ["m1", "m2", "m3"].map(|name| {
        format!("---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}}}\nspec: {{}}\n")
    });
    sandbox.write("clusters.yaml", &inventory.concat());
    sandbox.write("policy.yaml", FLEET);
    for (cluster, cpu) in [("m1", "4"), ("m2", "12")] {
        node(&sandbox, cluster, cpu);
    }
    // `m3` has no node.
    sandbox.apply("").code(0);
    let has = ["m1", "m2", "m3"].map(|cluster| sandbox.has(cluster, WEB));
    assert_eq!(has, [false, true, false], "the one with the most free processors");
    sandbox.run("drift", "").code(0);
}

#[test]
fn ready_replicas_are_read_from_the_clusters() {
    // On real servers the pods would need nodes.
    let clusters = ["m1", "m2"];
    let fleet =
        Fleet::serve_clusters(clusters.iter().map(|name| TestCluster::new(name).with_nodes()).collect())
            .unwrap();
    let sandbox = Sandbox::simulated_by(&clusters, fleet);
    let preferences =
        r#"{federation.kubernetes.io/deployment-preferences: '{"clusters": {"*": {"weight": 1}}}'}"#;
    let web = sandbox.read_file("web.yaml").replace("replicas: 2", "replicas: 4");
    let annotated =
        web.replace("namespace: shop}", &format!("namespace: shop, annotations: {preferences}}}"));
    sandbox.write("policy.yaml", &one_of("{}").replace("  - {apiVersion: apps/v1, kind: Deployment}\n", ""));
    // All replicas run in m1, and nothing says that they are to be moved.
    sandbox.create_namespace("m1");
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}}},
    });
    sandbox.create("m1", "/apis/apps/v1/namespaces/shop/deployments", "test", &body);
    sandbox.write("web.yaml", &annotated);
    sandbox.write("namespace.yaml", NAMESPACE);
    let ran = sandbox.apply("--adopt always -o json");
    assert_eq!(sandbox.get("m1", WEB)["spec"]["replicas"], 4, "{ran:#?}");
    assert!(!sandbox.has("m2", WEB) || sandbox.get("m2", WEB)["spec"]["replicas"] == 0, "{ran:#?}");
}
