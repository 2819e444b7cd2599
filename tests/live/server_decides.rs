//! Where an API server is reached, it decides: what is refused here is sent all the same, and what it makes of an
//! object counts.

use serde_json::{Value, json};

use crate::adoption::by_kubectl;
use crate::sandbox::{Sandbox, WEB, deployment};
use federate_test_apiserver::{Cluster, Fault, Fleet, Mishap};

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

fn sandbox() -> Sandbox {
    Sandbox::with(&["m1"], Fleet::serve(vec![Cluster::new("m1").admission(inject)]))
        .file("web.yaml", &mounting("nginx:1.27"))
}

#[test]
fn what_admission_completes_is_created_updated_and_then_left_alone() {
    let sandbox = sandbox();
    // Without a server nobody knows of the volume.
    let ran = sandbox.apply("--dry-run=client -o json").code(2);
    assert!(
        ran.action("m1", "Deployment", "web")["error"].as_str().unwrap().contains("volumeMounts"),
        "{ran:#?}"
    );

    let ran = sandbox.apply("-o json").code(0);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!((&web["action"], &web["outcome"]), (&json!("create"), &json!("done")), "{web}");
    sandbox.write("web.yaml", &mounting("nginx:1.28"));
    let ran = sandbox.apply("-o json").code(0);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!(web["diffs"].as_array().unwrap().len(), 1, "{web}");
    assert_eq!(web["result"]["spec"]["template"]["spec"]["volumes"][0]["name"], "agent");
    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "unchanged");
    sandbox.wrote("m1", 0);
    sandbox.run("drift", "").code(0);
}

#[test]
fn what_would_restart_by_the_servers_word_is_not_adopted() {
    let sandbox = sandbox();
    by_kubectl_elsewhere(&sandbox);
    let ran = sandbox.apply("--adopt if-no-restart -o json").code(2);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!((&web["action"], &web["outcome"]), (&json!("conflict"), &json!("not-tried")), "{web}");
    assert!(web["reason"].as_str().unwrap().contains("would restart its pods"), "{web}");
}

/// The Deployment of another server-side manager: nothing is handed over, so that the server is asked.
fn by_kubectl_elsewhere(sandbox: &Sandbox) {
    sandbox.create_namespace("m1");
    let body = federate_yaml::read(deployment("nginx:1.27").as_bytes()).documents.pop().unwrap().value;
    sandbox.create("m1", "/apis/apps/v1/namespaces/shop/deployments", "somebody", &body);
}

#[test]
fn what_the_server_would_refuse_is_not_sent() {
    let sandbox = Sandbox::new(&["m1"]);
    by_kubectl(&sandbox, &json!({"old": "label"}));
    sandbox.apply("--adopt if-no-restart").code(0);
    let before = sandbox.get("m1", WEB);
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    sandbox.fleet.cluster("m1").fault(Fault::new("dry run", Mishap::Status(500)));
    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(2);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!((&web["action"], &web["outcome"]), (&json!("update"), &json!("failed")), "{web}");
    sandbox.wrote("m1", 0);
    assert_eq!(sandbox.get("m1", WEB), before);
}
