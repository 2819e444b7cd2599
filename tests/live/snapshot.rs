//! `federate snapshot` from API servers: a hub with Karmada's objects, members with nodes and pods; then plans and
//! scenarios over it without any cluster.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::real::TEST_NODE;
use crate::sandbox::{Ran, Sandbox};
use crate::snapshot_hubs::{Kind, define, define_on};
use federate_test_apiserver::{FaultKind, InjectedFault};

/// Divides by free resources.
pub(crate) const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}, {apiVersion: v1, kind: Secret}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
";

pub(crate) const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 8
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1.27', resources: {requests: {cpu: 1}}}]}
";

/// A hub that serves Karmada's kinds, and two members, of the API server for tests: for tests that need its faults, or too
/// many objects.
pub(crate) fn sandbox() -> Sandbox {
    of(Sandbox::simulated(&["m1", "m2", "hub"]))
}

/// The same, of real clusters if there are some.
fn anywhere() -> Sandbox {
    of(Sandbox::anywhere_alone(&["m1", "m2", "hub"]))
}

fn of(sandbox: Sandbox) -> Sandbox {
    let inventory = "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m1}\nspec: {}\n---\n\
                     apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m2}\nspec: {}\n";
    sandbox.file("clusters.yaml", inventory).file("policy.yaml", POLICY).file("web.yaml", WEB)
}

/// Adds a node with so many processors, and a pod on it that takes two.
pub(crate) fn node(sandbox: &Sandbox, cluster: &str, cpu: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "labels": {TEST_NODE: ""}}});
    sandbox.create_global(cluster, "/api/v1/nodes", &node);
    // Real clusters may have many pods that wait for a node.
    let amounts = json!({"cpu": cpu, "memory": "64Gi", "pods": "100k"});
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}]}});
    sandbox.edit(cluster, "test", "/api/v1/nodes/node-1/status", &status);
    sandbox.create_namespace(cluster);
    // A controller may have made it already.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let path = "/api/v1/namespaces/shop/serviceaccounts";
    assert!(matches!(sandbox.ask(cluster, "POST", path, "test", "application/json", &account), 201 | 409));
    let container = json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "namespace": "shop"},
        "spec": {"nodeName": "node-1", "containers": [container]}});
    sandbox.create(cluster, "/api/v1/namespaces/shop/pods", "test", &pod);
}

pub(crate) const CLUSTER: Kind = ["cluster.karmada.io", "v1alpha1", "Cluster", "clusters", "Cluster"];
pub(crate) const BINDING: Kind =
    ["work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings", "Namespaced"];

/// Karmada's clusters, without or with a status, and a binding.
pub(crate) fn karmada(sandbox: &Sandbox, status: Option<&Value>) {
    define(sandbox, CLUSTER);
    define(sandbox, BINDING);
    for name in ["m1", "m2"] {
        let mut cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name}, "spec": {"region": "eu"}});
        if let Some(status) = status {
            cluster["status"] = status.clone();
        }
        sandbox.create_soon("hub", "/apis/cluster.karmada.io/v1alpha1/clusters", &cluster);
    }
    sandbox.create_namespace("hub");
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop", "annotations": {
            "policy.karmada.io/applied-placement": placement.to_string(),
            "propagationpolicy.karmada.io/name": "web", "propagationpolicy.karmada.io/namespace": "shop"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": 8, "placement": placement,
            "clusters": [{"name": "m1", "replicas": 7}, {"name": "m2", "replicas": 1}]}});
    sandbox.create_soon("hub", "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings", &binding);
}

fn snapshot(sandbox: &Sandbox, arguments: &str) -> Ran {
    sandbox.run("snapshot", &format!("--out snapshot {arguments}"))
}

/// A command that reaches no cluster.
pub(crate) fn offline(sandbox: &Sandbox, arguments: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
    command
        .args(sandbox.own(arguments).split_whitespace())
        .current_dir(sandbox.path(""))
        .env("KUBECONFIG", "/nonexistent");
    sandbox.ran(&mut command)
}

fn placed(sandbox: &Sandbox, arguments: &str) -> Value {
    let plan: Value =
        serde_json::from_str(&offline(sandbox, &format!("plan repo {arguments}")).code(0).out).unwrap();
    let rows = plan["placements"].as_array().unwrap();
    rows.iter().find(|row| row["object"]["name"] == "web").unwrap()["clusters"].clone()
}

fn read(sandbox: &Sandbox, path: &str) -> String {
    sandbox.known(&fs::read_to_string(sandbox.path("snapshot").join(sandbox.own(path))).unwrap())
}

const FRESH: &str = r#"[{"name":"m1","replicas":2},{"name":"m2","replicas":6}]"#;
const BOUND: &str = r#"[{"name":"m1","replicas":7},{"name":"m2","replicas":1}]"#;

#[test]
fn members_say_their_free_resources_and_what_runs() {
    let sandbox = anywhere();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: shop}\nstringData: {k: hunter2hunter2}\n";
    sandbox.write("secret.yaml", secret);
    for (cluster, cpu) in [("m1", "4"), ("m2", "12")] {
        node(&sandbox, cluster, cpu);
    }
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"k": "aHVudGVyMmh1bnRlcjI="}});
    sandbox.create("m1", "/api/v1/namespaces/shop/secrets", "test", &body);

    let ran = snapshot(&sandbox, "--now 2026-11-22T10:00:00Z").code(0);
    assert!(ran.err.contains("karmada: 2 clusters and 0 placements in snapshot"), "{ran:#?}");
    let cluster = read(&sandbox, "clusters/karmada/m1.yaml");
    for words in
        ["allocated:\n      cpu: \"2\"", "kubernetesVersion: v1.", "groupVersion: apps/v1", "totalNum: 1"]
    {
        assert!(cluster.contains(words), "`{words}` is not in\n{cluster}");
    }
    assert_eq!(placed(&sandbox, "--snapshot snapshot -o json").to_string(), FRESH);
    let description = read(&sandbox, "snapshot.yaml");
    assert!(description.contains("2026-11-22T10:00:00Z") && description.contains("m2: v1."), "{description}");
    let observed = read(&sandbox, "observed/m1/shop.yaml");
    assert!(observed.contains("k: <secret "), "{observed}");
    assert!(!observed.contains("hunter2") && !observed.contains("aHVudGVy"));

    // Other commands need no cluster now. (Their kubeconfig does not exist, either.)
    for cluster in ["m1", "m2"].into_iter().filter(|_| !sandbox.is_real()) {
        sandbox
            .fleet
            .lock_cluster(cluster)
            .add_fault(InjectedFault::new("*", FaultKind::Status(500)).with_times(1000));
    }
    let lost = offline(&sandbox, "whatif repo --snapshot snapshot --lose m2").code(1);
    assert!(lost.out.contains("6 replicas lost"), "{lost:#?}");
    let dry = offline(&sandbox, "apply repo --snapshot snapshot --dry-run=client -o json").code(0);
    let actions: Value = serde_json::from_str(&dry.out).unwrap();
    let creates = |cluster: &str| {
        let all = actions["actions"].as_array().unwrap().iter();
        all.filter(|a| a["cluster"] == cluster && a["action"] == "create").count()
    };
    assert_eq!((creates("m1") > 0, creates("m2") > creates("m1")), (true, true), "{}", dry.out);
}

/// A kind of somebody's own, of which only an API server knows that it has no namespaces.
const ZONE: Kind = ["infra.example.com", "v1", "Zone", "zones", "Cluster"];

#[test]
fn a_snapshot_knows_the_scopes_of_custom_resources() {
    let sandbox = anywhere();
    for cluster in ["m1", "m2"] {
        define_on(&sandbox, cluster, ZONE);
        node(&sandbox, cluster, "4");
    }
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: zones}\n\
                  spec:\n  resourceSelectors: [{apiVersion: infra.example.com/v1, kind: Zone}]\n";
    let zone = "apiVersion: infra.example.com/v1\nkind: Zone\nmetadata: {name: z}\nspec: {size: 1}\n";
    sandbox.write("zones.yaml", &format!("{policy}---\n{zone}"));
    let names = |plan: &Ran| -> Vec<Value> {
        let rows = plan.json()["placements"].as_array().unwrap().clone();
        rows.into_iter().map(|row| row["object"].clone()).filter(|object| object["kind"] == "Zone").collect()
    };
    let assumed = offline(&sandbox, "plan repo -o json");
    assert_eq!(names(&assumed)[0]["namespace"], "default", "{assumed:#?}");

    snapshot(&sandbox, "").code(0);
    assert!(read(&sandbox, "snapshot.yaml").contains("Zone.infra.example.com: Cluster"));
    let known = offline(&sandbox, "plan repo --snapshot snapshot -o json").code(0);
    assert_eq!(names(&known)[0]["namespace"], Value::Null, "{known:#?}");
    assert!(!known.err.contains("unknown-scope"), "{known:#?}");
}

#[test]
fn a_hub_says_what_it_has_decided() {
    let sandbox = anywhere();
    karmada(&sandbox, None);
    for (cluster, cpu) in [("m1", "4"), ("m2", "12")] {
        node(&sandbox, cluster, cpu);
    }
    let ran = snapshot(&sandbox, "--hub-context hub --context m1 m2").code(0);
    assert!(ran.err.contains("karmada: 2 clusters and 1 placement"), "{ran:#?}");
    assert!(read(&sandbox, "clusters/karmada/m2.yaml").contains("allocatable"));
    assert_eq!(placed(&sandbox, "--snapshot snapshot -o json").to_string(), BOUND);
    assert_eq!(placed(&sandbox, "--snapshot snapshot --fresh -o json").to_string(), FRESH);

    // Of the eight replicas, the hub has placed seven on m1.
    let lost = offline(&sandbox, "whatif repo --snapshot snapshot --lose m1 -o json").code(1).json();
    assert_eq!(lost["replicas"]["lost"], 7);
    let each = offline(&sandbox, "whatif repo --snapshot snapshot --each cluster -o json").code(1).json();
    let worst: Vec<&str> =
        each["rows"].as_array().unwrap().iter().map(|row| row["lose"].as_str().unwrap()).collect();
    assert_eq!(worst, ["m1", "m2"]);

    let only = snapshot(&sandbox, "--hub-context hub --no-members -q").code(0);
    assert!(only.err.is_empty() && !sandbox.path("snapshot/observed").exists(), "{only:#?}");
    assert_eq!(placed(&sandbox, "--snapshot snapshot -o json").to_string(), BOUND);
}

#[test]
fn the_status_on_the_hub_is_what_its_scheduler_sees() {
    let sandbox = anywhere();
    let amounts = json!({"allocatable": {"cpu": "100", "pods": "100"}});
    let apis =
        json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]);
    karmada(&sandbox, Some(&json!({"resourceSummary": amounts, "apiEnablements": apis})));
    for cluster in ["m1", "m2"] {
        node(&sandbox, cluster, "4");
    }
    snapshot(&sandbox, "--hub-context hub --context m1 m2").code(0);
    assert!(read(&sandbox, "clusters/karmada/m1.yaml").contains("cpu: \"100\""));
}

/// Uses a user who may only read nodes in a cluster.
fn may_not_list_pods(sandbox: &Sandbox, cluster: &str) {
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
        "metadata": {"name": "shop-nodes"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "shop-nodes"},
        "subjects": [{"kind": "User", "name": "shop-nodes", "apiGroup": group}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "shop-nodes"}});
    sandbox.create_global(cluster, &format!("/apis/{group}/v1/clusterroles"), &role);
    sandbox.create_global(cluster, &format!("/apis/{group}/v1/clusterrolebindings"), &binding);
    sandbox.kubeconfig(|config| {
        let contexts = config["contexts"].as_array_mut().unwrap();
        let server = |context: &Value| context["context"]["cluster"].clone();
        let of = server(contexts.iter().find(|context| context["name"] == cluster).unwrap());
        let mut user = Value::Null;
        for context in contexts.iter_mut().filter(|context| server(context) == of) {
            user = std::mem::replace(&mut context["context"]["user"], "nodes".into());
        }
        let users = config["users"].as_array_mut().unwrap();
        let mut limited = users.iter().find(|one| one["name"] == user).unwrap().clone();
        limited["name"] = "nodes".into();
        limited["user"]["as"] = sandbox.own("shop-nodes").into();
        users.push(limited);
    });
}

#[test]
fn a_cluster_that_fails_is_named_and_the_others_are_written() {
    let sandbox = anywhere();
    node(&sandbox, "m1", "4");
    node(&sandbox, "m2", "12");
    may_not_list_pods(&sandbox, "m2");
    let ran = snapshot(&sandbox, "").code(2);
    assert!(ran.err.contains("error: m2: its pods may not be listed"), "{ran:#?}");
    assert!(!sandbox.path("snapshot/clusters/karmada/m2.yaml").exists());
    assert!(read(&sandbox, "snapshot.yaml").contains("failed:\n  m2: "));
    let plan = offline(&sandbox, "plan repo --snapshot snapshot");
    assert!(plan.err.contains("these clusters could not be read: m2"), "{plan:#?}");
    assert!(plan.err.contains("1 not-in-snapshot"), "{plan:#?}");
    let plan = offline(&sandbox, "plan repo --snapshot snapshot -v");
    assert!(plan.err.contains("warning[not-in-snapshot]"), "{plan:#?}");
}

/// Adds 1,000 nodes with 30,000 pods.
#[cfg(target_os = "linux")]
fn crowd(sandbox: &Sandbox, cluster: &str) {
    sandbox.create_namespace(cluster);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    sandbox.create(cluster, "/api/v1/namespaces/shop/serviceaccounts", "test", &account);
    let mut server = sandbox.fleet.lock_cluster(cluster);
    let amounts = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    let image = |n| json!({"names": [format!("registry.example/team/service-{n}@sha256:0123456789abcdef")], "sizeBytes": 123_456_789});
    let images: Vec<Value> = (0..50).map(image).collect();
    for node in 0..1000 {
        let name = format!("node-{node}");
        let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        assert_eq!(server.create_object("/api/v1/nodes", &body).status, 201);
        let status = json!({"status": {"capacity": amounts, "allocatable": amounts, "images": images,
            "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(
            server
                .apply_object(&format!("/api/v1/nodes/{name}/status"), "test", &with_identity(&body, &status))
                .status,
            200
        );
        for pod in 0..30 {
            let environment: Vec<Value> = (0..20)
                .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "a value of some length"}))
                .collect();
            let container = json!({"name": "c", "image": "registry.example/team/service:1.2.3", "env": environment,
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("p-{node}-{pod}"), "namespace": "shop", "labels": {"app": "web", "pod-template-hash": "0123456789"}},
                "spec": {"nodeName": name, "containers": [container]}});
            assert_eq!(server.create_object("/api/v1/namespaces/shop/pods", &pod).status, 201);
        }
    }
}

#[cfg(target_os = "linux")]
fn with_identity(object: &Value, status: &Value) -> Value {
    let mut body = object.clone();
    body["status"] = status["status"].clone();
    body
}

/// What is read of nodes and pods is reduced page by page.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "it creates 31,000 objects, which takes minutes without optimization"]
fn a_large_cluster_is_read_in_little_memory() {
    let sandbox = sandbox();
    crowd(&sandbox, "m1");
    let began = std::time::Instant::now();
    let mut child = sandbox.runs("snapshot", "--context m1 --out snapshot").spawn().unwrap();
    let mut highest = 0;
    let status = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        highest = highest.max(peak.unwrap_or(0_u64) / 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(status.success());
    println!("{highest} MiB, {:?}", began.elapsed());
    let cluster = read(&sandbox, "clusters/karmada/m1.yaml");
    assert!(cluster.contains("totalNum: 1000") && cluster.contains("cpu: 3k"), "{cluster}");
    assert!(highest <= 300, "{highest} MiB");
}
