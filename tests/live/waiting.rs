//! Waiting until what was applied is healthy.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, deployment};

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

#[test]
fn a_run_waits_until_all_is_well() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(ran.err.contains("error: m1: Deployment shop/web: not healthy after 1 s: "), "{ran:#?}");
    sandbox.start_pods("m1");
    sandbox.apply("--wait 1m").code(0);
}

/// One pod runs, and the next revision gets a second one, whose image cannot be pulled: the old pod is available, as many
/// pods as desired are updated, and Karmada calls that healthy.
#[test]
fn a_new_pod_that_does_not_start_is_not_healthy_because_the_old_one_runs() {
    for dialect in ["karmada", "none"] {
        let sandbox = Sandbox::anywhere(&["m1"]);
        if dialect == "none" {
            sandbox.set("unplaced", &json!("everywhere"));
            sandbox.set("clusters", &json!([{"name": "m1"}]));
            sandbox.remove("policy.yaml");
            sandbox.remove("clusters.yaml");
        }
        let web = |image: &str| deployment(image).replace("replicas: 2", "replicas: 1");
        sandbox.write("web.yaml", &web("nginx:1.27"));
        sandbox.apply("").code(0);
        sandbox.start_pods("m1");
        sandbox.write("web.yaml", &web("nginx:1.28"));
        sandbox.apply("").code(0);
        sandbox.hold_new_pod("m1");
        let ran = sandbox.apply("--wait 1s").code(2);
        let expected = "error: m1: Deployment shop/web: not healthy after 1 s: 1 old pod remains";
        assert!(ran.err.contains(expected), "{dialect}: {ran:#?}");
        sandbox.start_pods("m1");
        sandbox.apply("--wait 1m").code(0);
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

/// What is applied, its path, and its status while it is waited for and when it is healthy.
type Workload = (Value, &'static str, Value, Value);

fn workloads() -> [Workload; 3] {
    let metadata = json!({"name": "w", "namespace": "shop"});
    let selector = json!({"matchLabels": {"app": "w"}});
    let containers = json!([{"name": "w", "image": "nginx:1.27"}]);
    let template = json!({"metadata": {"labels": {"app": "w"}}, "spec": {"containers": containers}});
    let update = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let stateful = json!({"replicas": 2, "serviceName": "w", "selector": selector, "template": template,
        "updateStrategy": update});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    [
        (
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": stateful}),
            "/apis/apps/v1/namespaces/shop/statefulsets/w/status",
            json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "availableReplicas": 1,
                "currentReplicas": 1, "updatedReplicas": 1}),
            json!({"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2}),
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata,
                "spec": {"selector": selector, "template": template}}),
            "/apis/apps/v1/namespaces/shop/daemonsets/w/status",
            json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
                "updatedNumberScheduled": 1, "numberAvailable": 2, "numberReady": 2, "numberMisscheduled": 0}),
            json!({"updatedNumberScheduled": 2}),
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": once}}),
            "/apis/batch/v1/namespaces/shop/jobs/w/status",
            json!({"active": 1, "startTime": "2026-01-01T00:00:00Z"}),
            json!({"active": 0, "succeeded": 1, "completionTime": "2026-01-01T00:01:00Z", "conditions": [
                {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"},
            ]}),
        ),
    ]
}

/// Their status is written here, which controllers of real clusters would write again.
#[test]
fn workloads_of_every_kind_are_waited_for() {
    for (object, status, waiting, healthy) in workloads() {
        let sandbox = Sandbox::simulated(&["m1"]);
        for file in ["web.yaml", "policy.yaml", "clusters.yaml"] {
            sandbox.remove(file);
        }
        sandbox.set("unplaced", &json!("everywhere"));
        sandbox.set("clusters", &json!([{"name": "m1"}]));
        sandbox.write("w.yaml", &object.to_string());
        let kind = object["kind"].as_str().unwrap();
        let unhealthy = format!("error: m1: {kind} shop/w: not healthy after 1 s: ");
        let ran = sandbox.apply("--wait 1s").code(2);
        assert!(ran.err.contains(&unhealthy), "{ran:#?}");
        sandbox.edit("m1", "controller", status, &json!({"status": waiting}));
        let ran = sandbox.apply("--wait 1s").code(2);
        assert!(ran.err.contains(&unhealthy), "{ran:#?}");
        sandbox.edit("m1", "controller", status, &json!({"status": healthy}));
        sandbox.apply("--wait 1m").code(0);
        if kind == "Job" {
            let failed = json!([{"type": "Failed", "status": "True", "message": "too often",
                "lastTransitionTime": "2026-01-01T00:01:00Z"}]);
            sandbox.edit("m1", "controller", status, &json!({"status": {"conditions": failed}}));
            let ran = sandbox.apply("--wait 10m").code(2);
            assert!(ran.err.contains("Job shop/w: ") && !ran.err.contains("not healthy after"), "{ran:#?}");
        }
    }
}

/// Pods below the partition keep the former revision, and need not be updated.
#[test]
fn a_stateful_set_is_waited_for_down_to_its_partition() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    for file in ["web.yaml", "policy.yaml", "clusters.yaml"] {
        sandbox.remove(file);
    }
    sandbox.set("unplaced", &json!("everywhere"));
    sandbox.set("clusters", &json!([{"name": "m1"}]));
    let path = "/apis/apps/v1/namespaces/shop/statefulsets/w";
    let write = |image: &str| {
        let (mut set, ..) = workloads().into_iter().next().unwrap();
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        sandbox.write("w.yaml", &set.to_string());
    };
    let status = |updated: i64, revision: &str| {
        json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": updated,
            "currentRevision": "a", "updateRevision": revision})
    };
    write("nginx:1.27");
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(ran.err.contains("StatefulSet shop/w: not healthy after 1 s: "), "{ran:#?}");
    sandbox.reach_status("m1", path, &status(2, "a"));
    sandbox.apply("--wait 1m").code(0);
    write("nginx:1.28");
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(ran.err.contains("StatefulSet shop/w: not healthy after 1 s: "), "{ran:#?}");
    sandbox.reach_status("m1", path, &status(1, "b"));
    sandbox.apply("--wait 1m").code(0);
}
