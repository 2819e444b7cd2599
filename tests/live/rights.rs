//! Users with limited rights.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config};
use crate::trouble::grant;
use federate_test_apiserver::ApiUser;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONFIGS: &str = "/api/v1/namespaces/shop/configmaps";

/// A repo without the namespace, which exists, and a user who has only these rules in it.
fn limited(rules: &Value) -> Sandbox {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox.create_namespace("m1");
    sandbox.remove("namespace.yaml");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "robot"},
        "rules": rules});
    sandbox.create("m1", &format!("{RBAC}/namespaces/shop/roles"), "test", &role);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "robot"}, "subjects": [{"kind": "User", "name": "robot", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "robot"}});
    sandbox.create("m1", &format!("{RBAC}/namespaces/shop/rolebindings"), "test", &binding);
    sandbox.fleet.lock_cluster("m1").add_token("robot", ApiUser::new("robot", &["system:authenticated"]));
    std::fs::write(sandbox.path("kubeconfig"), sandbox.fleet.kubeconfig_with_token("robot")).unwrap();
    sandbox
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

const ALL: [&str; 5] = ["get", "list", "create", "patch", "delete"];

#[test]
fn a_namespace_of_ones_own_is_enough() {
    let sandbox = limited(&json!([rule("", "configmaps", &ALL), rule("apps", "deployments", &ALL)]));
    sandbox.write("b.yaml", &config("b", "1"));
    sandbox.apply("--applyset shop/federate").code(0);
    assert!(sandbox.has("m1", WEB) && sandbox.has("m1", &format!("{CONFIGS}/b")));
    sandbox.remove("b.yaml");
    sandbox.apply("--applyset shop/federate --prune-limit 60").code(0);
    assert!(
        !sandbox.has("m1", &format!("{CONFIGS}/b")),
        "objects that are no longer rendered are found in the namespace"
    );
    sandbox.run("drift", "--applyset shop/federate").code(0);
    sandbox.apply("--applyset shop/federate --check-access").code(0);
}

#[test]
fn the_rights_for_one_namespace_suffice() {
    let sandbox = Sandbox::simulated(&["m1"]).file("a.yaml", &config("a", "1"));
    sandbox.create_namespace("m1");
    sandbox.remove("namespace.yaml");
    grant(&sandbox, "namespaced");
    let user = "--applyset shop/federate --as system:serviceaccount:shop:shop-apply --as-group \
                system:authenticated";
    sandbox.apply(&format!("{user} --check-access")).code(0);
    sandbox.apply(user).code(0);
    assert!(sandbox.has("m1", WEB));
    sandbox.remove("a.yaml");
    sandbox.apply(&format!("{user} --prune-limit 60")).code(0);
    assert!(!sandbox.has("m1", &format!("{CONFIGS}/a")));
}

#[test]
fn what_may_not_be_read_is_named_and_the_rest_is_done() {
    let sandbox = limited(&json!([rule("", "configmaps", &ALL)]));
    sandbox.write("a.yaml", &config("a", "2"));
    let ran = sandbox.apply("--applyset shop/federate").code(2);
    assert!(sandbox.has("m1", &format!("{CONFIGS}/a")), "{ran:#?}");
    let named = "error: m1: Deployment shop/web: it may not be read: ";
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(matches!(lines.as_slice(), [one] if one.starts_with(named)), "{ran:#?}");
}

#[test]
fn what_we_may_no_longer_read_is_neither_deleted_nor_forgotten() {
    let sandbox = limited(&json!([rule("", "configmaps", &ALL), rule("apps", "deployments", &ALL)]));
    sandbox.apply("--applyset shop/federate").code(0);
    let less = json!({"rules": [rule("", "configmaps", &ALL)]});
    sandbox.edit("m1", "test", &format!("{RBAC}/namespaces/shop/roles/robot"), &less);
    sandbox.remove("web.yaml");
    sandbox.write("a.yaml", &config("a", "2"));
    sandbox.apply("--applyset shop/federate --prune-limit 100");
    assert_eq!(sandbox.get("m1", &format!("{CONFIGS}/a"))["data"]["k"], "2");
    let parent = sandbox.get("m1", &format!("{CONFIGS}/federate"));
    let kinds = &parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"];
    assert_eq!(
        kinds, "ConfigMap,Deployment.apps",
        "what may still be there is found when it may be read again"
    );
    assert!(sandbox.has("m1", WEB));
}

#[test]
fn missing_rights_are_listed_before_anything_is_done() {
    let sandbox =
        limited(&json!([rule("", "configmaps", &ALL), rule("apps", "deployments", &["get", "list"])]));
    sandbox.write("namespace.yaml", crate::sandbox::NAMESPACE);
    let ran = sandbox.apply("--applyset shop/federate --check-access").code(2);
    let line = "error: m1: may not create, get, list, patch namespaces in the cluster; \
                may not create, delete, patch deployments.apps in namespace shop\n";
    assert_eq!(ran.err, line);
    assert_eq!(sandbox.count("m1", "patch"), 0);
    assert!(!sandbox.has("m1", WEB));
}
