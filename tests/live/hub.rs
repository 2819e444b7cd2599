//! The ways to clusters that the inventory on the hub knows, and what a repo may say of them.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::reach::{administrator, token};
use crate::sandbox::{Sandbox, WEB};
use federate_test_apiserver::{ApiRequest, ApiUser};

/// Leaves the kubeconfig no context but that of the hub.
fn only_hub(sandbox: &Sandbox) {
    sandbox.kubeconfig(|config| {
        config["contexts"].as_array_mut().unwrap().retain(|context| context["name"] == "hub");
    });
}

pub(crate) fn secret(sandbox: &Sandbox, namespace: &str, name: &str, data: &Value) {
    let mut hub = sandbox.fleet.lock_cluster("hub");
    hub.create_namespace(namespace);
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
    assert_eq!(hub.create_object(&format!("/api/v1/namespaces/{namespace}/secrets"), &body).status, 201);
}

/// The inventory, alike in the repo and on the hub.
pub(crate) fn inventory(sandbox: &Sandbox, objects: &[Value]) {
    listed(sandbox, objects);
    for object in objects {
        joined(sandbox, object);
    }
}

/// The inventory of the repo.
fn listed(sandbox: &Sandbox, objects: &[Value]) {
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    sandbox.write("clusters.yaml", &documents.join("\n---\n"));
}

/// Makes an inventory object on the hub, whose kind is served there as the control plane has it.
fn joined(sandbox: &Sandbox, object: &Value) {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = object["kind"].as_str().unwrap();
    let plural = format!("{}s", kind.to_lowercase());
    let namespace = object["metadata"]["namespace"].as_str();
    let scope = if namespace.is_some() { "Namespaced" } else { "Cluster" };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural}, "versions": [{
            "name": version, "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }]},
    });
    let mut hub = sandbox.fleet.lock_cluster("hub");
    hub.create_object("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let folder = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    if let Some(namespace) = namespace {
        hub.create_namespace(namespace);
    }
    let path = format!("/apis/{group}/{version}/{folder}{plural}");
    // The kind is served a moment after its definition.
    let made = (0..5).any(|_| hub.create_object(&path, object).status == 201);
    assert!(made, "{path}");
}

pub(crate) fn karmada(sandbox: &Sandbox, name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["apiEndpoint"] = json!(sandbox.fleet.cluster_url("m1"));
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn karmadas_inventory_leads_to_its_clusters() {
    let sandbox = Sandbox::simulated(&["hub", "m1"]);
    let named =
        |name: &str| json!({"syncMode": "Push", "secretRef": {"namespace": "karmada-cluster", "name": name}});
    let mut unverified = named("no-ca");
    unverified["insecureSkipTLSVerification"] = json!(true);
    let clusters = [
        karmada(&sandbox, "good", named("good")),
        karmada(&sandbox, "missing", named("missing")),
        karmada(&sandbox, "no-ca", named("no-ca")),
        karmada(&sandbox, "unverified", unverified),
        karmada(&sandbox, "pulled", json!({"syncMode": "Pull"})),
    ];
    inventory(&sandbox, &clusters);
    only_hub(&sandbox);
    let token = token(&sandbox);
    secret(
        &sandbox,
        "karmada-cluster",
        "good",
        &json!({"token": token, "caBundle": administrator(&sandbox)[2]}),
    );
    secret(&sandbox, "karmada-cluster", "no-ca", &json!({"token": token}));

    let ran = sandbox.apply("--hub-context hub --cluster good").code(0);
    assert!(sandbox.has("m1", WEB), "{ran:#?}");
    let ran = sandbox.apply("--hub-context hub --adopt always").code(2);
    for line in [
        "error: missing: the hub's Secret karmada-cluster/missing, which the inventory object names: it does not exist",
        "error: no-ca: the hub's Secret karmada-cluster/no-ca, which the inventory object names: it has no `caBundle`",
        "error: pulled: its Cluster has no spec.secretRef (its agent pulls, and lent no credentials); name a context",
    ] {
        assert!(ran.err.contains(line), "{ran:#?}");
    }
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("error: ")).count(), 3, "{ran:#?}");
    assert!(!ran.err.contains("t0ken") && !ran.err.contains("dDBrZW4"));
}

#[test]
fn a_repo_does_not_choose_where_credentials_are_sent_nor_which() {
    let sandbox = Sandbox::simulated(&["hub", "m1"]);
    let own = json!({"secretRef": {"namespace": "karmada-cluster", "name": "m1"}});
    let right = karmada(&sandbox, "m1", own);
    only_hub(&sandbox);
    let token = token(&sandbox);
    let authority = &administrator(&sandbox)[2];
    secret(&sandbox, "karmada-cluster", "m1", &json!({"token": token, "caBundle": authority}));
    secret(&sandbox, "kube-system", "admin", &json!({"token": token, "caBundle": authority}));
    let attacker = TcpListener::bind("127.0.0.1:0").unwrap();
    attacker.set_nonblocking(true).unwrap();
    let elsewhere = format!("https://{}", attacker.local_addr().unwrap());
    let repo = |change: &dyn Fn(&mut Value)| {
        let mut object = right.clone();
        change(&mut object["spec"]);
        listed(&sandbox, &[object]);
    };

    repo(&|spec| spec["apiEndpoint"] = json!(elsewhere));
    let ran = sandbox.run("drift", "--hub-context hub").code(2);
    assert!(ran.err.contains("the hub does not serve cluster.karmada.io/v1alpha1 Cluster"), "{ran:#?}");
    let other = karmada(&sandbox, "other", json!({}));
    joined(&sandbox, &other);
    let ran = sandbox.run("drift", "--hub-context hub").code(2);
    assert!(ran.err.contains("Cluster m1 is in the repo, but not on the hub"), "{ran:#?}");

    joined(&sandbox, &right);
    for (field, change) in [
        ("address", &(|spec: &mut Value| spec["apiEndpoint"] = json!(elsewhere)) as &dyn Fn(&mut Value)),
        ("Secret", &|spec| spec["secretRef"] = json!({"namespace": "kube-system", "name": "admin"})),
        ("verification of its certificate", &|spec| spec["insecureSkipTLSVerification"] = json!(true)),
        ("proxy", &|spec| spec["proxyURL"] = json!(elsewhere)),
        ("impersonator Secret", &|spec| {
            spec["impersonatorSecretRef"] = json!({"namespace": "kube-system", "name": "admin"});
        }),
    ] {
        repo(change);
        for command in ["drift", "apply"] {
            let ran = sandbox.run(command, "--hub-context hub").code(2);
            let refusal = format!("error: m1: Cluster m1 has another {field} in the repo than on the hub");
            assert!(ran.err.contains(&refusal), "{ran:#?}");
        }
    }
    assert_eq!(attacker.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "no server was called");
    let read = |request: &ApiRequest| request.path.contains("/secrets/admin");
    assert!(!sandbox.fleet.lock_cluster("hub").answered().iter().any(read));

    // What the repo leaves out it leaves to the hub.
    repo(&|spec| *spec = json!({}));
    sandbox.apply("--hub-context hub").code(0);
    assert!(sandbox.has("m1", WEB));
}

#[test]
fn impersonation_uses_the_impersonator_account() {
    let sandbox = Sandbox::simulated(&["hub", "m1"]);
    let named = |name: &str| json!({"namespace": "karmada-cluster", "name": name});
    inventory(
        &sandbox,
        &[karmada(&sandbox, "m1", json!({"secretRef": named("m1"), "impersonatorSecretRef": named("as")}))],
    );
    only_hub(&sandbox);
    let authority = &administrator(&sandbox)[2];
    secret(&sandbox, "karmada-cluster", "m1", &json!({"token": "bm90aGluZw==", "caBundle": authority}));
    secret(&sandbox, "karmada-cluster", "as", &json!({"token": token(&sandbox)}));
    let ran = sandbox.apply("--hub-context hub").code(2);
    assert!(ran.err.contains("error: m1: Unauthorized"), "{ran:#?}");
    sandbox.apply("--hub-context hub --as ann --as-group system:masters").code(0);
    let ran = sandbox.apply("--hub-context hub --as ann").code(2);
    assert!(ran.err.contains("User \"ann\" cannot get"), "{ran:#?}");
}

#[test]
fn kubeadmirals_and_kubefeds_inventories_lead_to_their_clusters() {
    let sandbox = Sandbox::simulated(&["hub", "m1"]);
    let url = sandbox.fleet.cluster_url("m1");
    let admiral = |name: &str, more: Value| {
        let mut spec = json!({"apiEndpoint": url, "secretRef": {"name": name}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({
            "apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "FederatedCluster",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let [certificate, key, authority] = administrator(&sandbox);
    let fed = json!({
        "apiVersion": "core.kubefed.io/v1beta1", "kind": "KubeFedCluster",
        "metadata": {"name": "fed", "namespace": "kube-federation-system"},
        "spec": {"apiEndpoint": url, "caBundle": authority, "secretRef": {"name": "fed-x"}},
    });
    let fleet = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": "fleet"},
        "spec": {"identity": {"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}},
    });
    let service_account = admiral("account", json!({"useServiceAccount": true}));
    inventory(&sandbox, &[admiral("user", json!({})), service_account, fed, fleet]);
    only_hub(&sandbox);
    let token = token(&sandbox);
    let user = json!({
        "client-certificate-data": certificate, "client-key-data": key, "certificate-authority-data": authority,
    });
    secret(&sandbox, "kube-admiral-system", "user", &user);
    let account = json!({"service-account-token-data": token, "certificate-authority-data": authority});
    secret(&sandbox, "kube-admiral-system", "account", &account);
    secret(&sandbox, "kube-federation-system", "fed-x", &json!({"token": token}));

    for cluster in ["user", "account", "fed"] {
        sandbox.apply(&format!("--hub-context hub --adopt always --cluster {cluster}")).code(0);
    }
    let ran = sandbox.apply("--hub-context hub --cluster fleet").code(2);
    assert!(ran.err.contains("error: fleet: its MemberCluster contains no connection details"), "{ran:#?}");
}

#[test]
fn contexts_that_are_named_go_before_the_inventory_and_the_inventory_before_other_contexts() {
    let sandbox = Sandbox::simulated(&["hub", "m1", "m2"]);
    let reference = json!({"secretRef": {"namespace": "karmada-cluster", "name": "none"}});
    inventory(&sandbox, &[karmada(&sandbox, "m1", reference.clone()), karmada(&sandbox, "m2", reference)]);
    sandbox.write("federate.yaml", "contexts: {m2: m2}\n");
    let ran = sandbox.apply("--hub-context hub").code(2);
    assert!(ran.err.contains("error: m2: federate.yaml:1:12 names the context `m2`"), "{ran:#?}");
    assert!(!sandbox.has("m2", WEB), "the repo chose the credentials");
    let ran = sandbox.apply("--hub-context hub --contexts-from-repo=m2").code(2);
    assert!(ran.err.contains("error: m1: the hub's Secret karmada-cluster/none"), "{ran:#?}");
    assert!(sandbox.has("m2", WEB) && !ran.err.contains("error: m2"), "{ran:#?}");
    sandbox.apply("").code(0);
}

#[test]
fn a_hub_that_cannot_be_reached_is_asked_once() {
    let sandbox = Sandbox::simulated(&["hub", "m1"]);
    let reference = json!({"secretRef": {"namespace": "karmada-cluster", "name": "none"}});
    inventory(&sandbox, &[karmada(&sandbox, "m1", reference.clone()), karmada(&sandbox, "m2", reference)]);
    sandbox.kubeconfig(|config| config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1"));
    let ran = sandbox.apply("--hub-context hub").code(2);
    assert!(ran.err.contains("error: m1, m2: the hub (`hub`): it cannot be reached"), "{ran:#?}");
    let ran = sandbox.apply("--hub-context elsewhere").code(2);
    assert!(
        ran.err.contains("the hub (`elsewhere`): the kubeconfig has no context `elsewhere`\n"),
        "{ran:#?}"
    );
}

#[test]
fn the_rights_for_the_hub_suffice_and_no_more_are_used() {
    let sandbox = Sandbox::simulated(&["hub", "m1"]);
    let named = json!({"secretRef": {"namespace": "karmada-cluster", "name": "m1"}});
    inventory(&sandbox, &[karmada(&sandbox, "m1", named)]);
    let token = token(&sandbox);
    let data = json!({"token": token, "caBundle": administrator(&sandbox)[2]});
    secret(&sandbox, "karmada-cluster", "m1", &data);
    sandbox.fleet.lock_cluster("hub").add_token("reader", ApiUser::new("reader", &["system:authenticated"]));
    sandbox.kubeconfig(|config| {
        config["contexts"].as_array_mut().unwrap().retain(|context| context["name"] == "hub");
        config["users"][0]["user"] = json!({"token": "reader"});
    });
    let ran = sandbox.apply("--hub-context hub").code(2);
    assert!(ran.err.contains("User \"reader\" cannot get resource \"clusters\""), "{ran:#?}");

    let path = format!("{}/deploy/rbac/hub.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for document in federate_yaml::read_stream(text.as_bytes()).documents {
        let mut body = document.value;
        let namespace = body["metadata"]["namespace"].as_str().map(str::to_owned);
        if let Some(subjects) = body.get_mut("subjects") {
            *subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]);
        }
        let plural = format!("{}s", body["kind"].as_str().unwrap().to_lowercase());
        let mut hub = sandbox.fleet.lock_cluster("hub");
        let path = match namespace {
            Some(namespace) if plural == "serviceaccounts" => {
                format!("/api/v1/namespaces/{namespace}/{plural}")
            }
            Some(namespace) => {
                hub.create_namespace(&namespace);
                format!("{rbac}/namespaces/{namespace}/{plural}")
            }
            None => format!("{rbac}/{plural}"),
        };
        assert_eq!(hub.create_object(&path, &body).status, 201, "{path}");
    }
    sandbox.forget("hub");
    sandbox.apply("--hub-context hub").code(0);
    let verbs = sandbox.fleet.lock_cluster("hub").answered().iter().any(|request| request.method != "GET");
    assert!(!verbs, "the hub is only read");
}
