//! Where an API server is reached, it decides: objects that are invalid by the rules here are sent anyway, and the
//! answer of the server counts.
//!
//! Only on the API server for tests: real ones have no other fields, and do not count requests.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config, deployment};
use federate_test_apiserver::{FaultKind, Fleet, InjectedFault, TestCluster};

/// A Deployment that mounts a volume which it does not have.
fn mounting(image: &str) -> String {
    let mount = "volumeMounts: [{name: agent, mountPath: /agent}]";
    deployment(image).replace("'}]}", &format!("', {mount}}}]}}"))
}

/// What the cluster's admission does: it adds that volume.
fn inject(object: &mut Value) {
    let pod = object.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut);
    if let Some(pod) = pod {
        pod.insert("volumes".to_owned(), json!([{"name": "agent", "emptyDir": {}}]));
    }
}

fn serving(cluster: TestCluster) -> Sandbox {
    Sandbox::simulated_by(&["m1"], Fleet::serve_clusters(vec![cluster]).unwrap())
}

fn sandbox() -> Sandbox {
    serving(TestCluster::new("m1").with_admission(inject)).file("web.yaml", &mounting("nginx:1.27"))
}

#[test]
fn what_admission_completes_is_created_updated_and_then_left_alone() {
    let sandbox = sandbox();
    // Without the server the volume is not known.
    let ran = sandbox.apply("--dry-run=client -o json").code(2);
    let web = ran.action("m1", "Deployment", "web");
    assert!(web["error"].as_str().unwrap().contains("volumeMounts"), "{ran:#?}");
    assert_eq!(ran.json()["clusters"][0]["predicted"], true);

    let ran = sandbox.apply("-o json").code(0);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!((&web["action"], &web["outcome"]), (&json!("create"), &json!("done")), "{web}");
    assert_eq!(ran.json()["clusters"][0].get("predicted"), None);
    sandbox.write("web.yaml", &mounting("nginx:1.28"));
    let ran = sandbox.apply("-o json").code(0);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!(web["diffs"].as_array().unwrap().len(), 1, "{web}");
    assert_eq!(web["result"]["spec"]["template"]["spec"]["volumes"][0]["name"], "agent");
    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
    sandbox.wrote("m1", 0);
    sandbox.tried("m1", 0);
    sandbox.run("drift", "").code(0);
}

#[test]
fn a_field_that_only_the_server_knows_is_applied_compared_and_corrected() {
    let field = |value: &str| {
        deployment("nginx:1.27").replace("  replicas: 2\n", &format!("  replicas: 2\n  pace: {value}\n"))
    };
    let sandbox =
        serving(TestCluster::new("m1").with_added_field("apps/v1", "Deployment", &["spec", "pace"]))
            .file("web.yaml", &field("slow"));
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["pace"], "slow");
    sandbox.forget("m1");
    sandbox.apply("").code(0);
    sandbox.run("drift", "").code(0);
    sandbox.wrote("m1", 0);
    sandbox.tried("m1", 0);

    sandbox.write("web.yaml", &field("fast"));
    let ran = sandbox.apply("-o json").code(0);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!(web["diffs"][0]["path"], "/spec/pace", "{web}");
    sandbox.edit("m1", "somebody", WEB, &json!({"spec": {"pace": "lazy"}}));
    let ran = sandbox.run("drift", "-o json").code(1);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!(
        (&web["diffs"][0]["path"], &web["diffs"][0]["manager"]),
        (&json!("/spec/pace"), &json!("somebody"))
    );
    sandbox.run("drift", "--correct").code(0);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["pace"], "fast");
    sandbox.write("web.yaml", &deployment("nginx:1.27"));
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", WEB)["spec"].get("pace"), None, "what is no longer rendered goes");
}

#[test]
fn a_field_that_a_policy_rewrites_is_not_drift() {
    let grace = |seconds: u8| {
        let pod = format!("spec: {{terminationGracePeriodSeconds: {seconds}, containers:");
        deployment("nginx:1.27").replace("spec: {containers:", &pod)
    };
    let cut = |object: &mut Value| {
        if let Some(seconds) = object.pointer_mut("/spec/template/spec/terminationGracePeriodSeconds") {
            *seconds = json!(20);
        }
    };
    let sandbox = serving(TestCluster::new("m1").with_admission(cut)).file("web.yaml", &grace(60));
    sandbox.apply("").code(0);
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
    for arguments in ["", "--correct", "--full"] {
        sandbox.forget("m1");
        let ran = sandbox.run("drift", &format!("{arguments} -o json"));
        assert_eq!(ran.code, i32::from(arguments == "--full"), "{ran:#?}");
        let actions = ran.json()["actions"].as_array().unwrap().clone();
        let diffs: Vec<_> = actions.iter().flat_map(|action| action["diffs"].as_array().unwrap()).collect();
        let is_grace =
            |diff: &Value| diff["path"].as_str().unwrap().contains("terminationGracePeriodSeconds");
        assert!(!diffs.iter().any(|diff| is_grace(diff)), "{diffs:#?}");
        sandbox.wrote("m1", 0);
    }
    // What drifted beside it is put back.
    sandbox.edit("m1", "somebody", WEB, &json!({"spec": {"replicas": 7}}));
    let ran = sandbox.run("drift", "--correct -o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["diffs"].as_array().unwrap().len(), 1);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["replicas"], 2);
}

#[test]
fn what_would_restart_by_the_servers_word_is_not_adopted() {
    let sandbox = sandbox();
    edited_by_hand(&sandbox);
    let ran = sandbox.apply("--adopt if-no-restart -o json").code(2);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!((&web["action"], &web["outcome"]), (&json!("conflict"), &json!("not-tried")), "{web}");
    assert!(web["reason"].as_str().unwrap().contains("would restart its pods"), "{web}");
}

/// The Deployment of another manager, from which nothing is handed over.
fn edited_by_hand(sandbox: &Sandbox) {
    sandbox.create_namespace("m1");
    let body = federate_yaml::read_stream(deployment("nginx:1.27").as_bytes()).documents.pop().unwrap().value;
    sandbox.create("m1", "/apis/apps/v1/namespaces/shop/deployments", "somebody", &body);
}

#[test]
fn what_the_server_would_refuse_is_not_sent_and_all_is_known_before_anything_is_written() {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox.apply("").code(0);
    let before = sandbox.get("m1", WEB);
    sandbox.write("web.yaml", &deployment("nginx:1.28").replace("{app: web}", "{app: other}"));
    // A name that no object can have, and one that is good.
    sandbox.write("b.yaml", &config("b", "1").replace("data: {k: '1'}", "data: {'k/k': '1'}"));
    sandbox.write("a.yaml", &config("a", "2"));
    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(2);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!((&web["action"], &web["outcome"]), (&json!("update"), &json!("failed")), "{web}");
    assert!(web["error"].as_str().unwrap().contains("field is immutable"), "{web}");
    assert!(web["error"].as_str().unwrap().contains("federate.dev/replace"), "{web}");
    assert_eq!(ran.action("m1", "ConfigMap", "b")["outcome"], "failed");
    assert_eq!(ran.action("m1", "ConfigMap", "a")["outcome"], "done");
    sandbox.wrote("m1", 1);
    assert_eq!(sandbox.get("m1", WEB), before);
}

#[test]
fn what_may_succeed_by_the_time_that_it_is_sent_is_sent() {
    let sandbox = Sandbox::simulated(&["m1"]);
    sandbox.apply("").code(0);
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    sandbox.fleet.lock_cluster("m1").add_fault(InjectedFault::new("dry run", FaultKind::Status(500)));
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1.28");
}

const SERVICES: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: services, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Service}]
  placement: {clusterAffinity: {}}
";

#[test]
fn what_waits_for_a_deletion_is_not_asked_about() {
    let service = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{type: NodePort, ports: \
             [{{port: 80, nodePort: 30123}}]}}\n"
        )
    };
    let sandbox = Sandbox::simulated(&["m1"]).file("services.yaml", SERVICES).file("s.yaml", &service("old"));
    sandbox.apply("").code(0);
    sandbox.write("s.yaml", &service("new"));
    sandbox.apply("--prune-limit 50").code(0);
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/services/new"));
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/services/old"));
}

/// The `OpenAPI` document of an aggregated API server, whose probes are merged by their names.
fn gauges() -> Value {
    let probe =
        json!({"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}});
    json!({"openapi": "3.0.0", "components": {"schemas": {"test.gauges.Gauge": {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "gauges.test", "version": "v1", "kind": "Gauge"}],
        "properties": {"spec": {"type": "object", "properties": {"probes": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": probe}}}},
    }}}})
}

#[test]
fn lists_of_aggregated_kinds_are_merged_as_the_clusters_openapi_says() {
    let gauge = "apiVersion: gauges.test/v1\nkind: Gauge\nmetadata: {name: g, namespace: shop}\nspec: {probes: [{name: a, port: 1}]}\n";
    let sandbox = serving(TestCluster::new("m1").with_aggregated_kind("gauges.test/v1", "Gauge", gauges()))
        .file("g.yaml", gauge)
        .file(
            "gauges.yaml",
            &SERVICES.replace("{apiVersion: v1, kind: Service}", "{apiVersion: gauges.test/v1, kind: Gauge}"),
        );
    sandbox.apply("").code(0);
    let path = "/apis/gauges.test/v1/namespaces/shop/gauges/g";
    let probes = json!([{"name": "b", "port": 2}]);
    let other = json!({"apiVersion": "gauges.test/v1", "kind": "Gauge", "metadata": {"name": "g"}, "spec": {"probes": probes}});
    assert_eq!(sandbox.fleet.lock_cluster("m1").apply_object(path, "somebody", &other).status, 200);
    // The prediction knows that the probe of the other manager stays.
    let ran = sandbox.apply("--dry-run=client -o json").code(0);
    assert_eq!(ran.action("m1", "Gauge", "g")["action"], "unchanged", "{ran:#?}");
    sandbox.write("g.yaml", &gauge.replace("port: 1", "port: 3"));
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", path)["spec"]["probes"].as_array().unwrap().len(), 2);
}
