//! What runs already is taken over without a restart.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, deployment};
use crate::support::apiserver::Request;

/// The Deployment as `kubectl apply` makes it.
fn by_kubectl(sandbox: &Sandbox, labels: &Value) {
    let mut cluster = sandbox.fleet.cluster("m1");
    cluster.namespace("shop");
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": labels, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        }},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
            },
        },
    });
    let request = Request::new("POST", "/apis/apps/v1/namespaces/shop/deployments")
        .query("fieldManager", "kubectl-client-side-apply")
        .body("application/json", body.to_string());
    assert_eq!(cluster.handle(&request).status, 201);
}

#[test]
fn what_kubectl_apply_made_is_taken_over_without_a_restart() {
    let sandbox = Sandbox::new(&["m1"]);
    by_kubectl(&sandbox, &json!({"old": "label"}));
    let before = sandbox.get("m1", WEB);
    let ran = sandbox.apply("--adopt if-no-restart -o json").code(0);
    let action = ran.action("m1", "Deployment", "web");
    assert_eq!((&action["action"], &action["restartsPods"]), (&json!("adopt"), &json!(false)), "{action}");

    let after = sandbox.get("m1", WEB);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["labels"].get("old"), None, "what is not rendered goes, as it would have");
    let managers: Vec<&str> = after["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(managers, ["federate"]);

    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
    assert_eq!(sandbox.writes("m1"), 0);
}

#[test]
fn what_would_restart_is_left() {
    let sandbox = Sandbox::new(&["m1"]);
    by_kubectl(&sandbox, &json!({}));
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    let before = sandbox.get("m1", WEB);
    let ran = sandbox.apply("--adopt if-no-restart -o json").code(0);
    let action = ran.action("m1", "Deployment", "web");
    assert_eq!(action["action"], "conflict");
    assert!(action["reason"].as_str().unwrap().contains("restart"), "{action}");
    assert_eq!(sandbox.get("m1", WEB), before);
}
