//! Existing objects are adopted without a restart.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, deployment};

/// The Deployment as `kubectl apply` makes it.
pub(crate) fn by_kubectl(sandbox: &Sandbox, labels: &Value) {
    sandbox.create_namespace("m1");
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
    sandbox.create("m1", "/apis/apps/v1/namespaces/shop/deployments", "kubectl-client-side-apply", &body);
}

#[test]
fn objects_of_kubectl_apply_are_adopted_without_a_restart() {
    let sandbox = Sandbox::anywhere_with_nodes(&["m1"]);
    by_kubectl(&sandbox, &json!({"old": "label"}));
    let running = sandbox.running("m1");
    let before = sandbox.get("m1", WEB);
    let ran = sandbox.apply("--adopt if-no-restart -o json").code(0);
    let action = ran.action("m1", "Deployment", "web");
    assert_eq!((&action["action"], &action["restartsPods"]), (&json!("adopt"), &json!(false)), "{action}");

    let after = sandbox.get("m1", WEB);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["labels"].get("old"), None, "labels that are not rendered are removed");
    // Controllers own the status, and their annotations.
    let ours =
        |entry: &&Value| entry["subresource"].is_null() && entry["manager"] != "kube-controller-manager";
    let managers: Vec<&str> = after["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(ours)
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(managers, ["federate"]);
    assert_eq!(sandbox.running("m1"), running);

    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
    sandbox.wrote("m1", 0);
    assert_eq!(sandbox.running("m1"), running);
}

#[test]
fn an_adoption_that_would_restart_pods_is_refused() {
    let sandbox = Sandbox::anywhere_with_nodes(&["m1"]);
    by_kubectl(&sandbox, &json!({}));
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    let running = sandbox.running("m1");
    let before = sandbox.get("m1", WEB);
    let ran = sandbox.apply("--adopt if-no-restart -o json").code(2);
    let action = ran.action("m1", "Deployment", "web");
    assert_eq!(action["action"], "conflict");
    assert!(ran.err.contains("Deployment shop/web: it exists already"), "{ran:#?}");
    assert!(action["reason"].as_str().unwrap().contains("restart"), "{action}");
    let after = sandbox.get("m1", WEB);
    assert_eq!(
        (&after["spec"], &after["metadata"]["labels"]),
        (&before["spec"], &before["metadata"]["labels"])
    );
    assert_eq!(sandbox.running("m1"), running);
}

#[test]
fn the_annotation_of_kubectl_is_no_difference() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    by_kubectl(&sandbox, &json!({}));
    let ran = sandbox.apply("--adopt if-no-diff -o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "adopt", "{ran:#?}");
    let annotations = sandbox.get("m1", WEB)["metadata"]["annotations"].clone();
    assert_eq!(
        annotations.get("kubectl.kubernetes.io/last-applied-configuration"),
        None,
        "it has no meaning any more"
    );
}

#[test]
fn objects_of_controllers_and_other_tools_need_force() {
    for (metadata, owner) in [
        (json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}), "Flux (kustomize apps)"),
        (
            json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web"}}),
            "Argo CD (application shop)",
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "App", "name": "web", "uid": "1", "controller": true}]}),
            "App web, its controller",
        ),
    ] {
        let sandbox = Sandbox::simulated(&["m1"]);
        by_kubectl(&sandbox, &json!({}));
        sandbox.edit("m1", "tool", WEB, &json!({"metadata": metadata}));
        sandbox.write("web.yaml", &deployment("nginx:1.28"));
        let ran = sandbox.apply("--adopt always -o json").code(2);
        let web = ran.action("m1", "Deployment", "web");
        assert_eq!(web["action"], "conflict", "{web}");
        assert!(web["reason"].as_str().unwrap().starts_with(&format!("it belongs to {owner}; ")), "{web}");
        let ran = sandbox.apply("--adopt always --force -o json").code(0);
        assert_eq!(ran.action("m1", "Deployment", "web")["action"], "adopt", "{ran:#?}");
    }
}
