//! `spec.inventory` of a Sync: workloads are placed by the status of members, or by that on the control plane.

use std::cell::Cell;
use std::fs;
use std::process::Stdio;

use federate_test_apiserver::{FaultKind, InjectedFault};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB};
use crate::snapshot::{karmada, node, sandbox};
use crate::sync_objects::until;

pub(crate) const API: &str = "/apis/apps/v1/namespaces/shop/deployments/api";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

fn write_sync(sandbox: &Sandbox, inventory: &str, apply: &str) {
    sandbox.write_sync("1h", &format!("  inventory: {inventory}\n  {apply}\n"));
}

fn once(sandbox: &Sandbox, arguments: &str) -> Ran {
    sandbox.ran(&mut sandbox.sync(&format!("--once {arguments}")))
}

pub(crate) fn replicas(sandbox: &Sandbox, path: &str) -> [Value; 2] {
    let of = |cluster: &str| {
        if sandbox.has(cluster, path) {
            sandbox.get(cluster, path)["spec"]["replicas"].clone()
        } else {
            json!(0)
        }
    };
    ["m1", "m2"].map(of)
}

/// Adds a Deployment with four replicas.
fn add_api(sandbox: &Sandbox) {
    add(sandbox, "api");
}

fn add(sandbox: &Sandbox, name: &str) {
    let web = sandbox.read_file("web.yaml");
    sandbox.write(&format!("{name}.yaml"), &web.replace("web", name).replace("replicas: 8", "replicas: 4"));
}

/// The status of both members cannot be read any more, but what is rendered can be applied to them.
fn hide_status(sandbox: &Sandbox) {
    for member in ["m1", "m2"] {
        let fault =
            InjectedFault::new("list", FaultKind::Status(403)).on_path("/api/v1/nodes").with_times(10_000);
        sandbox.fleet.lock_cluster(member).add_fault(fault);
    }
}

#[test]
fn workloads_are_placed_by_the_free_resources_of_members() {
    let sandbox = sandbox();
    node(&sandbox, "m1", "4");
    node(&sandbox, "m2", "12");
    write_sync(&sandbox, "members", "apply: {}");
    let ran = once(&sandbox, "").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(2), json!(6)], "2 and 10 processors are free: {ran:#?}");
    once(&sandbox, "").code(0);
    let writes = sandbox.writes("m1") + sandbox.writes("m2");

    // What runs stays when there is more room elsewhere.
    let amounts = json!({"cpu": "140", "memory": "1Ti", "pods": "110"});
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    sandbox.edit("m1", "test", "/api/v1/nodes/node-1/status", &status);
    let before = sandbox.writes("m1") + sandbox.writes("m2");
    assert_eq!(before, writes + 1, "the change of the node itself");
    let ran = once(&sandbox, "").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(2), json!(6)], "{ran:#?}");
    assert_eq!(sandbox.writes("m1") + sandbox.writes("m2"), before, "{ran:#?}");

    // A new workload goes there.
    add_api(&sandbox);
    once(&sandbox, "").code(0);
    assert_eq!(replicas(&sandbox, API), [json!(4), json!(0)]);
}

#[test]
fn the_last_status_of_members_survives_a_restart() {
    let sandbox = sandbox();
    node(&sandbox, "m1", "4");
    node(&sandbox, "m2", "12");
    write_sync(&sandbox, "members", "apply: {}");
    once(&sandbox, "").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(2), json!(6)], "2 and 10 processors are free");

    hide_status(&sandbox);
    add_api(&sandbox);
    let ran = once(&sandbox, "").code(0);
    assert!(ran.err.contains("its status cannot be read, and stays as it was"), "{ran:#?}");
    assert_eq!(replicas(&sandbox, API), [json!(1), json!(3)], "{ran:#?}");

    // Without the state, the status is that of the repo, which says nothing of processors.
    fs::remove_file(sandbox.path("state/default/web/members.json")).unwrap();
    add(&sandbox, "cron");
    once(&sandbox, "").code(0);
    assert_ne!(replicas(&sandbox, &API.replace("api", "cron")), [json!(1), json!(3)]);
}

#[test]
fn the_last_status_of_members_stays_when_none_can_be_read() {
    let sandbox = sandbox();
    node(&sandbox, "m1", "4");
    node(&sandbox, "m2", "12");
    sandbox.write_sync("1s", "  inventory: members\n  apply: {}\n");
    let mut command = sandbox.sync("");
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the workload runs", || sandbox.has("m1", WEB) && sandbox.has("m2", WEB));
    let before = sandbox.count("m1", "list");
    hide_status(&sandbox);
    until("rounds have failed to read the status", || sandbox.count("m1", "list") > before + 3);
    add_api(&sandbox);
    until("the new workload runs", || sandbox.has("m1", API) && sandbox.has("m2", API));
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(replicas(&sandbox, API), [json!(1), json!(3)]);
}

/// Sets for how many seconds a member cannot be reached, as the state says it.
pub(crate) fn unreachable_for(sandbox: &Sandbox, member: &str, seconds: i64) {
    let path = sandbox.path("state/default/web/members.json");
    let mut known: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(known[member]["unreachableSince"].is_string(), "{known}");
    let since = Timestamp::now() - SignedDuration::from_secs(seconds);
    known[member]["unreachableSince"] = json!(since.to_string());
    fs::write(path, known.to_string()).unwrap();
}

/// Gives the clusters of the kubeconfig another address, or their own again.
pub(crate) fn reach(sandbox: &Sandbox, member: &str, server: &Value) -> Value {
    let before = Cell::new(Value::Null);
    sandbox.kubeconfig(|config| {
        let clusters = config["clusters"].as_array_mut().unwrap();
        let cluster = clusters.iter_mut().find(|cluster| cluster["name"] == member).unwrap();
        before.set(std::mem::replace(&mut cluster["cluster"]["server"], server.clone()));
    });
    before.take()
}

#[test]
fn workloads_leave_a_member_that_stays_unreachable_if_that_is_asked_for() {
    let sandbox = sandbox();
    let taint = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {name: down}\nspec:\n  \
                 addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ['True']}]\n  \
                 taints: [{key: down, effect: NoExecute}]\n";
    sandbox.write("taint.yaml", taint);
    // The member has nothing but the workload, and would lose everything.
    sandbox.remove("namespace.yaml");
    node(&sandbox, "m1", "12");
    node(&sandbox, "m2", "12");
    let sync =
        |more: &str| sandbox.write_sync("1h", &format!("  inventory: members\n  timeout: 20s\n{more}"));
    sync("  apply: {pruneLimit: 100}\n");
    once(&sandbox, "").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(4)]);

    // Nothing moves unless it is asked for, however long a member is unreachable.
    let server = reach(&sandbox, "m1", &json!("https://127.0.0.1:1"));
    once(&sandbox, "");
    unreachable_for(&sandbox, "m1", 3600);
    once(&sandbox, "");
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(4)]);

    // Nothing moves before the control plane would notice the loss, nor beyond the limit.
    sync("  failover: true\n  apply: {}\n");
    unreachable_for(&sandbox, "m1", 5);
    once(&sandbox, "");
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(4)]);
    unreachable_for(&sandbox, "m1", 40);
    let ran = once(&sandbox, "").code(2);
    assert!(ran.out.contains("PruneFailed"), "{ran:#?}");
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(4)]);

    sync("  failover: true\n  apply: {pruneLimit: 100}\n");
    unreachable_for(&sandbox, "m1", 40);
    let ran = once(&sandbox, "").code(2);
    assert_eq!(replicas(&sandbox, WEB), [json!(4), json!(8)], "m1 does not know it yet: {ran:#?}");
    once(&sandbox, "").code(2);
    let again = once(&sandbox, "").code(2);
    assert!(!again.err.contains("has changed"), "the eviction is done, and nothing else moves: {again:#?}");

    // What was evicted is removed when the member is back, and stays where it is now.
    reach(&sandbox, "m1", &server);
    let ran = once(&sandbox, "").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(0), json!(8)], "{ran:#?}");
    add_api(&sandbox);
    let ran = once(&sandbox, "").code(0);
    assert_eq!(replicas(&sandbox, API), [json!(2), json!(2)], "{ran:#?}");
}

#[test]
fn workloads_follow_the_inventory_of_the_control_plane() {
    let sandbox = sandbox().setting("contexts", &json!({"m1": "m1", "m2": "m2"}));
    let status = json!({
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "resourceSummary": {"allocatable": {"cpu": "6", "memory": "64Gi", "pods": "110"}},
    });
    karmada(&sandbox, Some(&status));
    let more = json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]},
        "status": {"resourceSummary": {"allocatable": {"cpu": "18"}}}});
    let merge = "application/merge-patch+json";
    assert_eq!(sandbox.ask("hub", "PATCH", &format!("{CLUSTERS}/m2"), "test", merge, &more), 200);

    sandbox.remove("namespace.yaml");
    for member in ["m1", "m2"] {
        sandbox.create_namespace(member);
    }
    write_sync(&sandbox, "hub", "apply: {}");
    let ran = once(&sandbox, "").code(2);
    assert!(ran.out.contains("`inventory: hub` needs the control plane"), "{ran:#?}");
    once(&sandbox, "--hub-context hub --contexts-from-repo").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(2), json!(6)], "6 and 18 processors are free");

    // The control plane removes a cluster: that is guarded like everything else that goes.
    sandbox.delete("hub", &format!("{CLUSTERS}/m2"));
    let ran = once(&sandbox, "--hub-context hub --contexts-from-repo").code(2);
    assert!(ran.out.contains("PruneFailed"), "{ran:#?}");
    assert_eq!(replicas(&sandbox, WEB), [json!(2), json!(6)]);
    write_sync(&sandbox, "hub", "apply: {pruneLimit: 100}");
    once(&sandbox, "--hub-context hub --contexts-from-repo").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(8), json!(0)], "6 more processors are free");

    // A control plane that cannot be read changes nothing.
    add_api(&sandbox);
    sandbox.kubeconfig(|config| {
        config["clusters"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .filter(|cluster| cluster["name"] == "hub")
            .for_each(|cluster| cluster["cluster"]["server"] = json!("https://127.0.0.1:1"));
    });
    let ran = once(&sandbox, "--hub-context hub --contexts-from-repo").code(2);
    assert!(ran.out.contains("the status of the clusters: "), "{ran:#?}");
    assert_eq!(replicas(&sandbox, API), [json!(0), json!(0)]);
}
