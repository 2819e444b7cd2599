//! `federate sync` with tenants, the requests of people, and what `deploy` and `federate install` bring.

use std::fs;
use std::process::Command;

use federate_test_apiserver::ApiUser;
use serde_json::{Value, json};

use crate::hub::{inventory, karmada, secret};
use crate::reach::{administrator, token};
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

/// Removes the patterns of names from the definition of Sync, as an older definition has none.
fn without_patterns(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("pattern");
            map.values_mut().for_each(without_patterns);
        }
        Value::Array(items) => items.iter_mut().for_each(without_patterns),
        _ => {}
    }
}

#[test]
fn names_lead_to_no_other_object() {
    let hub = Hub::simulated();
    let source = json!({"url": hub.url(), "ref": {"branch": "main"}, "secretRef": {"name": "../../victim/secrets/git"}});
    let stolen = hub.sync("web", &json!({"source": source}));
    let refused = hub.sandbox.fleet.lock_cluster("hub").create_object(SYNCS, &stolen);
    assert_eq!(refused.status, 422, "the definition refuses it");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/syncs.federate.dev";
    let mut old = hub.sandbox.get("hub", definitions);
    without_patterns(&mut old["spec"]["versions"]);
    assert_eq!(hub.sandbox.ask("hub", "PUT", definitions, "test", "application/json", &old), 200);
    hub.create(&stolen);
    let ran = hub.once().code(2);
    assert!(
        ran.out.contains("InvalidSpec: spec.source.secretRef.name: `../../victim/secrets/git` is not a name"),
        "{ran:#?}"
    );
    let asked = |part: &str| {
        let cluster = hub.sandbox.fleet.lock_cluster("hub");
        cluster.answered().iter().any(|request| request.path.contains(part))
    };
    assert!(!asked("victim"), "nothing was asked for");

    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    let index = "/apis/federate.dev/v1alpha1/namespaces/shop/syncrecords/federate.web";
    let edit = json!({"data": {"parts": "../secrets/members"}});
    assert_eq!(hub.sandbox.ask("hub", "PATCH", index, "test", "application/merge-patch+json", &edit), 200);
    let ran = hub.once().code(2);
    assert!(ran.out.contains("it names `../secrets/members`, which is not its part 0"), "{ran:#?}");
    assert!(!asked("syncrecords/.."), "nothing was asked for");
}

/// Grants a user of the hub something everywhere.
fn grant(hub: &Hub, name: &str, account: (&str, &str), rules: &Value) {
    let rights = "/apis/rbac.authorization.k8s.io/v1";
    let (namespace, user) = account;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": namespace}]});
    hub.sandbox.create_global("hub", &format!("{rights}/clusterroles"), &role);
    hub.sandbox.create_global("hub", &format!("{rights}/clusterrolebindings"), &binding);
}

#[test]
fn the_control_planes_secrets_are_used_as_an_account_of_the_tenant() {
    let hub = Hub::with(&["m1"]);
    let sandbox = &hub.sandbox;
    let named = json!({"syncMode": "Push", "secretRef": {"namespace": "karmada-cluster", "name": "m1"}});
    inventory(sandbox, &[karmada(sandbox, "m1", named)]);
    let data = json!({"token": token(sandbox), "caBundle": administrator(sandbox)[2]});
    secret(sandbox, "karmada-cluster", "m1", &data);
    hub.push("inventory");
    let read = json!([{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    grant(&hub, "hub", ("federate-system", "federate-sync"), &read);
    let mut sync = hub.sync("web", &json!({"hub": {}}));
    sync["spec"].as_object_mut().unwrap().remove("kubeConfig");
    hub.create(&sync);
    let asked = || {
        let cluster = sandbox.fleet.lock_cluster("hub");
        let asked = cluster.answered().iter().filter(|request| request.path.contains("karmada"));
        asked.map(|request| request.headers.get("impersonate-user").cloned()).collect::<Vec<_>>()
    };
    sandbox.fleet.lock_cluster("hub").reset_counts();
    let ran = hub.once().code(2);
    let refused = "InvalidSpec: spec.serviceAccountName: the clusters would be reached with the control plane's Secrets";
    assert!(ran.out.contains(refused), "{ran:#?}");
    assert!(asked().is_empty() && !sandbox.has("m1", WEB));

    // A default account is enough to read nothing that it may not read.
    let ran = run_once(&hub, "--once --default-service-account default").code(2);
    assert!(ran.out.contains("system:serviceaccount:shop:default"), "{ran:#?}");
    hub.patch("web", &json!({"spec": {"serviceAccountName": "tenant"}}));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("User \"system:serviceaccount:shop:tenant\""), "towards the hub: {ran:#?}");
    assert!(!asked().is_empty() && asked().iter().all(Option::is_some), "{:?}", asked());
    grant(&hub, "tenant", ("shop", "tenant"), &read);
    let ran = hub.once().code(2);
    assert!(
        ran.out.contains("m1: ") && ran.out.contains("system:serviceaccount:shop:tenant"),
        "in members: {ran:#?}"
    );
    assert!(!sandbox.has("m1", WEB));

    // The operator may trust a namespace.
    hub.patch("web", &json!({"spec": {"serviceAccountName": null, "withoutImpersonation": true}}));
    let ran = run_once(&hub, "--once --trusted-namespaces other").code(2);
    assert!(ran.out.contains("InvalidSpec: spec.withoutImpersonation"), "{ran:#?}");
    let trusted = format!("--once --trusted-namespaces other,{}", sandbox.own("shop"));
    let ran = run_once(&hub, &trusted).code(0);
    assert!(sandbox.has("m1", WEB), "{ran:#?}");
}

#[test]
fn federates_own_kubeconfig_is_used_as_an_account_of_the_tenant() {
    let hub = Hub::simulated();
    // An administrator of the members.
    hub.sandbox
        .fleet
        .lock_cluster("m1")
        .add_token("federate-sync", ApiUser::new("federate", &["system:masters"]));
    let mut sync = hub.sync("web", &json!({}));
    sync["spec"].as_object_mut().unwrap().remove("kubeConfig");
    hub.create(&sync);
    let ran = hub.once().code(2);
    let refused =
        "InvalidSpec: spec.serviceAccountName: the clusters would be reached with federate's own credentials";
    assert!(ran.out.contains(refused), "{ran:#?}");
    let ran = run_once(&hub, "--once --default-service-account default").code(2);
    assert!(ran.out.contains("system:serviceaccount:shop:default"), "{ran:#?}");
    assert!(!hub.sandbox.has("m1", WEB));
}

fn run_once(hub: &Hub, arguments: &str) -> Ran {
    hub.sandbox.ran(&mut hub.command(arguments))
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
    let exported = federate_yaml::read_stream(exported.as_bytes()).documents;
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
        federate_yaml::read_stream(&fs::read(root.join(format!("{file}.yaml"))).unwrap()).documents
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
    let list = federate_yaml::read_stream(&list).documents.remove(0).value;
    let files: Vec<&str> = list["resources"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(files.contains(&"../crds") && root.join("../crds/kustomization.yaml").exists());
    for file in files.into_iter().filter(|file| *file != "../crds") {
        let text = fs::read(root.join(file)).unwrap();
        for document in federate_yaml::read_stream(&text).documents {
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
            let made =
                sandbox.fleet.lock_cluster("hub").create_object(&format!("{group}{place}/{plural}"), &body);
            assert_eq!(made.status, 201, "{file}: {:?}", made.json_body());
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
