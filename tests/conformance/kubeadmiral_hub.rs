//! `KubeAdmiral`'s cases of a hub over time: clusters, policies and the federated object change, and the
//! scheduler runs once per step. Then the override controller removes itself from the pending controllers.

use federate_dialect::{HostAddresses, PlannerInput, PreviousPlan, SharedLists};
use federate_kubeadmiral::hub;
use federate_kubernetes::LiveObjects;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::kubefed_hub::set;
use crate::models::federated_object;
use crate::run::{self, observed};

const PENDING: &str = "kubeadmiral.io/pending-controllers";
const DEFERRED: &str = "kubeadmiral.io/scheduling-deferred-reasons";

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let mut hub = case["files"].as_array().expect("a list").clone();
    let mut steps = Vec::new();
    for step in case["steps"].as_array().expect("a list") {
        set(&mut hub, step);
        steps.push(reconcile(&mut hub));
    }
    compare(&case["expect"], &json!({ "steps": steps }))
}

fn reconcile(hub: &mut [Value]) -> Value {
    let policies: Vec<&Value> = hub.iter().filter(|object| object["kind"] != "FederatedObject").collect();
    let repo = run::repo(&json!({ "files": policies }));
    let clusters = run::strict_members(&repo);
    let (live, hosts, lists) = (LiveObjects::default(), HostAddresses::default(), SharedLists::default());
    let previous = PreviousPlan::default();
    // The times in the cases are in the distant past or future.
    let now = Some("2026-08-03T09:00:00Z".parse().expect("a time"));
    let input = PlannerInput {
        repo: &repo,
        clusters: &clusters,
        now,
        live: &live,
        hosts: &hosts,
        lists: &lists,
        previous: &previous,
        implicit: true,
    };
    let federated = hub.iter_mut().find(|object| object["kind"] == "FederatedObject").expect("one");
    let reconciled = federated_object::reconcile(input, &observed(federated));
    let changed = reconciled.written.is_some();
    if let Some(written) = reconciled.written {
        *federated = written;
    }
    let memory = hub::read_plan(&[observed(federated)]);
    let row = memory.placements.first().expect("a row");
    let placement: Map<String, Value> =
        row.clusters.iter().map(|placed| (placed.name.to_string(), json!(placed.replicas))).collect();
    let mut got = json!({
        "changed": changed,
        "scheduled": reconciled.scheduled,
        "placement": placement,
        "federatedObject": recorded(federated),
    });
    if let Some(deferred) = federated["metadata"]["annotations"].get(DEFERRED) {
        got["deferred"] = deferred.clone();
    }
    federated["metadata"]["annotations"][PENDING] = "[]".into();
    got
}

/// The part of the object that the cases record.
fn recorded(federated: &Value) -> Value {
    let mut recorded = json!({
        "annotations": federated["metadata"]["annotations"],
        "generation": federated["metadata"]["generation"],
    });
    for list in ["placements", "overrides"] {
        if let Some(entries) = federated["spec"].get(list) {
            recorded[list] = entries.clone();
        }
    }
    recorded
}
