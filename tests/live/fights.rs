//! What controllers change by right is left to them: nothing that federate writes is written back and forth.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, WEB, config, deployment};

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/shop-all";

/// Everything else that these tests apply goes to every cluster, too.
const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: more, namespace: shop}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: DaemonSet}
  - {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler}
  - {apiVersion: v1, kind: Pod}
  - {apiVersion: v1, kind: Service}
  placement: {clusterAffinity: {}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: more}
spec:
  resourceSelectors:
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole}
  placement: {clusterAffinity: {}}
";

const AUTOSCALER: &str = "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 9
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
";

fn sandbox() -> Sandbox {
    Sandbox::anywhere(&["m1"]).file("more.yaml", POLICY)
}

/// Applies again, and checks that there is nothing to write.
#[track_caller]
fn converged(sandbox: &Sandbox) {
    sandbox.run("drift", "").code(0);
    sandbox.forget("m1");
    let ran = sandbox.apply("-o json").code(0);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    for action in document["actions"].as_array().unwrap() {
        assert_eq!(action["action"], "unchanged", "{action:#}");
    }
    // Without resulting objects, live ones are compared as text.
    let count = document["actions"].as_array().unwrap().len();
    let ran = sandbox.apply("").code(0);
    assert!(ran.out.contains(&format!("{count} unchanged in 1 cluster, ")), "{ran:#?}");
    sandbox.wrote("m1", 0);
}

#[test]
fn replicas_belong_to_an_autoscaler_after_creation() {
    let sandbox = sandbox().file("scaler.yaml", AUTOSCALER);
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["replicas"], 2, "the creation sets the replicas");
    // It has not scaled yet, so the field is still of federate: it keeps what runs.
    sandbox.write("web.yaml", &deployment("nginx:1.28").replace("replicas: 2", "replicas: 4"));
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["replicas"], 2);

    sandbox.edit("m1", "kube-controller-manager", &format!("{WEB}/scale"), &json!({"spec": {"replicas": 5}}));
    converged(&sandbox);
    sandbox.write("web.yaml", &deployment("nginx:1.29").replace("replicas: 2", "replicas: 4"));
    let ran = sandbox.apply("-o json").code(0);
    let web = ran.action("m1", "Deployment", "web");
    assert_eq!(web["action"], "update");
    let reason = web["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("HorizontalPodAutoscaler web") && reason.contains("remove /spec/replicas"),
        "{web:#}"
    );
    let live = sandbox.get("m1", WEB);
    assert_eq!(live["spec"]["replicas"], 5);
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1.29");
    converged(&sandbox);
}

#[test]
fn an_autoscaler_that_is_not_in_the_repo_is_known_by_its_writes() {
    let sandbox = sandbox();
    sandbox.apply("").code(0);
    sandbox.edit("m1", "keda", &format!("{WEB}/scale"), &json!({"spec": {"replicas": 5}}));
    converged(&sandbox);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["replicas"], 5);
    // A person who scales is no autoscaler.
    sandbox.edit("m1", "kubectl", &format!("{WEB}/scale"), &json!({"spec": {"replicas": 7}}));
    sandbox.run("drift", "").code(1);
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", WEB)["spec"]["replicas"], 2);
}

#[test]
fn aggregated_rules_belong_to_the_controller_that_fills_them() {
    let role = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shop-all}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {shop: 'yes'}}]}
rules: []
";
    // A real controller would replace what this test writes in its name.
    let sandbox = Sandbox::simulated(&["m1"]).file("more.yaml", POLICY).file("role.yaml", role);
    sandbox.apply("").code(0);
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    sandbox.edit("m1", "clusterrole-aggregation-controller", ROLE, &json!({"rules": rules}));
    converged(&sandbox);
    sandbox.write("role.yaml", &role.replace("{name: shop-all}", "{name: shop-all, labels: {a: b}}"));
    sandbox.apply("").code(0);
    assert_eq!(sandbox.get("m1", ROLE)["rules"], rules);
}

#[test]
fn a_key_of_string_data_goes_with_its_line() {
    let secret = |data: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop}}\nstringData: {{{data}}}\ndata: {{m: bQ==}}\n"
        )
    };
    let sandbox = sandbox().file("s.yaml", &secret("k: one, l: two"));
    sandbox.apply("").code(0);
    converged(&sandbox);
    sandbox.write("s.yaml", &secret("k: one"));
    let ran = sandbox.run("drift", "-o json").code(1);
    assert_eq!(ran.action("m1", "Secret", "s")["diffs"][0]["path"], "/data/l");
    sandbox.apply("").code(0);
    assert_eq!(
        sandbox.get("m1", "/api/v1/namespaces/shop/secrets/s")["data"],
        json!({"k": "b25l", "m": "bQ=="})
    );
    converged(&sandbox);
}

#[test]
fn nothing_is_written_after_a_correction() {
    let service = "apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, labels: {a: b, c: d}}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
";
    let pod = "apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: shop}
spec: {containers: [{name: a, image: 'nginx:1.27'}]}
";
    let sandbox = Sandbox::anywhere_with_nodes(&["m1"]).file("more.yaml", POLICY);
    let sandbox = sandbox.file("a.yaml", &config("a", "1")).file("svc.yaml", service).file("pod.yaml", pod);
    sandbox.apply("").code(0);
    converged(&sandbox);
    let path = |plural: &str, name: &str| format!("/api/v1/namespaces/shop/{plural}/{name}");
    // What is changed and changed back is another's afterwards, though it does not differ.
    for (image, replicas) in [("nginx:1", 7), ("nginx:1.0", 2)] {
        let containers = json!([{"name": "web", "image": image}]);
        let patch = json!({"spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}}});
        sandbox.edit("m1", "kubectl-edit", WEB, &patch);
    }
    for labels in [json!({"a": "x", "c": "y"}), json!({"a": "z", "c": "d"})] {
        let patch = json!({"metadata": {"labels": labels}});
        sandbox.edit("m1", "kubectl-label", &path("services", "web"), &patch);
    }
    for image in ["nginx:1", "nginx:1.0"] {
        let patch = json!({"spec": {"containers": [{"name": "a", "image": image}]}});
        sandbox.edit("m1", "kubectl-edit", &path("pods", "bare"), &patch);
    }
    sandbox.edit("m1", "kubectl-edit", &path("configmaps", "a"), &json!({"data": {"k": "2"}}));
    sandbox.run("drift", "--correct").code(0);
    converged(&sandbox);
}

#[test]
fn the_count_of_a_daemon_sets_templates_is_no_drift() {
    let daemons = "apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: 'agent:1'}]}
";
    let sandbox = sandbox().file("agent.yaml", daemons);
    sandbox.apply("").code(0);
    let path = "/apis/apps/v1/namespaces/shop/daemonsets/agent";
    let template = json!({"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}});
    sandbox.edit("m1", "kubectl-edit", path, &json!({"spec": {"template": template}}));
    let ran = sandbox.run("drift", "-o json").code(1);
    let diffs = ran.action("m1", "DaemonSet", "agent")["diffs"].clone();
    assert_eq!(diffs.as_array().unwrap().len(), 1, "{diffs:#}");
    assert_eq!(diffs[0]["path"], "/spec/template/spec/containers[name=agent]/image");
    sandbox.run("drift", "--correct").code(0);
    converged(&sandbox);
}
