//! `KubeFed`'s cases of a hub over time: clusters fail and come back, preferences change, pods come and go, and
//! the replica scheduler runs once per step.

use federate_dialect::{HostAddresses, PlannerInput, PreviousPlan, SharedLists};
use federate_kubefed::hub;
use federate_kubernetes::{LiveObjects, Object};
use serde_json::{Value, json};

use crate::diff::compare;
use crate::models::replica_scheduler;
use crate::run::{self, observed};

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let mut hub = case["files"].as_array().expect("a list").clone();
    let mut steps = Vec::new();
    for step in case["steps"].as_array().expect("a list") {
        set(&mut hub, step);
        hub.iter_mut().for_each(name_secret);
        steps.push(reconcile(&mut hub, step));
    }
    compare(&case["expect"], &json!({ "steps": steps }))
}

/// Replaces or adds the objects in `set` of a step, and removes those in `removed`.
pub(crate) fn set(hub: &mut Vec<Value>, step: &Value) {
    let list = |key: &str| step[key].as_array().cloned().unwrap_or_default();
    let is = |object: &Value, kind: &Value, name: &Value| {
        object["kind"] == *kind && object["metadata"]["name"] == *name
    };
    for gone in list("removed") {
        hub.retain(|object| !is(object, &gone["kind"], &gone["name"]));
    }
    for new in list("set") {
        hub.retain(|object| !is(object, &new["kind"], &new["metadata"]["name"]));
        hub.push(new);
    }
}

/// Adds the name of a Secret to the clusters of the cases. Admission refuses clusters without one.
fn name_secret(object: &mut Value) {
    if object["kind"] == "KubeFedCluster" && object["spec"]["secretRef"]["name"] == "" {
        object["spec"]["secretRef"]["name"] = "member".into();
    }
}

/// Runs the replica scheduler once.
fn reconcile(hub: &mut [Value], step: &Value) -> Value {
    let repo = run::repo(&json!({ "files": hub }));
    let clusters = run::members(&repo);
    let mut live = LiveObjects::default();
    for cluster in &clusters {
        let member = &step["members"][cluster.name.as_ref()];
        let pods = member["pods"].as_array().into_iter().flatten();
        let object = member.get("object").into_iter();
        live.insert(cluster.name.clone(), object.chain(pods).map(observed).collect());
    }
    let now = step["at"].as_str().and_then(|time| time.parse().ok());
    let (hosts, lists, previous) =
        (HostAddresses::default(), SharedLists::default(), PreviousPlan::default());
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
    let federated = hub.iter_mut().find(|object| object["kind"] == "FederatedDeployment").expect("one");
    let reconciled = replica_scheduler::reconcile(input, &observed(federated));
    let changed = reconciled.written.is_some();
    if let Some(written) = reconciled.written {
        *federated = written;
    }
    let result = if reconciled.rechecks { "recheck" } else { "ok" };
    let sorted = by_cluster(federated);
    let (template, overrides) = hub::propagated_versions(&sorted);
    json!({
        "changed": changed,
        "result": result,
        "placement": sorted.body["spec"]["placement"],
        "overrides": sorted.body["spec"]["overrides"],
        "generation": sorted.body["metadata"]["generation"],
        "templateVersion": template,
        "overridesVersion": overrides,
    })
}

/// The object with its overrides sorted by cluster, because the control plane writes them in any order.
fn by_cluster(federated: &Value) -> Object {
    let mut object = observed(federated);
    if let Some(overrides) = object.body["spec"]["overrides"].as_array_mut() {
        overrides.sort_by_key(|entry| entry["clusterName"].as_str().map(str::to_owned));
    }
    object
}
