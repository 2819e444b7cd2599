//! Notifications of `federate sync`, and Syncs and tenants that get in each other's way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config, deployment};
use crate::sync_objects::{Hub, Running, git, image, until};

/// A request: its first line with all headers, and its body.
type Received = (String, String);

/// A server that takes every request.
struct Receiver {
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let all = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) < 3 {
                        break;
                    }
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                all.lock().unwrap().push((head, String::from_utf8(body).unwrap()));
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                let _ = reader.get_mut().write_all(answer);
            }
        });
        Self { address, received }
    }

    fn to(&self, path: &str) -> Vec<Received> {
        let start = format!("POST {path} ");
        let all = self.received.lock().unwrap();
        all.iter().filter(|(head, _)| head.starts_with(&start)).cloned().collect()
    }
}

#[test]
fn outcomes_are_sent_to_webhooks_slack_and_commits() {
    let (hub, receiver) = (Hub::new(), Receiver::start());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "notify"},
        "stringData": {"token": "s3cret", "address": format!("{}/services/T0/B0", receiver.address)}});
    hub.sandbox.create("hub", "/api/v1/namespaces/shop/secrets", "test", &secret);
    let to = |kind: &str, path: &str| json!({"type": kind, "address": format!("{}{path}", receiver.address), "secretRef": {"name": "notify"}});
    let notifications = json!([
        to("generic-hmac", "/hook"),
        {"type": "slack", "secretRef": {"name": "notify"}},
        to("github", "/acme/deploy.git"),
        to("gitlab", "/acme/deploy"),
    ]);
    hub.create(&hub.sync("web", &json!({"notifications": notifications})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let revision = hub.status("web")["lastAppliedRevision"].as_str().unwrap().to_owned();
    let commit = revision.rsplit_once(':').unwrap().1;
    until("the webhook has it", || receiver.to("/hook").len() == 1);
    let (head, body) = receiver.to("/hook").remove(0);
    assert!(head.to_lowercase().contains("x-signature: sha256="), "{head}");
    let event: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&event["severity"], &event["involvedObject"]["name"]), (&"info".into(), &"web".into()));
    assert_eq!(event["metadata"]["revision"], revision);
    until("Slack has it", || receiver.to("/services/T0/B0").len() == 1);
    let (_, body) = receiver.to("/services/T0/B0").remove(0);
    let body = hub.sandbox.known(&body);
    assert!(body.contains("*shop/web* ReconciliationSucceeded: applied "), "{body}");
    let github = format!("/api/v3/repos/acme/deploy/statuses/{commit}");
    until("GitHub has it", || receiver.to(&github).len() == 1);
    let (head, body) = receiver.to(&github).remove(0);
    assert!(head.to_lowercase().contains("authorization: bearer s3cret"));
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&status["state"], &status["context"]),
        (&"success".into(), &hub.sandbox.own("federate/shop/web").into())
    );
    let gitlab = format!("/api/v4/projects/acme%2Fdeploy/statuses/{commit}");
    until("GitLab has it", || receiver.to(&gitlab).len() == 1);

    // A revision with an error is reported once.
    hub.sandbox.write("web.yaml", "a: [");
    hub.push("broken");
    hub.patch("web", &json!({"metadata": {"annotations": {"federate.dev/requestedAt": "1"}}}));
    until("the failure is sent", || receiver.to("/hook").len() == 2);
    assert!(receiver.to("/hook")[1].1.contains("\"severity\":\"error\""));
    assert_eq!(running.end("-TERM"), Some(0));
    let log = std::fs::read_to_string(hub.sandbox.path("log")).unwrap();
    assert!(!log.contains("s3cret") && !log.contains("/services/"), "{log}");
}

#[test]
fn two_syncs_that_claim_one_object_are_both_named() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({})));
    hub.once().code(0);
    git(&hub.sandbox, "-C repo checkout -q -b other");
    hub.sandbox.write("web.yaml", &deployment("nginx:1.28"));
    git(&hub.sandbox, "-C repo commit -q -a -m other");
    git(&hub.sandbox, "-C repo push -q ../origin.git other");
    let source = json!({"url": hub.url(), "ref": {"branch": "other"}});
    hub.create(&hub.sync("zother", &json!({"source": source})));
    let ran = hub.once().code(2);
    assert_eq!(hub.ready("web")["status"], "True", "{ran:#?}");
    let message = hub.ready("zother")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("m1: Deployment shop/web: it belongs to the ApplySet"), "{message}");
    assert!(message.contains("(the ApplySet of the Sync shop/web)"), "{message}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
}

/// Lets a `ServiceAccount` change Deployments and `ConfigMap`s of one namespace of a cluster.
fn admit(sandbox: &Sandbox, cluster: &str, namespace: &str, account: &str) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": account},
        "rules": [{"apiGroups": ["", "apps"], "resources": ["configmaps", "deployments"], "verbs": ["*"]}]});
    let (owner, name) = account.split_once('.').unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": owner}]});
    let rights = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    sandbox.create(cluster, &format!("{rights}/roles"), "test", &role);
    sandbox.create(cluster, &format!("{rights}/rolebindings"), "test", &binding);
}

#[test]
fn a_hostile_tenant_reaches_nothing_of_another_one() {
    let hub = Hub::new();
    for member in ["m1", "m2"] {
        for namespace in ["shop", "shop-b"] {
            hub.sandbox.create_namespace_named(member, namespace);
        }
        admit(&hub.sandbox, member, "shop", "shop.good");
        admit(&hub.sandbox, member, "shop-b", "shop.bad");
    }
    let secrets = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["members"], "verbs": ["get"]}]});
    let subject = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "shop"});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [subject("good"), subject("bad")]});
    let rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
    hub.sandbox.create("hub", &format!("{rights}/roles"), "test", &secrets);
    hub.sandbox.create("hub", &format!("{rights}/rolebindings"), "test", &binding);
    hub.sandbox.remove("namespace.yaml");
    hub.push("no-namespace");
    let sync = |name: &str, account: &str, set: &str| {
        hub.sync(name, &json!({"serviceAccountName": account, "apply": {"applySet": set, "prune": true}}))
    };
    hub.create(&sync("good", "good", "shop/good"));
    hub.once().code(0);
    assert!(hub.sandbox.has("m1", WEB));
    // Controllers of real servers write the status and annotations.
    let desired = || {
        ["m1", "m2"].map(|member| {
            let web = hub.sandbox.get(member, WEB);
            (web["spec"].clone(), web["metadata"]["labels"].clone(), web["metadata"]["generation"].clone())
        })
    };
    let before = desired();
    // The same repository with another image, a Secret of the hub, and the other tenant's ApplySet.
    hub.patch("good", &json!({"spec": {"suspend": true}}));
    hub.sandbox.write("web.yaml", &deployment("evil:1"));
    hub.sandbox.write("more.yaml", &config("stolen", "1"));
    hub.push("hostile");
    hub.create(&sync("bad", "bad", "shop-b/bad"));
    let source = json!({"url": hub.url(), "ref": {"branch": "main"}, "secretRef": {"name": "other"}});
    let mut thief = sync("thief", "bad", "shop-b/thief");
    thief["spec"]["source"] = source;
    hub.create(&thief);
    let ran = hub.once().code(2);
    for name in ["bad", "thief"] {
        assert_eq!(hub.ready(name)["status"], "False", "{name}: {ran:#?}");
        let message = hub.ready(name)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("system:serviceaccount:shop:bad"), "{name}: {message}");
    }
    assert_eq!(desired(), before, "nothing was written");
    assert!(!hub.sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/stolen"));
}
