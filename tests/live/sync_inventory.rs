//! `spec.inventory` of a Sync: workloads are placed by the status of members, or by that on the control plane.

use std::fs;
use std::process::Stdio;

use federate_test_apiserver::{Fault, FaultKind};
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB};
use crate::snapshot::{karmada, node, sandbox};
use crate::sync_objects::until;

const API: &str = "/apis/apps/v1/namespaces/shop/deployments/api";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

fn write_sync(sandbox: &Sandbox, inventory: &str, apply: &str) {
    sandbox.write_sync("1h", &format!("  inventory: {inventory}\n  {apply}\n"));
}

fn once(sandbox: &Sandbox, arguments: &str) -> Ran {
    sandbox.ran(&mut sandbox.sync(&format!("--once {arguments}")))
}

fn replicas(sandbox: &Sandbox, path: &str) -> [Value; 2] {
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
        let fault = Fault::new("list", FaultKind::Status(403)).on("/api/v1/nodes").times(10_000);
        sandbox.fleet.cluster(member).fault(fault);
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

    write_sync(&sandbox, "hub", "apply: {}");
    let ran = once(&sandbox, "").code(2);
    assert!(ran.out.contains("`inventory: hub` needs the control plane"), "{ran:#?}");
    once(&sandbox, "--hub-context hub").code(0);
    assert_eq!(replicas(&sandbox, WEB), [json!(2), json!(6)], "6 and 18 processors are free");

    // The control plane removes a cluster: that is guarded like everything else that goes.
    sandbox.delete("hub", &format!("{CLUSTERS}/m2"));
    let ran = once(&sandbox, "--hub-context hub").code(2);
    assert!(ran.out.contains("PruneFailed"), "{ran:#?}");
    assert_eq!(replicas(&sandbox, WEB), [json!(2), json!(6)]);
    write_sync(&sandbox, "hub", "apply: {pruneLimit: 100}");
    once(&sandbox, "--hub-context hub").code(0);
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
    let ran = once(&sandbox, "--hub-context hub").code(2);
    assert!(ran.out.contains("the status of the clusters: "), "{ran:#?}");
    assert_eq!(replicas(&sandbox, API), [json!(0), json!(0)]);
}
