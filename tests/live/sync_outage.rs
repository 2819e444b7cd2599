//! A member that is cut off, hangs, no longer knows federate or grants it nothing: it is not ready within one interval,
//! although it was watched, and ready again when that is over. No fault of a server for tests is needed for it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::proxy::Proxy;
use crate::sync_objects::{Hub, Running, until};

const RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/federate-system/serviceaccounts";
/// The Sync's interval, lengthened by up to a tenth, and what a busy machine takes.
const SOON: Duration = Duration::from_secs(9);

/// The way of federate to `m1`: by a proxy, as an account of its own.
struct Way {
    proxy: Proxy,
    /// Where the API server is itself.
    server: String,
}

impl Way {
    fn new(hub: &Hub) -> Self {
        hub.sandbox.create_namespace_named("m1", "federate-system");
        let all = json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "shop-all"},
            "rules": all});
        hub.sandbox.create_global("m1", &format!("{RIGHTS}/clusterroles"), &role);
        grant_rights(hub);
        let config = hub.read_kubeconfig();
        let context = find_m1(&config);
        let cluster = config["clusters"].as_array().unwrap().iter().find(|one| one["name"] == context);
        let server = cluster.unwrap()["cluster"]["server"].as_str().unwrap().to_owned();
        let target = server.strip_prefix("https://").unwrap().parse().unwrap();
        let way = Self { proxy: Proxy::start(target), server };
        way.make_account(hub);
        way
    }

    /// Makes the account, and gives federate its token.
    fn make_account(&self, hub: &Hub) {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shop-all"}});
        hub.sandbox.create("m1", ACCOUNTS, "test", &account);
        let token = hub.sandbox.make_token("m1", "federate-system", "shop-all");
        hub.set_kubeconfig(|config| {
            let name = find_m1(config);
            for cluster in config["clusters"].as_array_mut().unwrap() {
                if cluster["cluster"]["server"] == *self.server && cluster["name"] == name {
                    cluster["cluster"]["server"] = json!(format!("https://{}", self.proxy.address));
                }
            }
            for context in config["contexts"].as_array_mut().unwrap() {
                if context["context"]["cluster"] == name {
                    context["context"]["user"] = json!("account");
                }
            }
            let users = config["users"].as_array_mut().unwrap();
            users.push(json!({"name": "account", "user": {"token": token}}));
        });
    }
}

/// The cluster `m1` of a kubeconfig, by the name that it has there.
fn find_m1(config: &Value) -> Value {
    let contexts = config["contexts"].as_array().unwrap();
    contexts.iter().find(|context| context["name"] == "m1").unwrap()["context"]["cluster"].clone()
}

fn grant_rights(hub: &Hub) {
    let account = json!({"kind": "ServiceAccount", "name": "shop-all", "namespace": "federate-system"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "shop-all"});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "shop-all"}, "subjects": [account], "roleRef": role});
    hub.sandbox.create_global("m1", &format!("{RIGHTS}/clusterrolebindings"), &binding);
}

/// Checks that the loss is known in time, and that it is over.
fn is_lost_and_comes_back(
    hub: &Hub,
    why: &str,
    soon: Duration,
    lose: impl FnOnce(),
    give_back: impl FnOnce(),
) {
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    hub.watched("m1");
    lose();
    let begun = Instant::now();
    until("the cluster is not ready", || hub.ready("web")["status"] == "False");
    let known = begun.elapsed();
    let status = hub.status("web");
    assert_eq!((&status["clusters"]["ready"], &status["clusters"]["errApplied"]), (&1.into(), &1.into()));
    assert_eq!(status["failing"][0]["name"], "m1", "{why}: {status:#}");
    assert!(known < soon, "{why}: it took {known:?}");
    // It stays so.
    std::thread::sleep(Duration::from_secs(6));
    let failing = hub.status("web")["failing"][0].clone();
    let message = failing["message"].as_str().unwrap_or_default();
    assert!(message.contains(why), "{why}: {failing:#}");
    give_back();
    let begun = Instant::now();
    until("the Sync is ready again", || hub.ready("web")["status"] == "True");
    assert_eq!(hub.status("web")["clusters"]["ready"], 2);
    println!("{why}: known after {known:.1?}, ready again after {:.1?}", begun.elapsed());
}

#[test]
fn a_member_that_is_cut_off_hangs_or_refuses_is_not_ready_within_an_interval_and_comes_back() {
    let hub = Hub::new();
    let way = Way::new(&hub);
    let spec = json!({"interval": "5s", "retryInterval": "1s", "drift": {"mode": "report"}});
    hub.create(&hub.sync("web", &spec));
    let running = Running::start(&hub, "log");
    let open = || way.proxy.open();
    is_lost_and_comes_back(&hub, "it cannot be reached", SOON, || way.proxy.cut(), open);
    // federate waits 5 s for a first answer.
    let silent = SOON + Duration::from_secs(5);
    is_lost_and_comes_back(&hub, "no answer within 5 s", silent, || way.proxy.hang(), open);
    let binding = format!("{RIGHTS}/clusterrolebindings/shop-all");
    let refuse = || hub.sandbox.delete("m1", &binding);
    is_lost_and_comes_back(&hub, "forbidden", SOON, refuse, || grant_rights(&hub));
    // API servers believe a token for 10 s.
    let believed = if hub.sandbox.is_real() { SOON + Duration::from_secs(10) } else { SOON };
    let forget = || {
        hub.sandbox.delete("m1", &format!("{ACCOUNTS}/shop-all"));
        hub.sandbox.revoke_token("m1", "shop-all");
    };
    is_lost_and_comes_back(&hub, "Unauthorized", believed, forget, || way.make_account(&hub));
    assert_eq!(running.end("-TERM"), Some(0));
}
