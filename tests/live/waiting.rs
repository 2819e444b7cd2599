//! Waiting until what was applied is healthy.

use serde_json::json;

use crate::sandbox::{Sandbox, WEB, deployment};

const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: shop}\n";
const HEALTH: &str = "apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: widgets}
spec:
  target: {apiVersion: example.com/v1, kind: Widget}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(widget)
          return widget.status ~= nil and widget.status.phase == 'Ready'
        end
";
use federate_test_apiserver::ApiRequest;

#[test]
fn a_run_waits_until_all_is_well() {
    let sandbox = Sandbox::simulated(&["m1"]);
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(ran.err.contains("error: m1: Deployment shop/web: not healthy after 1 s: "), "{ran:#?}");
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
    }});
    let request = ApiRequest::new("PATCH", &format!("{WEB}/status"))
        .with_body("application/merge-patch+json", status.to_string());
    assert_eq!(sandbox.fleet.lock_cluster("m1").handle_request(&request).status, 200);
    sandbox.apply("--wait 1m").code(0);
}

/// One pod runs, and the next revision gets a second one, whose image cannot be pulled: the old pod is available, as many
/// pods as desired are updated, and Karmada calls that healthy.
#[test]
fn a_new_pod_that_does_not_start_is_not_healthy_because_the_old_one_runs() {
    for dialect in ["karmada", "none"] {
        let sandbox = Sandbox::simulated(&["m1"]);
        sandbox.write("web.yaml", &deployment("nginx:1.27").replace("replicas: 2", "replicas: 1"));
        if dialect == "none" {
            sandbox.write("federate.yaml", "unplaced: everywhere\nclusters: [{name: m1}]\n");
            sandbox.remove("policy.yaml");
            sandbox.remove("clusters.yaml");
        }
        sandbox.apply("").code(0);
        sandbox.edit("m1", "controller", &format!("{WEB}/status"), &json!({"status": {
            "observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "unavailableReplicas": 1,
        }}));
        let ran = sandbox.apply("--wait 1s").code(2);
        let expected = "error: m1: Deployment shop/web: not healthy after 1 s: 1 old pod remains";
        assert!(ran.err.contains(expected), "{dialect}: {ran:#?}");
    }
}

/// Without the script, a Widget is well as soon as it is there.
#[test]
fn a_script_says_when_a_custom_resource_is_healthy() {
    let sandbox = Sandbox::simulated(&["m1"])
        .file("crd.yaml", WIDGETS)
        .file("w.yaml", WIDGET)
        .file("health.yaml", HEALTH);
    sandbox.remove("web.yaml");
    let status = "/apis/example.com/v1/namespaces/shop/widgets/w/status";
    for phase in ["", "Starting"] {
        let ran = sandbox.apply("--wait 1s").code(2);
        assert!(ran.err.contains("error: m1: Widget shop/w: not healthy after 1 s: "), "{phase}: {ran:#?}");
        sandbox.edit("m1", "widgets", status, &json!({"status": {"phase": "Starting"}}));
    }
    let mut waiting = sandbox.command("--wait 1m").stderr(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    sandbox.edit("m1", "widgets", status, &json!({"status": {"phase": "Ready"}}));
    assert!(waiting.wait().unwrap().success());
    sandbox.remove("health.yaml");
    sandbox.edit("m1", "widgets", status, &json!({"status": {"phase": "Starting"}}));
    sandbox.apply("--wait 1s").code(0);
}

/// Expressions of the repo decide about kinds whose status has no conditions.
#[test]
fn a_health_check_of_the_repo_says_when_an_object_is_healthy() {
    let sandbox = Sandbox::simulated(&["m1"]).file("crd.yaml", WIDGETS).file("w.yaml", WIDGET);
    sandbox.remove("web.yaml");
    let configure = |current: &str| {
        let check = format!(
            "{{apiVersion: example.com/v1, kind: Widget, current: \"{current}\", failed: \"has(status.phase) && status.phase == 'Broken'\"}}"
        );
        sandbox.write("federate.yaml", &format!("apply:\n  healthChecks:\n  - {check}\n"));
    };
    configure("status.phase =");
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(ran.err.contains("error[invalid-config]") && ran.err.contains("federate.yaml:3:"), "{ran:#?}");

    configure("status.phase == 'Ready'");
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(
        ran.err.contains("its health check `current` has no result: the object has no `status`"),
        "{ran:#?}"
    );
    let status = "/apis/example.com/v1/namespaces/shop/widgets/w/status";
    let set_phase = |phase: &str| sandbox.edit("m1", "widgets", status, &json!({"status": {"phase": phase}}));
    set_phase("Starting");
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(
        ran.err.contains("Widget shop/w: not healthy after 1 s: its health check `current` is false"),
        "{ran:#?}"
    );
    set_phase("Ready");
    sandbox.apply("--wait 1m").code(0);
    set_phase("Broken");
    let ran = sandbox.apply("--wait 10m").code(2);
    assert!(ran.err.contains("Widget shop/w: its health check `failed` is true"), "{ran:#?}");
}
