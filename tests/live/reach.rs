//! The ways to clusters: contexts, credentials of commands, proxies, the pod's own cluster.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB};
use federate_test_apiserver::{ApiUser, FaultKind, InjectedFault};

/// What the kubeconfig of a sandbox says of its administrator: certificate, key, authority, in base64.
pub(crate) fn administrator(sandbox: &Sandbox) -> [Value; 3] {
    let config: Value = serde_json::from_str(&sandbox.fleet.admin_kubeconfig()).unwrap();
    let user = &config["users"][0]["user"];
    [
        user["client-certificate-data"].clone(),
        user["client-key-data"].clone(),
        config["clusters"][0]["cluster"]["certificate-authority-data"].clone(),
    ]
}

/// `t0ken` in base64, and its owner in `m1`.
pub(crate) fn token(sandbox: &Sandbox) -> Value {
    sandbox.fleet.lock_cluster("m1").add_token("t0ken", ApiUser::new("karmada", &["system:masters"]));
    json!("dDBrZW4=")
}

#[test]
fn a_kubeconfig_that_is_not_valid_is_not_quoted() {
    let sandbox = Sandbox::simulated(&["m1"]);
    for text in ["users: [{name: a, user: {token: hunter2", "users:\n- name: a\n  user: {token: [hunter2]}\n"]
    {
        fs::write(sandbox.path("kubeconfig"), text).unwrap();
        let ran = sandbox.apply("").code(2);
        assert!(ran.err.contains("the kubeconfig is not valid") && !ran.err.contains("hunter2"), "{ran:#?}");
    }
}

#[test]
fn a_repo_does_not_choose_among_the_contexts() {
    let sandbox = Sandbox::simulated(&["m1", "prod"]).file("federate.yaml", "contexts:\n  m1: prod\n");
    let refused = "error: m1: federate.yaml:2:3 names the context `prod` of the kubeconfig for it, and a repo does not choose \
                   which contexts are used: --contexts-from-repo=prod allows this one";
    for (command, arguments) in [("apply", ""), ("apply", "--contexts-from-repo=stage,other"), ("drift", "")]
    {
        let ran = sandbox.run(command, &format!("{arguments} --cluster m1")).code(2);
        assert!(ran.err.contains(refused), "{ran:#?}");
        assert!(!sandbox.has("m1", WEB) && !sandbox.has("prod", WEB), "{ran:#?}");
    }
    // A name of its own needs no permission, and what the repo says of other clusters does not matter.
    sandbox.run("apply", "--cluster prod").code(0);
    assert!(sandbox.has("prod", WEB));
    let ran = sandbox.run("snapshot", "--out snapshot --cluster m1").code(2);
    assert!(ran.err.contains("names the context `prod`"), "{ran:#?}");
    sandbox.run("snapshot", "--out snapshot --cluster m1 --contexts-from-repo=stage").code(2);
    sandbox.run("snapshot", "--out snapshot --cluster m1 --contexts-from-repo=prod").code(0);
    assert!(sandbox.path("snapshot").is_dir());
    sandbox.run("apply", "--cluster m1 --contexts-from-repo=prod").code(0);
    assert!(!sandbox.has("m1", WEB), "it was applied through another context");
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
    let sandbox = Sandbox::simulated(&["m1"]);
    token(&sandbox);
    command(&sandbox, CREDENTIAL);
    sandbox.apply("").code(0);
    let once = runs(&sandbox);
    sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.28"));
    sandbox.fleet.lock_cluster("m1").add_fault(InjectedFault::new("patch", FaultKind::Stranger));
    sandbox.apply("").code(0);
    assert_eq!(runs(&sandbox), 2 * once, "expired credentials are asked for again");
    sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.29"));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Stranger).with_times(9));
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("Unauthorized"), "{ran:#?}");
    assert_eq!(runs(&sandbox), 2 * once, "but not for ever");
}

#[test]
fn commands_that_fail_are_not_quoted() {
    let sandbox = Sandbox::simulated(&["m1"]);
    for (what, message) in [
        (
            "echo hunter2; echo hunter2 >&2; exit 3",
            "the kubeconfig's command for credentials failed (exit status: 3)",
        ),
        ("echo '{hunter2'", "the kubeconfig's command for credentials prints no ExecCredential"),
    ] {
        command(&sandbox, what);
        let ran = sandbox.apply("-v").code(2);
        assert!(ran.err.contains(message), "{ran:#?}");
        assert!(!ran.err.contains("hunter2") && !ran.out.contains("hunter2"), "{ran:#?}");
    }
    fs::remove_file(sandbox.path("credentials")).unwrap();
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("the kubeconfig's command for credentials does not start"), "{ran:#?}");
}

#[test]
fn a_kubeconfig_that_does_not_parse_is_not_quoted() {
    let sandbox = Sandbox::simulated(&["m1"]);
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
fn requests_are_made_as_the_impersonated_user() {
    let sandbox = Sandbox::simulated(&["m1"]);
    {
        let mut cluster = sandbox.fleet.lock_cluster("m1");
        cluster.add_token("t0ken", ApiUser::new("ci", &["system:authenticated"]));
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
            assert_eq!(cluster.create_object(&path, &body).status, 201);
        }
    }
    fs::write(sandbox.path("kubeconfig"), sandbox.fleet.kubeconfig_with_token("t0ken")).unwrap();
    for (arguments, message) in [
        ("", "User \"ci\" cannot get resource \"configmaps\""),
        ("--as ann", "User \"ann\" cannot get resource \"configmaps\""),
        ("--as bob", "User \"ci\" cannot impersonate resource \"users\""),
        ("--as ann --as-group system:nodes", "User \"ci\" cannot impersonate resource \"groups\""),
    ] {
        let ran = sandbox.apply(arguments).code(2);
        assert!(ran.err.contains(message), "{arguments}: {ran:#?}");
    }
    sandbox.apply("--as ann --as-group others --as-group system:masters").code(0);
}

#[test]
fn proxies_are_taken() {
    let sandbox = Sandbox::simulated(&["m1"]);
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
    let sandbox = Sandbox::simulated(&["m1"]);
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
        let url = sandbox.fleet.cluster_url("m1");
        let port = url.rsplit(':').next().unwrap();
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
        command.env("HOME", sandbox.path("nobody")).env_remove("KUBECONFIG");
        command.args([env!("CARGO_BIN_EXE_federate"), "apply", "repo"]);
        command
    })
}

#[test]
fn a_pod_reaches_its_own_cluster() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    token(&sandbox);
    let Some(mut one) = pod(&sandbox, "t0ken") else {
        println!("this machine allows no mount namespaces");
        return;
    };
    let output = one.args(["--cluster", "m1"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(sandbox.has("m1", WEB) && !sandbox.has("m2", WEB));
    let errors = |arguments: &[&str], token: &str| {
        let output = pod(&sandbox, token).unwrap().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let both = errors(&[], "t0ken");
    assert!(both.contains("but 2 are needed: choose one with --cluster"), "{both}");
    let stranger = errors(&["--cluster", "m1"], "hunter2");
    assert!(stranger.contains("error: m1: Unauthorized") && !stranger.contains("hunter2"), "{stranger}");
    let hub = errors(&["--cluster", "m1", "--hub-context", "hub"], "t0ken");
    assert!(hub.contains("no kubeconfig found, and --hub-context names a context of it"), "{hub}");
}
