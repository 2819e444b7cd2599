//! The order in which a cluster is changed, and what does not wait for what.

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB, config, deployment, version};
use federate_test_apiserver::{FaultKind, InjectedFault};

const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: more, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: PersistentVolumeClaim}
  - {apiVersion: v1, kind: Pod}
  - {apiVersion: v1, kind: Service}
  - {apiVersion: v1, kind: ServiceAccount}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: Role}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding}
  placement: {clusterAffinity: {}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: other}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  placement: {clusterAffinity: {}}
";

const HOOK: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook-shop";
const CONFIGS: &str = "/api/v1/namespaces/shop/configmaps";

fn hook(policy: &str, resource: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: hook-shop}}
webhooks:
- name: hook.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: {policy}
  timeoutSeconds: 1
  clientConfig: {{service: {{name: hook, namespace: shop}}}}
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: shop}}}}
  rules: [{{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [{resource}]}}]
"
    )
}

fn service(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{type: NodePort, selector: \
         {{app: web}}, ports: [{{port: 80, nodePort: 31875}}]}}\n"
    )
}

fn lines(ran: &Ran) -> Vec<String> {
    ran.err.lines().filter(|line| line.starts_with("error: ")).map(str::to_owned).collect()
}

#[test]
fn within_a_wave_what_others_need_comes_first() {
    let all = "apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop}
spec: {serviceAccountName: robot, containers: [{name: a, image: 'a:1'}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: b, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: c, namespace: shop, annotations: {kubernetes.io/service-account.name: robot}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: d, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: e}
subjects: [{kind: ServiceAccount, name: robot, namespace: shop}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: e, namespace: shop}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: shop}
";
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", POLICY).file("all.yaml", all);
    sandbox.apply("").code(0);
    let core =
        |plural: &str, name: &str| sandbox.get("m1", &format!("/api/v1/namespaces/shop/{plural}/{name}"));
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
    let (account, secret) = (core("serviceaccounts", "robot"), core("secrets", "c"));
    let (claim, pod) = (core("persistentvolumeclaims", "b"), core("pods", "a"));
    let (role, binding) =
        (sandbox.get("m1", &format!("{rbac}/roles/e")), sandbox.get("m1", &format!("{rbac}/rolebindings/d")));
    if !sandbox.is_real() {
        for (before, after) in
            [(&account, &secret), (&account, &pod), (&claim, &pod), (&secret, &pod), (&role, &binding)]
        {
            assert!(version(before) < version(after), "{before:#} {after:#}");
        }
    }
}

#[test]
fn a_token_without_its_account_is_reported_at_once() {
    let secret = "apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: t, namespace: shop, annotations: {kubernetes.io/service-account.name: nobody}}
";
    let sandbox = Sandbox::anywhere(&["m1"]).file("t.yaml", secret);
    let ran = sandbox.apply("").code(2);
    assert_eq!(
        lines(&ran),
        [
            "error: m1: Secret shop/t: the token controller deletes it, because ServiceAccount shop/nobody does not exist"
        ]
    );
}

#[test]
fn a_renamed_service_keeps_its_port() {
    let sandbox = Sandbox::anywhere(&["m1"]).file("more.yaml", POLICY).file("svc.yaml", &service("old"));
    sandbox.apply("").code(0);
    sandbox.write("svc.yaml", &service("new"));
    sandbox.apply("--prune-limit 90").code(0);
    let path = |name: &str| format!("/api/v1/namespaces/shop/services/{name}");
    assert!(!sandbox.has("m1", &path("old")));
    assert_eq!(sandbox.get("m1", &path("new"))["spec"]["ports"][0]["nodePort"], 31875);
    // Without leave to delete, nothing goes.
    sandbox.write("svc.yaml", &service("newer"));
    sandbox.apply("--no-prune").code(2);
    assert!(sandbox.has("m1", &path("new")));
}

#[test]
fn a_failure_holds_back_only_what_may_depend_on_it() {
    let other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n";
    let sandbox = Sandbox::simulated(&["m1"]).file("more.yaml", POLICY).file("other.yaml", other);
    for name in ["a", "b", "c"] {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
        sandbox.write(
            &format!("o{name}.yaml"),
            &config(name, "1").replace("namespace: shop", "namespace: other"),
        );
    }
    sandbox.apply("").code(0);
    for file in ["a.yaml", "oa.yaml"] {
        sandbox.remove(file);
    }
    sandbox.write("web.yaml", &deployment("nginx:1.28"));
    sandbox.write("hook.yaml", &hook("Ignore", "pods"));
    sandbox
        .fleet
        .lock_cluster("m1")
        .add_fault(InjectedFault::new("patch", FaultKind::Status(500)).on_path("deployments"));
    let ran = sandbox.apply("").code(2);
    let other = "/api/v1/namespaces/other/configmaps";
    assert!(!sandbox.has("m1", &format!("{other}/a")), "what is elsewhere goes");
    assert!(sandbox.has("m1", &format!("{CONFIGS}/a")), "what the Deployment may need stays");
    assert!(sandbox.has("m1", HOOK), "a webhook that blocks nothing needs nothing");
    let held = "error: m1: ConfigMap shop/a: not deleted, because Deployment shop/web, which may need it, could not be applied";
    assert!(lines(&ran).contains(&held.to_owned()), "{ran:#?}");
    sandbox.apply("").code(0);
    assert!(!sandbox.has("m1", &format!("{CONFIGS}/a")));
}

#[test]
fn a_webhook_waits_for_its_service() {
    let sandbox = Sandbox::simulated(&["m1"]).file("hook.yaml", &hook("Fail", "configmaps"));
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(ran.err.contains("Service shop/hook has no ready endpoint after 1 s"), "{ran:#?}");
    assert!(sandbox.has("m1", WEB) && !sandbox.has("m1", HOOK));
    serve(&sandbox);
    sandbox.apply("").code(0);
    assert!(sandbox.has("m1", HOOK));
}

/// Gives the webhook's Service an endpoint.
fn serve(sandbox: &Sandbox) {
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "endpoints": [{"addresses": ["10.2.0.1"], "conditions": {"ready": true}}]});
    sandbox.create("m1", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", "test", &slice);
}

/// The code of the answer to a new `ConfigMap`.
fn probed(sandbox: &Sandbox) -> u16 {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "probe-"}});
    sandbox.ask("m1", "POST", CONFIGS, "test", "application/json", &body)
}

#[test]
fn a_webhook_that_blocks_is_repaired_first_or_named() {
    let sandbox = Sandbox::anywhere(&["m1"]);
    sandbox.apply("").code(0);
    let body: Value =
        federate_yaml::read_stream(hook("Fail", "configmaps").as_bytes()).documents.pop().unwrap().value;
    let path = HOOK.rsplit_once('/').unwrap().0;
    sandbox.create("m1", path, "kubectl-create", &body);
    sandbox.write("a.yaml", &config("a", "1"));
    // API servers learn of it by and by.
    while sandbox.is_real() && probed(&sandbox) == 201 {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let ran = sandbox.apply("").code(2);
    let named = "ConfigMap shop/a: webhook hook.example.com blocks it: ValidatingWebhookConfiguration hook-shop calls \
                 Service shop/hook, which does not answer; nothing in the repo serves it";
    assert!(ran.err.contains(named), "{ran:#?}");
    // One run repairs it and applies the rest.
    sandbox.write("hook.yaml", &hook("Ignore", "configmaps"));
    sandbox.apply("--adopt always").code(0);
    assert!(sandbox.has("m1", &format!("{CONFIGS}/a")));
}
