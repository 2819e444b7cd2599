//! `spec.inventory` of a Sync: workloads are placed by the status of members, or by that on the control plane.

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, WEB};
use crate::snapshot::{karmada, node, sandbox};

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
    let web = sandbox.read_file("web.yaml");
    sandbox.write("api.yaml", &web.replace("web", "api").replace("replicas: 8", "replicas: 4"));
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
