//! `federate sync` with tenants, the requests of people, and what `deploy` and `federate install` bring.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB, deployment};
use crate::sync_objects::{Hub, Running, SYNCS, image, until};

#[test]
fn tenants_reach_what_their_account_may() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"serviceAccountName": "tenant"})));
    let ran = hub.once().code(2);
    let refused = "the Secret shop/members cannot be read: the API server of the Syncs refuses: secrets \"members\" is \
                   forbidden: User \"system:serviceaccount:shop:tenant\"";
    assert!(ran.out.contains(refused), "Secrets are read as the account: {ran:#?}");
    let may_read = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "shop"}]});
    let rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
    hub.sandbox.create("hub", &format!("{rights}/roles"), "test", &may_read);
    hub.sandbox.create("hub", &format!("{rights}/rolebindings"), "test", &binding);
    let ran = hub.once().code(2);
    assert!(ran.out.contains("system:serviceaccount:shop:tenant"), "{ran:#?}");
    assert!(!ran.out.contains("the Secret"), "it acts as the account in members, too: {ran:#?}");
    assert!(!hub.sandbox.has("m1", WEB));
}

#[test]
fn syncs_may_be_confined_to_their_namespace() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"dependsOn": [{"name": "base", "namespace": "other"}]})));
    let ran = hub.sandbox.ran(&mut hub.command("--once --no-cross-namespace-refs")).code(2);
    assert!(ran.out.contains("InvalidSpec: spec.dependsOn: the namespace `other`"), "{ran:#?}");
    assert!(!hub.sandbox.has("m1", WEB));
}

#[test]
fn people_ask_for_rounds_and_pauses() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    hub.push("second");
    let ask = |request: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args(["sync", request, "web", "--namespace", &hub.sandbox.own("shop"), "--context", "hub"]);
        command.args(["--kubeconfig", "hub.kubeconfig"]).current_dir(hub.sandbox.path(""));
        hub.sandbox.ran(&mut command)
    };
    let ran = ask("reconcile").code(0);
    assert!(ran.out.contains("shop/web: ReconciliationSucceeded: applied main@sha1:"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.28", "the round is over");
    ask("suspend").code(0);
    assert_eq!(hub.sandbox.get("hub", &format!("{SYNCS}/web"))["spec"]["suspend"], true);
    ask("resume").code(0);
    assert_eq!(hub.sandbox.get("hub", &format!("{SYNCS}/web"))["spec"]["suspend"], false);
    let ran = ask("approve").code(2);
    assert!(ran.err.contains("shop/web waits for no approval"), "{ran:#?}");
    drop(running);
}

#[test]
fn an_installation_is_what_deploy_has() {
    let sandbox = Sandbox::simulated(&["hub"]);
    let run = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        Ran::of(&command.args(arguments.split(' ')).current_dir(sandbox.path("")).output().unwrap())
    };
    for _ in 0..2 {
        run("install --context hub --kubeconfig kubeconfig").code(0);
    }
    let path = "/apis/apps/v1/namespaces/federate-system/deployments/federate-sync";
    assert_eq!(sandbox.get("hub", path)["spec"]["replicas"], 2);
    let exported = run("install --export --image example.com/federate:1").code(0).out;
    let exported = federate_yaml::read(exported.as_bytes()).documents;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let files = [
        "sync/namespace",
        "crds/syncs.federate.dev",
        "sync/rbac",
        "sync/networkpolicy",
        "sync/deployment",
        "sync/pdb",
    ];
    let all = files.iter().flat_map(|file| {
        federate_yaml::read(&fs::read(root.join(format!("{file}.yaml"))).unwrap()).documents
    });
    let mut all: Vec<Value> = all.map(|document| document.value).collect();
    for manifest in &mut all {
        if let Some(image) = manifest.pointer_mut("/spec/template/spec/containers/0/image") {
            *image = "example.com/federate:1".into();
        }
    }
    assert_eq!(exported.into_iter().map(|document| document.value).collect::<Vec<_>>(), all);
}

#[test]
fn everything_of_deploy_is_taken_by_the_api_server() {
    let sandbox = Sandbox::simulated(&["hub"]);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/sync");
    let list = fs::read(root.join("kustomization.yaml")).unwrap();
    let list = federate_yaml::read(&list).documents.remove(0).value;
    let files: Vec<&str> = list["resources"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(files.contains(&"../crds") && root.join("../crds/kustomization.yaml").exists());
    for file in files.into_iter().filter(|file| *file != "../crds") {
        let text = fs::read(root.join(file)).unwrap();
        for document in federate_yaml::read(&text).documents {
            let body = document.value;
            let plural = match body["kind"].as_str().unwrap() {
                "NetworkPolicy" => "networkpolicies".to_owned(),
                kind => format!("{}s", kind.to_lowercase()),
            };
            let version = body["apiVersion"].as_str().unwrap();
            let group = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
            let place = body["metadata"]["namespace"]
                .as_str()
                .map(|name| format!("/namespaces/{name}"))
                .unwrap_or_default();
            let made = sandbox.fleet.cluster("hub").create(&format!("{group}{place}/{plural}"), &body);
            assert_eq!(made.status, 201, "{file}: {:?}", made.object());
            // Namespaces that enforce the standard `restricted` take the pods.
            if let Some(pod) = body.pointer("/spec/template/spec") {
                let container = &pod["containers"][0]["securityContext"];
                assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
                assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
                assert_eq!(container["allowPrivilegeEscalation"], false);
                assert_eq!(container["capabilities"]["drop"], json!(["ALL"]));
            }
        }
    }
}
