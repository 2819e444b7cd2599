//! Rules of Karmada about clusters without a provider, workloads without a head, and dependencies of suspended objects.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

const CLUSTERS: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
spec: {provider: aws}
";

const CONFIG: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: shop}
";

/// The row of an object in the plan.
fn row(repo: &Sandbox, name: &str) -> Value {
    let plan = repo.run("plan . -o json").code(0).json();
    let rows = plan["placements"].as_array().unwrap().clone();
    rows.into_iter().find(|row| row["object"]["name"] == name).unwrap()
}

fn clusters(row: &Value) -> Vec<&str> {
    row["clusters"].as_array().unwrap().iter().map(|cluster| cluster["name"].as_str().unwrap()).collect()
}

fn policy(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
    .to_string()
}

#[test]
fn a_provider_that_is_not_set_is_no_value() {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("config.yaml", CONFIG);
    for (operator, values, found) in
        [("In", json!(["", "aws"]), &["m2"][..]), ("NotIn", json!(["", "aws"]), &["m1"])]
    {
        let expression = json!({"key": "provider", "operator": operator, "values": values});
        let affinity = json!({"fieldSelector": {"matchExpressions": [expression]}});
        let selectors = json!([{"apiVersion": "v1", "kind": "ConfigMap"}]);
        let spec = json!({"resourceSelectors": selectors, "placement": {"clusterAffinity": affinity}});
        repo.write("policy.json", policy("conf", &spec));
        assert_eq!(clusters(&row(&repo, "conf")), found, "{operator}");
    }
}

#[test]
fn suspension_covers_the_clusters_that_dependents_bring() {
    let repo = Sandbox::web().file("clusters.yaml", CLUSTERS).file("config.yaml", CONFIG);
    let container = json!({"name": "web", "image": "web", "envFrom": [{"configMapRef": {"name": "conf"}}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec});
    repo.write("web.yaml", web.to_string());
    let on = |cluster: &str| json!({"clusterAffinity": {"clusterNames": [cluster]}});
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let spec = json!({"propagateDeps": true, "resourceSelectors": selectors, "placement": on("m2")});
    repo.write("policy.yaml", policy("web", &spec));
    let selectors = json!([{"apiVersion": "v1", "kind": "ConfigMap"}]);
    let spec =
        json!({"suspension": {"dispatching": true}, "resourceSelectors": selectors, "placement": on("m1")});
    repo.write("conf.json", policy("conf", &spec));
    let row = row(&repo, "conf");
    assert_eq!(clusters(&row), ["m1", "m2"]);
    assert_eq!(row["suspended"], json!(["m1", "m2"]));
}

#[test]
fn a_ray_service_without_a_head_is_no_workload() {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS);
    let mut service = json!({"apiVersion": "ray.io/v1", "kind": "RayService",
        "metadata": {"name": "ray", "namespace": "shop"},
        "spec": {"rayClusterConfig": {"workerGroupSpecs": [{"replicas": 3}]}}});
    let selectors = json!([{"apiVersion": "ray.io/v1", "kind": "RayService"}]);
    repo.write("policy.json", policy("ray", &json!({"resourceSelectors": selectors})));
    repo.write("ray.json", service.to_string());
    assert_eq!(row(&repo, "ray")["clusters"][0]["replicas"], Value::Null);
    service["spec"]["rayClusterConfig"]["headGroupSpec"] = json!({"template": {"spec": {"containers": []}}});
    repo.write("ray.json", service.to_string());
    assert_eq!(row(&repo, "ray")["clusters"][0]["replicas"], 4);
}

#[test]
fn clusters_that_take_the_overflow_must_exist() {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("config.yaml", CONFIG);
    let overflow = json!([{"affinityName": "more", "clusterNames": ["m3"]}]);
    let term = json!({"affinityName": "home", "clusterNames": ["m1"], "overflowAffinities": overflow});
    let selectors = json!([{"apiVersion": "v1", "kind": "ConfigMap"}]);
    let spec = json!({"resourceSelectors": selectors, "placement": {"clusterAffinities": [term]}});
    repo.write("policy.json", policy("conf", &spec));
    let found = repo.run("check .").out;
    assert!(found.contains("unknown-cluster") && found.contains("`m3`"), "{found}");
}

#[test]
fn what_an_invalid_policy_has_placed_stays() {
    let repo = Sandbox::new().file("clusters.yaml", CLUSTERS).file("config.yaml", CONFIG);
    let container = json!({"name": "web", "image": "web", "envFrom": [{"configMapRef": {"name": "conf"}}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec});
    repo.write("web.json", web.to_string());
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let write = |placement: Value| {
        let spec = json!({"propagateDeps": true, "resourceSelectors": selectors, "placement": placement});
        repo.write("policy.json", policy("web", &spec));
    };
    write(json!({"clusterAffinity": {"clusterNames": ["m2"]}}));
    repo.run("render . --out out").code(0);
    let files = repo.files("out");
    assert_eq!(files.len(), 3, "{files:?}");
    write(
        json!({"clusterAffinity": {"clusterNames": ["m1"]}, "replicaScheduling": {"replicaSchedulingType": "No"}}),
    );
    for _ in 0..2 {
        let ran = repo.run("render . --out out --keep-going").code(2);
        assert_eq!(repo.files("out"), files, "{}", ran.err);
    }
    write(json!({"clusterAffinity": {"clusterNames": ["m1"]}}));
    repo.run("render . --out out --prune-limit 100").code(0);
    assert_ne!(repo.files("out"), files);
}

#[test]
fn an_object_whose_policy_is_removed_stays_where_it_is() {
    let repo = Sandbox::web();
    repo.run("render --out out").code(0);
    repo.write("policy.yaml", "");
    let ran = repo.run("plan --previous out/placements.yaml -o json").code(0);
    let plan = ran.json();
    let clusters = &plan["placements"][0]["clusters"];
    assert_eq!(*clusters, json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]), "{plan}");
    assert!(ran.err.contains("unclaimed"), "{}", ran.err);
    assert!(ran.err.contains("PropagationPolicy shop/web"), "{}", ran.err);
    repo.write("federate.yaml", "dialects: {karmada: {unclaimed: Remove}}\n");
    let plan = repo.run("plan --previous out/placements.yaml -o json").json();
    assert_eq!(plan["placements"].as_array().map_or(0, Vec::len), 0, "{plan}");
}

#[test]
fn replicas_move_from_a_cluster_that_leaves_the_repo() {
    let repo = Sandbox::web();
    repo.run("render --out out").code(0);
    let (m1, _) = crate::sandbox::CLUSTERS.split_once("---").unwrap();
    repo.write("clusters.yaml", m1);
    let plan = repo.run("plan --previous out/placements.yaml -o json").code(0).json();
    assert_eq!(plan["placements"][0]["clusters"], json!([{"name": "m1", "replicas": 4}]), "{plan}");
}

#[test]
fn spread_constraints_beside_static_weights_are_no_reason() {
    let repo = Sandbox::web().file("clusters.yaml", CLUSTERS);
    let weight =
        |cluster: &str, weight: u32| json!({"targetCluster": {"clusterNames": [cluster]}, "weight": weight});
    let divided = |preference: &Value| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": preference});
    let weights = json!({"staticWeightList": [weight("m1", 10_000), weight("m2", 1)]});
    let check = |constraints: Value, preference: &Value| {
        let placement = json!({"spreadConstraints": constraints, "replicaScheduling": divided(preference)});
        let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
        repo.write(
            "policy.yaml",
            policy("web", &json!({"resourceSelectors": selectors, "placement": placement})),
        );
        repo.run("check").out
    };
    let cluster = json!({"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1});
    let out = check(json!([cluster]), &weights);
    let words = "`spreadConstraints` choose no clusters, because replicas are divided by static weights\n";
    assert!(out.contains("warning[no-effect]") && out.contains(words), "{out}");
    let explained = repo.run("explain deployment/web").code(0).out;
    assert!(explained.contains("eligible, but its share by weight is 0 replicas"), "{explained}");
    assert!(!explained.contains("spread constraints are satisfied"), "{explained}");
    // A constraint by region still excludes clusters without a region.
    let region = json!({"spreadByField": "region", "minGroups": 1, "maxGroups": 1});
    let out = check(json!([cluster, region]), &weights);
    assert!(out.contains("static weights; they only exclude clusters without a region\n"), "{out}");
    // They count where replicas are divided by what is free.
    let out = check(json!([cluster]), &json!({"dynamicWeight": "AvailableReplicas"}));
    assert!(!out.contains("spreadConstraints"), "{out}");
}

/// Argo CD deletes what an Application has created because of its finalizer. Karmada sends no finalizers.
#[test]
fn finalizers_stay_where_no_control_plane_places_the_object() {
    let application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: web\n  namespace: argocd\n  \
                       finalizers: [resources-finalizer.argocd.argoproj.io]\nspec: {project: default}\n";
    let namespace =
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd, finalizers: [example.com/hold]}\n";
    let repo = Sandbox::new()
        .file("application.yaml", application)
        .file("namespace.yaml", namespace)
        .file("federate.yaml", "clusters: [{name: m1}]\nunplaced: everywhere\n");
    let finalizers = |folder: &str| {
        let count = |file: &str| repo.read(&format!("{folder}/m1/{file}")).matches("finalizers:").count();
        [count("argocd/application.argoproj.io_web.yaml"), count("_cluster/namespace_argocd.yaml")]
    };
    repo.run("render --out out").code(0);
    assert_eq!(finalizers("out"), [1, 1]);
    // A policy of Karmada places the Application, and its rule the Namespace.
    repo.write("policy.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: argocd}\nspec:\n  resourceSelectors: [{apiVersion: argoproj.io/v1alpha1, kind: Application}]\n  placement: {}\n");
    repo.run("render --out placed").code(0);
    assert_eq!(finalizers("placed"), [0, 0]);
}

/// Karmada leaves fields out that the controllers of each cluster set. Where it does not place the object, they are sent as written.
#[test]
fn fields_stay_where_no_control_plane_places_the_object() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: seed, namespace: shop}\nspec:\n  ttlSecondsAfterFinished: 600\n  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop, resourceVersion: '7'}\nspec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\nstatus: {loadBalancer: {}}\n";
    let repo = Sandbox::new()
        .file("job.yaml", job)
        .file("service.yaml", service)
        .file("federate.yaml", "clusters: [{name: m1}]\nunplaced: everywhere\n");
    let ran = repo.run("render --out out").code(0);
    assert!(!ran.err.contains("Karmada"), "{}", ran.err);
    assert!(repo.read("out/m1/shop/job.batch_seed.yaml").contains("ttlSecondsAfterFinished: 600\n"));
    let sent = repo.read("out/m1/shop/service_web.yaml");
    assert!(sent.contains("clusterIP: 10.96.0.10\n"), "{sent}");
    assert!(!sent.contains("resourceVersion") && !sent.contains("status"), "{sent}");
    repo.write("policy.yaml", "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: shop}\nspec:\n  resourceSelectors: [{apiVersion: batch/v1, kind: Job}, {apiVersion: v1, kind: Service}]\n  placement: {}\n");
    let ran = repo.run("render --out placed").code(0);
    assert!(ran.err.contains("2 not-sent"), "{}", ran.err);
    assert!(!repo.read("placed/m1/shop/job.batch_seed.yaml").contains("ttlSeconds"));
    assert!(!repo.read("placed/m1/shop/service_web.yaml").contains("clusterIP"));
}
