//! What a run makes of servers that misbehave: each cluster has its own fate.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sandbox::{PARENT, Sandbox, WEB, config, deployment};
use federate_test_apiserver::{ApiRequest, ApiUser, FaultKind, InjectedFault};

#[test]
fn busy_servers_and_broken_connections_are_asked_again() {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    let faults = [
        InjectedFault::new("list", FaultKind::Status(503)),
        InjectedFault::new("get", FaultKind::Drop),
        InjectedFault::new("patch", FaultKind::TooMany { seconds: 1 }).on_path("configmaps/federate"),
        InjectedFault::new("patch", FaultKind::Drop).with_times(2).on_path("deployments"),
        InjectedFault::new("patch", FaultKind::Status(504)).on_path("configmaps/a"),
    ];
    for fault in faults {
        sandbox.fleet.lock_cluster("m1").add_fault(fault);
    }
    let start = Instant::now();
    sandbox.apply("").code(0);
    assert!(start.elapsed() >= Duration::from_secs(1), "Retry-After is obeyed");
    assert!(sandbox.has("m1", WEB));
}

#[test]
fn a_server_that_stays_busy_is_given_up() {
    let sandbox = Sandbox::simulated(&["m1"]);
    sandbox.fleet.lock_cluster("m1").add_fault(
        InjectedFault::new("patch", FaultKind::Status(503)).with_times(100).on_path("deployments"),
    );
    let ran = sandbox.apply("").code(2);
    assert!(
        ran.err.contains("error: m1: Deployment shop/web: ") && ran.err.contains("(5 attempts)"),
        "{ran:#?}"
    );
    assert_eq!(sandbox.count("m1", "patch"), 1 + 1 + 5, "parent, namespace, Deployment");
}

#[test]
fn an_unreachable_cluster_delays_no_other() {
    let sandbox = Sandbox::simulated(&["m1", "m2", "m3"]);
    sandbox.kubeconfig(|config| {
        config["clusters"][1]["cluster"]["server"] = json!("https://127.0.0.1:1");
        config["contexts"].as_array_mut().unwrap().remove(2);
    });
    let ran = sandbox.apply("-o json").code(2);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "create");
    assert!(sandbox.has("m1", WEB));
    assert!(ran.err.contains("error: m2: it cannot be reached: "), "{ran:#?}");
    assert!(ran.err.contains("error: m3: the kubeconfig has no context `m3`"), "{ran:#?}");
}

#[test]
fn a_cluster_that_stops_answering_is_given_up_as_a_whole() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    for name in 0..30 {
        sandbox.write(&format!("{name}.yaml"), &config(&format!("c{name}"), "1"));
    }
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Drop).with_times(1000).on_path("shop/"));
    let ran = sandbox.apply("").code(2);
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{ran:#?}");
    assert!(ran.err.contains("gave up at "), "{ran:#?}");
    assert!(sandbox.has("m2", WEB));
}

#[test]
fn the_object_whose_dry_run_breaks_the_connection_is_named() {
    let sandbox = Sandbox::simulated(&["m1"]);
    sandbox.apply("").code(0);
    sandbox.write("c.yaml", &config("c", "1"));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Drop).with_times(1000).on_path("configmaps/c"));
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("gave up at ConfigMap shop/c"), "{ran:#?}");
}

#[test]
fn a_context_may_have_another_name() {
    let sandbox = Sandbox::simulated(&["m1"]).file("federate.yaml", "contexts: {m1: prod-eu}\n");
    sandbox.kubeconfig(|config| config["contexts"][0]["name"] = json!("prod-eu"));
    sandbox.apply("--contexts-from-repo=prod-eu").code(0);
    assert!(sandbox.has("m1", WEB));
    let any = sandbox.apply("--contexts-from-repo").code(0);
    assert!(any.out.contains("unchanged"), "{any:#?}");
}

#[test]
fn a_server_that_is_not_trusted_is_sent_nothing() {
    let sandbox = Sandbox::simulated(&["m1"]);
    std::fs::write(sandbox.path("kubeconfig"), sandbox.fleet.kubeconfig_with_wrong_authority().unwrap())
        .unwrap();
    let start = Instant::now();
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("certificate"), "{ran:#?}");
    assert!(start.elapsed() < Duration::from_secs(2), "it is not tried again");
    assert!(sandbox.fleet.lock_cluster("m1").counts().is_empty());
}

#[test]
fn missing_rights_are_reported() {
    let sandbox = Sandbox::simulated(&["m1"]);
    sandbox.fleet.lock_cluster("m1").add_token("t0ken", ApiUser::new("viewer", &["system:authenticated"]));
    std::fs::write(sandbox.path("kubeconfig"), sandbox.fleet.kubeconfig_with_token("t0ken")).unwrap();
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("User \"viewer\" cannot get resource \"configmaps\""), "{ran:#?}");
    assert!(!ran.err.contains("t0ken"));
}

/// Grants what a file of `deploy/rbac` does, and the arguments with which to use it.
pub(crate) fn granted(sandbox: &Sandbox, name: &str) -> String {
    grant(sandbox, name);
    let user = format!("--as system:serviceaccount:default:shop-{name} --as-group system:authenticated");
    // API servers notice changed rights after a while.
    let end = Instant::now() + Duration::from_secs(20);
    while sandbox.apply(&format!("--dry-run=client --cluster m1 {user}")).code != 0 {
        assert!(Instant::now() < end, "the rights of {name} do not arrive");
        std::thread::sleep(Duration::from_millis(200));
    }
    user
}

/// Creates what a file of `deploy/rbac` holds.
pub(crate) fn grant(sandbox: &Sandbox, name: &str) {
    let path = format!("{}/deploy/rbac/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    // Each test of those that use real clusters has its own.
    let text = std::fs::read_to_string(path).unwrap().replace("federate-", "shop-");
    let stream = federate_yaml::read_stream(text.as_bytes());
    assert!(stream.errors.is_empty());
    for document in stream.documents {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let namespace = document.value["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = match document.value["kind"].as_str().unwrap() {
            "ClusterRole" => format!("{rbac}/clusterroles"),
            "ClusterRoleBinding" => format!("{rbac}/clusterrolebindings"),
            "Role" => format!("{rbac}/namespaces/{namespace}/roles"),
            "RoleBinding" => format!("{rbac}/namespaces/{namespace}/rolebindings"),
            "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            other => panic!("{other}"),
        };
        sandbox.create("m1", &path, "test", &document.value);
    }
}

#[test]
fn the_rights_in_deploy_suffice() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    let reader = granted(&sandbox, "drift");
    let ran = sandbox.apply(&reader).code(2);
    assert!(ran.err.contains("cannot patch") || ran.err.contains("cannot create"), "{ran:#?}");
    let user = granted(&sandbox, "apply");
    for name in ["a", "b", "c", "d"] {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
    }
    sandbox.apply(&user).code(0);
    sandbox.remove("a.yaml");
    let ran = sandbox.apply(&user).code(2);
    assert!(ran.err.contains("cannot delete"), "{ran:#?}");
    grant(&sandbox, "prune");
    let end = Instant::now() + Duration::from_secs(20);
    while sandbox.apply(&user).code != 0 {
        assert!(Instant::now() < end, "the rights of prune do not arrive");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
}

#[test]
fn conflicts_with_other_clients_are_retried() {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Conflict).on_path("deployments"));
    let ran = sandbox.apply("-o json").code(0);
    assert_eq!(ran.action("m1", "Deployment", "web")["action"], "create");
    assert_eq!(
        ran.action("m1", "ConfigMap", "a")["action"],
        "create",
        "the action is reported as it was done"
    );
    assert!(sandbox.has("m1", WEB));
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Conflict).with_times(99).on_path("deployments"));
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("gave up after 6 conflicts: another client keeps modifying it"), "{ran:#?}");
}

#[test]
fn a_run_that_is_killed_can_be_repeated() {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox.fleet.lock_cluster("m1").add_fault(
        InjectedFault::new("patch", FaultKind::Slow(Duration::from_mins(1))).on_path("deployments"),
    );
    let mut killed = sandbox.command("").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while !sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a") {
        assert!(Instant::now() < end, "nothing was applied");
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!sandbox.has("m1", WEB));
    let parent = sandbox.get("m1", PARENT);
    let kinds = &parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"];
    assert_eq!(kinds, "ConfigMap,Deployment.apps,Namespace", "what was about to be made is named");

    // Objects that are no longer rendered by now are found anyway.
    sandbox.remove("a.yaml");
    sandbox.apply("--prune-limit 100").code(0);
    assert!(sandbox.has("m1", WEB));
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
    sandbox.forget("m1");
    sandbox.apply("").code(0);
    assert_eq!(sandbox.writes("m1"), 0);
}

#[test]
fn nothing_is_deleted_where_something_failed() {
    let sandbox = Sandbox::simulated(&["m1"]);
    for name in ["a", "b", "c"] {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
    }
    sandbox.apply("").code(0);
    sandbox.remove("a.yaml");
    sandbox.write("b.yaml", &config("b", "2"));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Status(500)).on_path("configmaps/b"));
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("ConfigMap shop/a: not deleted"), "{ran:#?}");
    assert!(sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
    assert_eq!(sandbox.count("m1", "delete"), 0);
    sandbox.apply("").code(0);
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
}

#[test]
fn values_of_secrets_are_not_shown() {
    let secret = |kind: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop}}\ntype: {kind}\nstringData: {{k: hunter2}}\n"
        )
    };
    let sandbox = Sandbox::simulated(&["m1"]).file("s.yaml", &secret("Opaque"));
    for arguments in ["-o json", "-o json --dry-run=server", "-v"] {
        let ran = sandbox.apply(arguments).code(0);
        assert!(!ran.out.contains("hunter2") && !ran.out.contains("aHVudGVyMg"), "{ran:#?}");
    }
    // Its type cannot be changed.
    sandbox.write("s.yaml", &secret("example.com/hunter2"));
    let ran = sandbox.apply("-v");
    assert!(!ran.err.contains("hunter2"), "{ran:#?}");
    // Nor by the server, where the decision was taken otherwise.
    let refusal = InjectedFault::new("patch", FaultKind::Status(500)).on_path("secrets/s");
    sandbox.write("s.yaml", &secret("Opaque").replace("{k:", "{k2: x, k:"));
    sandbox.fleet.lock_cluster("m1").add_fault(refusal);
    let ran = sandbox.apply("").code(2);
    assert!(ran.err.contains("Secret shop/s: ") && !ran.err.contains("out of order on demand"), "{ran:#?}");
}

#[test]
fn throttling_is_waited_out() {
    let sandbox = Sandbox::simulated(&["m1"]);
    for name in 0..30 {
        sandbox.write(&format!("{name}.yaml"), &config(&format!("c{name}"), "1"));
    }
    sandbox.fleet.lock_cluster("m1").add_fault(
        InjectedFault::new("patch", FaultKind::TooMany { seconds: 1 }).with_times(40).on_path("shop/"),
    );
    let start = Instant::now();
    sandbox.apply("").code(0);
    // While the server asks for a pause no requests are sent: eight at a time are refused.
    assert!(start.elapsed() >= Duration::from_secs(40 / 8 - 1));
    assert!(sandbox.has("m1", WEB));
}

#[test]
fn answers_that_are_lost_are_asked_for_again() {
    let sandbox = Sandbox::simulated(&["m1"]);
    for name in ["a", "b", "c"] {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
    }
    let lose = |verb: &str, path: &str| {
        sandbox.fleet.lock_cluster("m1").add_fault(InjectedFault::new(verb, FaultKind::Lose).on_path(path));
    };
    lose("patch", "configmaps/a");
    lose("patch", "configmaps/federate");
    lose("list", "deployments");
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", "/api/v1/namespaces/shop/configmaps/a")["data"]["k"], "1");

    sandbox.remove("a.yaml");
    lose("delete", "configmaps/a");
    sandbox.apply("--prune-limit 100").code(0);
    assert!(!sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
    // An object with a finalizer still exists when it is read again, in another version.
    let held = json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/held"]}]);
    let path = "/api/v1/namespaces/shop/configmaps/b";
    let request = ApiRequest::new("PATCH", path).with_body("application/json-patch+json", held.to_string());
    assert_eq!(sandbox.fleet.lock_cluster("m1").handle_request(&request).status, 200);
    sandbox.remove("b.yaml");
    lose("delete", "configmaps/b");
    sandbox.apply("--prune-limit 100").code(0);
    assert!(sandbox.get("m1", path)["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn lists_whose_pages_expire_are_begun_anew() {
    let sandbox = Sandbox::simulated(&["m1"]);
    let all: String = (0..510).map(|n| config(&format!("c{n}"), "1") + "---\n").collect();
    sandbox.write("many.yaml", &all);
    sandbox.apply("").code(0);
    for times in [1, 2, 9] {
        sandbox
            .fleet
            .lock_cluster("m1")
            .add_fault(InjectedFault::new("list", FaultKind::Gone).with_times(times).on_path("continue="));
        sandbox.forget("m1");
        let ran = sandbox.apply("-o json").code(0);
        assert!(!ran.out.contains("\"create\""), "{times}");
        assert_eq!(sandbox.writes("m1"), 0, "{times}");
    }
}

#[test]
fn a_silent_cluster_delays_no_other() {
    let names: Vec<String> = (0..24).map(|at| format!("m{at:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sandbox = Sandbox::simulated(&names);
    // It accepts connections, and does not answer.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    sandbox.kubeconfig(|config| {
        for at in 0..20 {
            config["clusters"][at]["cluster"]["server"] = json!(format!("https://{address}"));
        }
    });
    let mut run = sandbox.command("").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    for name in &names[20..] {
        while !sandbox.has(name, WEB) {
            assert!(Instant::now() < end, "{name} waits for those that are silent");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn without_a_kubeconfig_the_pods_credentials_are_wanted() {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    let home = sandbox.path("home");
    std::fs::create_dir(&home).unwrap();
    let run = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_federate"));
        command.args(["apply", "repo"]).current_dir(sandbox.path("")).env("HOME", &home);
        command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        run(&[]).contains(
            "no kubeconfig found in $KUBECONFIG or ~/.kube/config: name the file with --kubeconfig"
        )
    );
    let missing = sandbox.path("none");
    assert!(run(&[("KUBECONFIG", missing.to_str().unwrap())]).contains("kubeconfig"));
    let pod = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
    if !std::path::Path::new("/var/run/secrets/kubernetes.io").exists() {
        assert!(run(&pod).contains("the pod's own credentials fail"), "{}", run(&pod));
    }
}
