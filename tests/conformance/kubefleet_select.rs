//! `KubeFleet`'s cases of the selection and the overrides of a placement: each repo is planned and rendered.

use std::collections::BTreeMap;

use federate_dialect::Placement;
use federate_engine::EngineSettings;
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::{compare, normal};
use crate::run::{Ran, run, run_with};

/// The kinds of placements.
const PLACEMENTS: [&str; 2] = ["ClusterResourcePlacement", "ResourcePlacement"];

fn is_placement(object: &Value) -> bool {
    PLACEMENTS.iter().any(|kind| object["kind"] == *kind)
}

/// Whether an object is the one that a reference is to.
fn is(object: &Value, reference: &Value) -> bool {
    let metadata = &object["metadata"];
    object["kind"] == reference["kind"]
        && metadata["name"] == reference["name"]
        && metadata.get("namespace") == reference.get("namespace")
}

/// Verifies the selection of one placement. Other placements of the repo are removed, because they could select
/// the same objects. A repo without clusters gets one, which receives the selected objects.
pub(crate) fn selection(case: &Value) -> Result<(), String> {
    let want = &case["expect"];
    let mut files = case["files"].as_array().expect("a list").clone();
    files.retain(|object| !is_placement(object) || is(object, &want["placement"]));
    if !files.iter().any(|object| object["kind"] == "MemberCluster") {
        let cluster = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster",
            "metadata": {"name": "only"}});
        files.push(cluster);
    }
    // The objects in a selected envelope have rows, too, but are not selected themselves.
    let in_repo = |row: &&Placement| files.iter().any(|object| is(object, &json!(row.object)));
    let ran = run(&json!(files), &EngineSettings::default());
    let rows = &ran.plan.placements;
    let own = rows.iter().find(|row| json!(row.object) == want["placement"]).ok_or("there is no row")?;
    let mut got = json!({"placement": own.object});
    if want.get("error").is_some() {
        got["error"] = json!(own.unschedulable.as_ref().map(|u| &u.reason));
        return compare(want, &got);
    }
    let selected =
        rows.iter().filter(|row| row.object != own.object && row.policy.as_ref() == Some(&own.object));
    got["selected"] = unordered(selected.filter(in_repo).map(|row| json!(row.object)).collect());
    let mut want = want.clone();
    want["selected"] = unordered(want["selected"].take());
    if want.get("manifests").is_some() {
        got["manifests"] = manifests(&ran, &case["files"]);
        for (_, cluster, status) in &ran.not_sent {
            got["manifests"][cluster] = json!({"error": status});
        }
        want["manifests"] = each_unordered(want["manifests"].take());
        for received in want["manifests"].as_object_mut().expect("a map").values_mut() {
            // An object in two envelopes is sent once.
            if let Value::Array(objects) = received {
                objects.dedup();
            }
        }
        // The objects in an envelope are sent in its place.
        want.as_object_mut().expect("a map").remove("resources");
    } else {
        got["resources"] = unordered(ran.manifests.into_values().next().unwrap_or_default().into());
        want["resources"] = unordered(want["resources"].take());
    }
    compare(&want, &got)
}

/// Verifies the manifests of every cluster, and why some receive nothing.
pub(crate) fn overrides(case: &Value) -> Result<(), String> {
    // The overrides of a case were created without the webhooks, which refuse two overrides of one object.
    let mut config = Config::default();
    let settings = Map::from_iter([("enableWebhook".to_owned(), false.into())]);
    config.dialects.insert("kubefleet".to_owned(), settings);
    let (ran, ()) = run_with(&case["files"], &EngineSettings::default(), config, |_, _| ());
    // An override that deletes an object is not an error.
    let failed = ran.not_sent.iter().filter(|(_, _, status)| *status != "Deleted");
    let errors: BTreeMap<&str, &str> =
        failed.map(|(_, cluster, status)| (cluster.as_str(), *status)).collect();
    let mut manifests = manifests(&ran, &case["files"]);
    manifests.as_object_mut().expect("a map").retain(|name, _| !errors.contains_key(name.as_str()));
    let mut got = json!({"manifests": manifests});
    if !errors.is_empty() {
        got["errors"] = json!(errors);
    }
    let mut want = case["expect"].clone();
    want["manifests"] = each_unordered(want["manifests"].take());
    compare(&want, &got)
}

/// The manifests of each cluster of the repo.
fn manifests(ran: &Ran, files: &Value) -> Value {
    let clusters = files.as_array().expect("a list").iter().filter(|o| o["kind"] == "MemberCluster");
    let received = |cluster: &Value| {
        let name = cluster["metadata"]["name"].as_str().expect("a name").to_owned();
        let list = ran.manifests.get(&name).cloned().unwrap_or_default();
        (name, unordered(list.into()))
    };
    clusters.map(received).collect::<Map<_, _>>().into()
}

/// Sorts a list. The order in which objects are applied is the subject of the family `waves`.
fn unordered(mut list: Value) -> Value {
    list.as_array_mut().expect("a list").sort_by_key(|value| normal(value).to_string());
    list
}

fn each_unordered(mut lists: Value) -> Value {
    for list in lists.as_object_mut().expect("a map").values_mut().filter(|list| list.is_array()) {
        *list = unordered(list.take());
    }
    lists
}
