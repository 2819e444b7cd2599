//! The ways to clusters: contexts, what the inventory knows, credentials of commands, proxies.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB};
use federate_test_apiserver::{Fault, Mishap, Request, User};

/// What the kubeconfig of a sandbox says of its administrator: certificate, key, authority, in base64.
fn administrator(sandbox: &Sandbox) -> [Value; 3] {
    let config: Value = serde_json::from_str(&sandbox.fleet.kubeconfig()).unwrap();
    let user = &config["users"][0]["user"];
    [
        user["client-certificate-data"].clone(),
        user["client-key-data"].clone(),
        config["clusters"][0]["cluster"]["certificate-authority-data"].clone(),
    ]
}

/// Leaves the kubeconfig no context but that of the hub.
fn only_hub(sandbox: &Sandbox) {
    sandbox.kubeconfig(|config| {
        config["contexts"].as_array_mut().unwrap().retain(|context| context["name"] == "hub");
    });
}

fn secret(sandbox: &Sandbox, namespace: &str, name: &str, data: &Value) {
    let mut hub = sandbox.fleet.cluster("hub");
    hub.namespace(namespace);
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
    assert_eq!(hub.create(&format!("/api/v1/namespaces/{namespace}/secrets"), &body).status, 201);
}

/// `t0ken` in base64, and its owner in `m1`.
fn token(sandbox: &Sandbox) -> Value {
    sandbox.fleet.cluster("m1").token("t0ken", User::new("karmada", &["system:masters"]));
    json!("dDBrZW4=")
}

/// The inventory, alike in the repo and on the hub.
fn inventory(sandbox: &Sandbox, objects: &[Value]) {
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
    let mut hub = sandbox.fleet.cluster("hub");
    hub.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let folder = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    if let Some(namespace) = namespace {
        hub.namespace(namespace);
    }
    let path = format!("/apis/{group}/{version}/{folder}{plural}");
    // The kind is served a moment after its definition.
    let made = (0..5).any(|_| hub.create(&path, object).status == 201);
    assert!(made, "{path}");
}

fn karmada(sandbox: &Sandbox, name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["apiEndpoint"] = json!(sandbox.fleet.url("m1"));
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn karmadas_inventory_leads_to_its_clusters() {
    let sandbox = Sandbox::new(&["hub", "m1"]);
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
        "error: missing: the hub's Secret karmada-cluster/missing, which its inventory names: it is not there",
        "error: no-ca: the hub's Secret karmada-cluster/no-ca, which its inventory names: it has no `caBundle`",
        "error: pulled: its Cluster has no spec.secretRef (its agent pulls, and lent no credentials); name a context",
    ] {
        assert!(ran.err.contains(line), "{ran:#?}");
    }
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("error: ")).count(), 3, "{ran:#?}");
    assert!(!ran.err.contains("t0ken") && !ran.err.contains("dDBrZW4"));
}

#[test]
fn a_repo_does_not_choose_where_credentials_are_sent_nor_which() {
    let sandbox = Sandbox::new(&["hub", "m1"]);
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
    assert!(ran.err.contains("the hub has no Cluster m1, only the repo has"), "{ran:#?}");

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
            let told = format!("error: m1: Cluster m1 has another {field} in the repo than on the hub");
            assert!(ran.err.contains(&told), "{ran:#?}");
        }
    }
    assert_eq!(attacker.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody was called");
    let read = |request: &Request| request.path.contains("/secrets/admin");
    assert!(!sandbox.fleet.cluster("hub").answered().iter().any(read));

    // What the repo leaves out it leaves to the hub.
    repo(&|spec| *spec = json!({}));
    sandbox.apply("--hub-context hub").code(0);
    assert!(sandbox.has("m1", WEB));
}

#[test]
fn a_kubeconfig_that_is_not_valid_is_not_quoted() {
    let sandbox = Sandbox::new(&["m1"]);
    for text in ["users: [{name: a, user: {token: hunter2", "users:\n- name: a\n  user: {token: [hunter2]}\n"]
    {
        fs::write(sandbox.path("kubeconfig"), text).unwrap();
        let ran = sandbox.apply("").code(2);
        assert!(ran.err.contains("the kubeconfig is not valid") && !ran.err.contains("hunter2"), "{ran:#?}");
    }
}

#[test]
fn whoever_acts_as_somebody_else_does_so_by_the_impersonator() {
    let sandbox = Sandbox::new(&["hub", "m1"]);
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
    let sandbox = Sandbox::new(&["hub", "m1"]);
    let url = sandbox.fleet.url("m1");
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
    assert!(ran.err.contains("error: fleet: its MemberCluster does not say how it is reached"), "{ran:#?}");
}

#[test]
fn contexts_that_are_named_go_before_the_inventory_and_the_inventory_before_other_contexts() {
    let sandbox = Sandbox::new(&["hub", "m1", "m2"]);
    let reference = json!({"secretRef": {"namespace": "karmada-cluster", "name": "none"}});
    inventory(&sandbox, &[karmada(&sandbox, "m1", reference.clone()), karmada(&sandbox, "m2", reference)]);
    sandbox.write("federate.yaml", "contexts: {m2: m2}\n");
    let ran = sandbox.apply("--hub-context hub").code(2);
    assert!(ran.err.contains("error: m1: the hub's Secret karmada-cluster/none"), "{ran:#?}");
    assert!(sandbox.has("m2", WEB) && !ran.err.contains("error: m2"), "{ran:#?}");
    sandbox.apply("").code(0);
}

#[test]
fn a_hub_that_cannot_be_reached_is_asked_once() {
    let sandbox = Sandbox::new(&["hub", "m1"]);
    let reference = json!({"secretRef": {"namespace": "karmada-cluster", "name": "none"}});
    inventory(&sandbox, &[karmada(&sandbox, "m1", reference.clone()), karmada(&sandbox, "m2", reference)]);
    sandbox.kubeconfig(|config| config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1"));
    let ran = sandbox.apply("--hub-context hub").code(2);
    for cluster in ["m1", "m2"] {
        assert!(
            ran.err.contains(&format!("error: {cluster}: the hub (`hub`): it cannot be reached")),
            "{ran:#?}"
        );
    }
    let ran = sandbox.apply("--hub-context elsewhere").code(2);
    assert!(
        ran.err.contains("the hub (`elsewhere`): the kubeconfig has no context `elsewhere`\n"),
        "{ran:#?}"
    );
}

/// A command for credentials that notes each run of it, and then does `what`.
fn command(sandbox: &Sandbox, what: &str) {
    let path = sandbox.path("credentials");
    fs::write(&path, format!("#!/bin/sh\necho run >> \"$(dirname \"$0\")/runs\"\n{what}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.kubeconfig(|config| {
        config["users"][0]["user"] = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": path, "args": ["--password", "hunter2"],
            "env": [{"name": "PASSWORD", "value": "hunter2"}], "interactiveMode": "IfAvailable",
        }});
    });
}

fn runs(sandbox: &Sandbox) -> usize {
    let runs = fs::read_to_string(sandbox.path("runs")).unwrap().lines().count();
    fs::remove_file(sandbox.path("runs")).unwrap();
    runs
}

const CREDENTIAL: &str = r#"echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t0ken"}}'"#;

#[test]
fn commands_give_credentials_and_give_them_again() {
    let sandbox = Sandbox::new(&["m1"]);
    token(&sandbox);
    command(&sandbox, CREDENTIAL);
    sandbox.apply("").code(0);
    let once = runs(&sandbox);
    sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.28"));
    sandbox.fleet.cluster("m1").fault(Fault::new("patch", Mishap::Stranger));
    sandbox.apply("").code(0);
    assert_eq!(runs(&sandbox), 2 * once, "expired credentials are asked for again");
    sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.29"));
    sandbox.fleet.cluster("m1").fault(Fault::new("patch", Mishap::Stranger).times(9));
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("Unauthorized"), "{ran:#?}");
    assert_eq!(runs(&sandbox), 2 * once, "but not for ever");
}

#[test]
fn commands_that_fail_are_not_quoted() {
    let sandbox = Sandbox::new(&["m1"]);
    for (what, told) in [
        (
            "echo hunter2; echo hunter2 >&2; exit 3",
            "the kubeconfig's command for credentials failed (exit status: 3)",
        ),
        ("echo '{hunter2'", "the kubeconfig's command for credentials prints no ExecCredential"),
    ] {
        command(&sandbox, what);
        let ran = sandbox.apply("-v").code(2);
        assert!(ran.err.contains(told), "{ran:#?}");
        assert!(!ran.err.contains("hunter2") && !ran.out.contains("hunter2"), "{ran:#?}");
    }
    fs::remove_file(sandbox.path("credentials")).unwrap();
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("the kubeconfig's command for credentials does not start"), "{ran:#?}");
}

#[test]
fn a_kubeconfig_that_does_not_parse_is_not_quoted() {
    let sandbox = Sandbox::new(&["m1"]);
    for text in [
        "users:\n- name: a\n  user: {token: hunter2\n",
        "users: [{name: a, user: {token: [hunter2]}}]\n",
        "users: hunter2\n",
        "users:\n- name: a\n  user:\n    token: \"hunter2\n",
        "hunter2",
        "users:\n- name: a\n  user:\n    token: *hunter2\n",
        "users:\n- name: a\n  user:\n  \ttoken: hunter2\n",
        "{\"users\": [{\"name\": \"a\", \"user\": {\"token\": \"hunter2\" \"b\"}}]}",
        "users:\n- name: a\n  user:\n    exec: hunter2\n",
    ] {
        fs::write(sandbox.path("kubeconfig"), text).unwrap();
        let ran = sandbox.apply("-v").code(2);
        assert!(ran.err.contains("the kubeconfig"), "{text}: {ran:#?}");
        assert!(!ran.err.contains("hunter2") && !ran.out.contains("hunter2"), "{text}: {ran:#?}");
    }
}

#[test]
fn requests_are_made_as_somebody_else() {
    let sandbox = Sandbox::new(&["m1"]);
    {
        let mut cluster = sandbox.fleet.cluster("m1");
        cluster.token("t0ken", User::new("ci", &["system:authenticated"]));
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "as"},
            "rules": [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"],
                "resourceNames": ["ann", "system:masters", "others"]}],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "as"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ci"}],
        });
        for (plural, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
            assert_eq!(cluster.create(&path, &body).status, 201);
        }
    }
    fs::write(sandbox.path("kubeconfig"), sandbox.fleet.kubeconfig_with_token("t0ken")).unwrap();
    for (arguments, told) in [
        ("", "User \"ci\" cannot get resource \"configmaps\""),
        ("--as ann", "User \"ann\" cannot get resource \"configmaps\""),
        ("--as bob", "User \"ci\" cannot impersonate resource \"users\""),
        ("--as ann --as-group system:nodes", "User \"ci\" cannot impersonate resource \"groups\""),
    ] {
        let ran = sandbox.apply(arguments).code(2);
        assert!(ran.err.contains(told), "{arguments}: {ran:#?}");
    }
    sandbox.apply("--as ann --as-group others --as-group system:masters").code(0);
}

#[test]
fn proxies_are_taken() {
    let sandbox = Sandbox::new(&["m1"]);
    let (address, passed) = proxy();
    for way in ["http://ann:hunter2@", "socks5://"] {
        sandbox.kubeconfig(|config| {
            config["clusters"][0]["cluster"]["proxy-url"] = json!(format!("{way}{address}"));
        });
        sandbox.apply("").code(0);
        assert!(passed.swap(0, Ordering::Relaxed) > 0 && sandbox.has("m1", WEB), "{way}");
    }
    for url in ["ftp://ann:hunter2@127.0.0.1:1", "http://ann:hunter2@127.0.0.1:1", "http://ann:hun ter2@"] {
        sandbox.kubeconfig(|config| config["clusters"][0]["cluster"]["proxy-url"] = json!(url));
        let ran = sandbox.apply("").code(2);
        assert!(ran.err.contains("error: m1: ") && !ran.err.contains("ter2"), "{ran:#?}");
    }
}

#[test]
fn the_environments_proxy_is_not_taken_to_the_machine_itself() {
    let sandbox = Sandbox::new(&["m1"]);
    let ran = sandbox.command("").env("HTTPS_PROXY", "http://127.0.0.1:1").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    sandbox.kubeconfig(|config| config["clusters"][0]["cluster"]["server"] = json!("https://m1.invalid"));
    let (address, passed) = proxy();
    let mut through = sandbox.command("");
    through.env("HTTPS_PROXY", format!("http://{address}"));
    through.output().unwrap();
    assert!(passed.swap(0, Ordering::Relaxed) > 0);
    through.env("NO_PROXY", "m1.invalid").output().unwrap();
    assert_eq!(passed.load(Ordering::Relaxed), 0);
}

/// A proxy that knows `CONNECT` and version 5 of SOCKS, and how often it was asked.
fn proxy() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let passed = Arc::new(AtomicUsize::new(0));
    let asked = passed.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            asked.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || drop(tunnel(client)));
        }
    });
    (address, passed)
}

fn tunnel(mut client: TcpStream) -> std::io::Result<()> {
    let mut first = [0];
    client.peek(&mut first)?;
    let mut server = if first[0] == 5 { by_socks(&mut client)? } else { by_connect(&mut client)? };
    let (mut from, mut back) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut from, &mut server));
    std::io::copy(&mut back, &mut client)?;
    Ok(())
}

fn by_connect(client: &mut TcpStream) -> std::io::Result<TcpStream> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let to = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap();
    let server = TcpStream::connect(to)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    Ok(server)
}

/// Without a password, to an IPv4 address.
fn by_socks(client: &mut TcpStream) -> std::io::Result<TcpStream> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting)?;
    client.read_exact(&mut vec![0; greeting[1].into()])?;
    client.write_all(&[5, 0])?;
    let mut request = [0; 10];
    client.read_exact(&mut request)?;
    let [5, 1, 0, 1, a, b, c, d, high, low] = request else { panic!("{request:?}") };
    let server = TcpStream::connect((std::net::Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])))?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    Ok(server)
}

/// A shell for the pod's paths, which are the same everywhere: in namespaces of its own they can be had.
/// `None` where the machine allows none.
fn pod(sandbox: &Sandbox, token: &str) -> Option<Command> {
    let authority = sandbox.path("authority");
    let Value::String(encoded) = &administrator(sandbox)[2] else { panic!("no authority") };
    fs::write(&authority, encoded).unwrap();
    let prepare = format!(
        "mount -t tmpfs none \"$(readlink -f /var/run)\" || exit 77
         d=/var/run/secrets/kubernetes.io/serviceaccount; mkdir -p $d
         printf %s {token} > $d/token; printf %s default > $d/namespace; base64 -d {} > $d/ca.crt
         exec \"$0\" \"$@\"",
        authority.display()
    );
    let shell = || {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &prepare]).current_dir(sandbox.path(""));
        command
    };
    let works = shell().arg("true").output().is_ok_and(|output| output.status.success());
    works.then(|| {
        let mut command = shell();
        let url = sandbox.fleet.url("m1");
        let port = url.rsplit(':').next().unwrap();
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
        command.env("HOME", sandbox.path("nobody")).env_remove("KUBECONFIG");
        command.args([env!("CARGO_BIN_EXE_federate"), "apply", "repo"]);
        command
    })
}

#[test]
fn a_pod_reaches_its_own_cluster() {
    let sandbox = Sandbox::new(&["m1", "m2"]);
    token(&sandbox);
    let Some(mut one) = pod(&sandbox, "t0ken") else {
        println!("this machine lets nobody have mounts of its own");
        return;
    };
    let output = one.args(["--cluster", "m1"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(sandbox.has("m1", WEB) && !sandbox.has("m2", WEB));
    let told = |arguments: &[&str], token: &str| {
        let output = pod(&sandbox, token).unwrap().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let both = told(&[], "t0ken");
    assert!(both.contains("but 2 are wanted: choose one with --cluster"), "{both}");
    let stranger = told(&["--cluster", "m1"], "hunter2");
    assert!(stranger.contains("error: m1: Unauthorized") && !stranger.contains("hunter2"), "{stranger}");
    let hub = told(&["--cluster", "m1", "--hub-context", "hub"], "t0ken");
    assert!(hub.contains("there is no kubeconfig whose context could lead to the hub"), "{hub}");
}
