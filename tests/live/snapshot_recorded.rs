//! Recorded hubs of Karmada, stored on an API server: a snapshot of them, the next plan, and scenarios.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::sandbox::Sandbox;
use crate::snapshot::{BINDING, CLUSTER, offline};
use crate::snapshot_hubs::{Kind, define};

const CLUSTER_BINDING: Kind =
    ["work.karmada.io", "v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", "Cluster"];

/// One of so many cases is stored.
const EVERY: usize = 4;

fn cases() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/karmada/hubstate.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    // What the command is known to decide otherwise is counted where all cases run.
    let gaps = include_str!("../conformance/known-gaps.txt");
    let is_known_gap = |case: &Value| gaps.contains(&format!("\n{}: ", case["id"].as_str().unwrap()));
    let sampled = text.lines().step_by(EVERY).map(|line| serde_json::from_str(line).unwrap());
    sampled.filter(|case| !is_known_gap(case)).collect()
}

/// The path of an object of the hub's kinds, without its name.
fn path(object: &Value) -> String {
    let [group, version, _, plural, scope] =
        [CLUSTER, BINDING, CLUSTER_BINDING].into_iter().find(|kind| object["kind"] == kind[2]).unwrap();
    let namespace = if scope == "Namespaced" { "/namespaces/shop" } else { "" };
    format!("/apis/{group}/{version}{namespace}/{plural}")
}

/// An object as a server stores it that does not know its owner and has no controller for its finalizers.
fn stored(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["finalizers", "ownerReferences", "generation", "resourceVersion", "uid"] {
        metadata.remove(key);
    }
    object
}

fn is_cluster(object: &Value) -> bool {
    object["kind"] == "Cluster"
}

#[test]
fn the_next_plan_is_that_of_the_recorded_scheduler() {
    let sandbox = Sandbox::anywhere_alone(&["hub"]);
    for kind in [CLUSTER, BINDING, CLUSTER_BINDING] {
        define(&sandbox, kind);
    }
    sandbox.create_namespace("hub");
    for name in ["clusters.yaml", "policy.yaml", "namespace.yaml", "web.yaml"] {
        sandbox.remove(name);
    }
    for case in cases() {
        let files = case["files"].as_array().unwrap();
        let inventory = files.iter().filter(|file| is_cluster(file));
        let hub: Vec<Value> = inventory.chain(case["hub"].as_array().unwrap()).map(stored).collect();
        for object in &hub {
            sandbox.create_soon("hub", &path(object), object);
        }
        // The repo has the clusters without their status.
        let mut files = files.clone();
        for file in files.iter_mut().filter(|file| is_cluster(file)) {
            file.as_object_mut().unwrap().remove("status");
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": files});
        sandbox.write("all.json", &list.to_string());

        let now = case["now"].as_str().map(|now| format!(" --now {now}")).unwrap_or_default();
        sandbox.run("snapshot", "--out snapshot --hub-context hub --no-members").code(0);
        let plan =
            offline(&sandbox, &format!("plan repo --snapshot snapshot --strict-inventory{now} -o json"));
        let rows = plan.json()["placements"].as_array().unwrap().clone();
        for expected in case["expect"]["placements"].as_array().unwrap() {
            let object = &expected["object"];
            let is = |row: &&Value| {
                row["object"]["kind"] == object["kind"] && row["object"]["name"] == object["name"]
            };
            let row = rows.iter().find(is).unwrap();
            let clusters = row["clusters"].as_array().unwrap().iter();
            let clusters: Map<String, Value> = clusters
                .map(|one| (one["name"].as_str().unwrap().to_owned(), one["replicas"].clone()))
                .collect();
            assert_eq!(Value::Object(clusters), expected["clusters"], "{}", case["id"]);
        }
        let each = offline(&sandbox, "whatif repo --snapshot snapshot --each cluster -o json").json();
        let clusters = hub.iter().filter(|object| is_cluster(object)).count();
        assert_eq!(each["rows"].as_array().unwrap().len(), clusters, "{}", case["id"]);

        for object in &hub {
            let name = object["metadata"]["name"].as_str().unwrap();
            sandbox.delete("hub", &format!("{}/{name}", path(object)));
        }
    }
}
