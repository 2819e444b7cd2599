//! `spec.failover` of a Sync: with stages, and in repos of control planes that move nothing when a cluster is lost; and the
//! last status of members beside a Sync object.

use std::fs;
use std::process::{Command, Stdio};

use federate_test_apiserver::{FaultKind, Fleet, InjectedFault, TestCluster};
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB};
use crate::snapshot::{self, node};
use crate::sync_inventory::{API, reach, replicas, unreachable_for};
use crate::sync_objects::{self, Hub};

/// An address where nothing listens.
const NOWHERE: &str = "https://127.0.0.1:1";

const TAINT: &str = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: down}
spec:
  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ['True']}]
  taints: [{key: down, effect: NoExecute}]
";

/// Does a round that rolls revisions of the repo out to m1, then to m2.
fn in_stages(sandbox: &Sandbox, failover: bool) -> Ran {
    let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}});
    let sync = json!({
        "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "metadata": {"name": "web"},
        "spec": {
            "source": {"url": "repo", "ref": {"branch": "main"}}, "interval": "1h", "retryInterval": "10ms",
            "timeout": "2s", "inventory": "members", "failover": failover, "apply": {"pruneLimit": 100},
            "rollout": {"stages": [stage("canary"), stage("rest")]},
        },
    });
    fs::write(sandbox.path("sync.yaml"), sync.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
    command.args("sync --once -f sync.yaml --state state --kubeconfig kubeconfig".split(' '));
    sandbox.ran(command.current_dir(sandbox.path("")).stdin(Stdio::null()))
}

fn commit(sandbox: &Sandbox) {
    for arguments in ["init -q -b main repo", "-C repo add -A", "-C repo commit -q -m next"] {
        sync_objects::git(sandbox, arguments);
    }
}

#[test]
fn what_a_lost_member_causes_does_not_wait_for_stages() {
    let members = ["m1", "m2"];
    // Deployments become healthy there.
    let fleet =
        Fleet::serve_clusters(members.into_iter().map(|name| TestCluster::new(name).with_nodes()).collect())
            .unwrap();
    let sandbox = Sandbox::simulated_by(&members, fleet);
    sandbox.write("policy.yaml", snapshot::POLICY);
    sandbox.write("web.yaml", snapshot::WEB);
    sandbox.remove("namespace.yaml");
    let cluster = |name: &str, stage: &str| {
        format!(
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\n\
             metadata: {{name: {name}, labels: {{stage: {stage}}}}}\nspec: {{}}\n"
        )
    };
    sandbox.write("clusters.yaml", &(cluster("m1", "canary") + &cluster("m2", "rest")));
    sandbox.write("taint.yaml", TAINT);
    node(&sandbox, "m1", "12");
    node(&sandbox, "m2", "12");
    commit(&sandbox);
    in_stages(&sandbox, true).code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(4)]);

    reach(&sandbox, "m1", &json!(NOWHERE));
    in_stages(&sandbox, true);
    unreachable_for(&sandbox, "m1", 40);
    let ran = in_stages(&sandbox, true).code(2);
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(8)], "m1 is in the first stage: {ran:#?}");
    let again = in_stages(&sandbox, true).code(2);
    assert!(!again.out.contains("rolling out"), "{again:#?}");

    // A new revision waits for the member.
    let web = sandbox.read_file("web.yaml").replace("1.27", "1.28");
    sandbox.write("web.yaml", &web);
    commit(&sandbox);
    let halted = in_stages(&sandbox, true).code(2);
    assert!(halted.out.contains("RolloutHalted"), "{halted:#?}");
    assert_eq!(sync_objects::image(&sandbox, "m2"), "nginx:1.27");
}

/// Rounds in which m1 is lost for an hour, of a repo with these objects and 8 replicas of `web` on both members.
fn lose_m1(inventory: &dyn Fn(&str) -> Value, policy: &str, web: &str) -> (Sandbox, Ran) {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    let members = ["m1", "m2"].map(inventory);
    let clusters = json!({"apiVersion": "v1", "kind": "List", "items": members});
    sandbox.write("clusters.yaml", &clusters.to_string());
    sandbox.write("policy.yaml", policy);
    sandbox.write("web.yaml", web);
    node(&sandbox, "m1", "12");
    node(&sandbox, "m2", "12");
    let sync = "  inventory: members\n  failover: true\n  timeout: 2s\n  apply: {pruneLimit: 100}\n";
    sandbox.write_sync("1h", sync);
    let once = || sandbox.ran(&mut sandbox.sync("--once"));
    once().code(0);
    reach(&sandbox, "m1", &json!(NOWHERE));
    once();
    unreachable_for(&sandbox, "m1", 3600);
    let lost = once();
    sandbox.write("api.yaml", &web.replace("web", "api").replace("replicas: 8", "replicas: 4"));
    once();
    (sandbox, lost)
}

fn deployment(labels: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop, labels: {{{labels}}}}}\nspec:\n  \
         replicas: 8\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec: {{containers: [{{name: web, image: 'nginx:1.27', resources: {{requests: {{cpu: 1}}}}}}]}}\n"
    )
}

#[test]
fn kubeadmiral_moves_nothing_when_a_member_is_lost() {
    let cluster = |name: &str| {
        json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "FederatedCluster",
            "metadata": {"name": name}, "spec": {}, "status": {"conditions": [
                {"type": "Joined", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    };
    let policy = "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: PropagationPolicy\n\
                  metadata: {name: all, namespace: shop}\nspec: {schedulingMode: Divide}\n";
    let web = deployment("kubeadmiral.io/propagation-policy-name: all");
    let (sandbox, lost) = lose_m1(&cluster, policy, &web);
    assert!(!lost.err.contains("has changed"), "{lost:#?}");
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(4)], "{lost:#?}");
    assert_eq!(replicas(&sandbox, API), [json!(0), json!(4)], "new workloads are not placed there");
}

#[test]
fn kubefleet_places_only_what_is_new_elsewhere() {
    let cluster = |name: &str| json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": name}, "spec": {}});
    let policy = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: shop}\nspec:\n  \
                  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]\n  policy: {placementType: PickAll}\n";
    let (sandbox, lost) = lose_m1(&cluster, policy, &deployment(""));
    assert!(!lost.err.contains("has changed"), "{lost:#?}");
    assert_eq!(replicas(&sandbox, WEB), [json!(8), json!(8)], "{lost:#?}");
    assert_eq!(replicas(&sandbox, API), [json!(0), json!(4)], "{lost:#?}");
}

#[test]
fn the_last_status_of_members_is_beside_a_sync_object() {
    let hub = Hub::simulated();
    let sandbox = &hub.sandbox;
    sandbox.write("policy.yaml", snapshot::POLICY);
    sandbox.write("web.yaml", snapshot::WEB);
    node(sandbox, "m1", "4");
    node(sandbox, "m2", "12");
    hub.push("divided");
    hub.create(&hub.sync("web", &json!({"inventory": "members"})));
    hub.once().code(0);
    assert_eq!(replicas(sandbox, WEB), [json!(2), json!(6)], "2 and 10 processors are free");

    // Another process that cannot read the members, and has no cache, places by what is kept.
    for member in ["m1", "m2"] {
        let fault =
            InjectedFault::new("list", FaultKind::Status(403)).on_path("/api/v1/nodes").with_times(10_000);
        sandbox.fleet.lock_cluster(member).add_fault(fault);
    }
    fs::remove_dir_all(sandbox.path("caches")).unwrap();
    sandbox.write("api.yaml", &snapshot::WEB.replace("web", "api").replace("replicas: 8", "replicas: 4"));
    hub.push("api");
    let ran = hub.once().code(0);
    assert!(ran.err.contains("its status cannot be read, and stays as it was"), "{ran:#?}");
    assert_eq!(replicas(sandbox, API), [json!(1), json!(3)], "{ran:#?}");
}
