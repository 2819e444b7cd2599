//! `KubeFleet`'s cases of the execution of staged update runs.

use std::collections::BTreeMap;

use federate_kubefleet::KubeFleetBehaviour;
use federate_kubefleet::rollout::run::{self, HubObjects, RunRequeue, RunWrite};
use federate_kubernetes::{Object, ObjectRef};
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::kubefleet_hub::duration;

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Verifies a run, reconcile after reconcile.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let objects = list(&case["files"]).iter().map(|body| Object::from_manifest(body.clone(), "hub"));
    let mut world = HubObjects::new(objects);
    let text = |key: &str| case["run"][key].as_str().map(str::to_owned);
    let run = ObjectRef {
        api_version: "placement.kubernetes-fleet.io/v1beta1".to_owned(),
        kind: text("kind").expect("a kind"),
        namespace: text("namespace"),
        name: text("name").expect("a name"),
    };
    let mut before = BTreeMap::new();
    for (index, step) in list(&case["steps"]).iter().enumerate() {
        for body in list(&step["set"]) {
            world.put_object(Object::from_manifest(body.clone(), "hub"));
        }
        for gone in list(&step["removed"]) {
            let name = gone["name"].as_str().expect("a name");
            world.remove(gone["kind"].as_str().expect("a kind"), gone["namespace"].as_str(), name);
        }
        let now = step["at"].as_str().and_then(|at| at.parse().ok()).expect("a time");
        let next = run::reconcile_run(&mut world, &run, now, &KubeFleetBehaviour::for_newest())
            .map_err(|e| e.to_string())?;
        let got = reconciled(&mut world, &run, &next, &mut before, index == 0);
        let want = without_reasons(&case["expect"]["reconciles"][index]);
        compare(&want, &got).map_err(|why| format!("step {index}: {why}"))?;
    }
    Ok(())
}

fn reconciled(
    world: &mut HubObjects,
    run: &ObjectRef,
    next: &RunRequeue,
    before: &mut BTreeMap<String, Value>,
    first: bool,
) -> Value {
    let mut got = Map::new();
    match next {
        RunRequeue::Event => {}
        RunRequeue::After(wait) => drop(got.insert("requeueAfter".to_owned(), duration(*wait))),
        RunRequeue::Retry(why) => drop(got.insert("error".to_owned(), why.as_str().into())),
    }
    let (mut bindings, mut requests) = (Vec::new(), Vec::new());
    for write in world.take_writes() {
        let namespace = run.namespace.as_deref();
        let scope = if namespace.is_some() { "" } else { "Cluster" };
        let kind = match write {
            RunWrite::Binding(_) | RunWrite::DeletedBinding(_) => {
                if namespace.is_some() {
                    "ResourceBinding".to_owned()
                } else {
                    format!("{scope}ResourceBinding")
                }
            }
            _ => format!("{scope}ApprovalRequest"),
        };
        let object = |name: &str| world.get(&kind, namespace, name).map(|o| o.body.clone());
        match &write {
            RunWrite::Binding(name) | RunWrite::DeletedBinding(name) => {
                bindings.push(binding(&object(name).unwrap_or_default()));
            }
            RunWrite::NewApproval(name) | RunWrite::Approval(name) => {
                let mut request = object(name).expect("a request");
                let is_new = matches!(write, RunWrite::NewApproval(_));
                request["verb"] = if is_new { "create" } else { "updateStatus" }.into();
                requests.push(request);
            }
        }
    }
    bindings.sort_by_key(|binding| binding["name"].to_string());
    for (key, all) in [("bindings", bindings), ("approvalRequests", requests)] {
        if !all.is_empty() {
            got.insert(key.to_owned(), all.into());
        }
    }
    let object = world.get(&run.kind, run.namespace.as_deref(), &run.name);
    let status = status(object.and_then(|o| o.value_at(&["status"])).unwrap_or(&Value::Null));
    let status = without_reasons(&status);
    let mut changed = Map::new();
    for (key, value) in status.as_object().into_iter().flatten() {
        if before.insert(key.clone(), value.clone()).as_ref() != Some(value)
            && (first || key != "stagedUpdateStrategySnapshot")
        {
            changed.insert(key.clone(), value.clone());
        }
    }
    if !changed.is_empty() {
        got.insert("status".to_owned(), changed.into());
    }
    without_reasons(&got.into())
}

fn binding(body: &Value) -> Value {
    let mut value = json!({
        "name": body["metadata"]["name"], "generation": body["metadata"]["generation"],
    });
    let mut conditions = list(&body["status"]["conditions"]).iter();
    if let Some(started) = conditions.find(|condition| condition["type"] == "RolloutStarted") {
        let keys = ["lastTransitionTime", "message", "observedGeneration", "status"];
        let shown = keys.map(|key| (key.to_owned(), started[key].clone()));
        value["rolloutStarted"] = shown.into_iter().collect::<Map<_, _>>().into();
    }
    if body["metadata"]["deletionTimestamp"].is_null() {
        value["spec"] = body["spec"].clone();
    } else {
        value["deletionTimestamp"] = body["metadata"]["deletionTimestamp"].clone();
    }
    value
}

/// Conditions as a map of texts, as cases have them.
fn status(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let shown = map.iter().map(|(key, value)| match (key.as_str(), value) {
                ("conditions", Value::Array(all)) => (key.clone(), conditions(all)),
                _ => (key.clone(), status(value)),
            });
            shown.collect()
        }
        Value::Array(items) => items.iter().map(status).collect(),
        other => other.clone(),
    }
}

fn conditions(all: &[Value]) -> Value {
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let shown = |condition: &Value| {
        let words = ["status", "reason", "lastTransitionTime", "message"].map(|key| text(condition, key));
        (text(condition, "type"), Value::from(words.join(" ")))
    };
    all.iter().map(shown).collect::<Map<_, _>>().into()
}

/// Removes the texts of errors that end a run. Codes are compared, texts are not.
fn without_reasons(value: &Value) -> Value {
    const FATAL: [&str; 4] = [
        "False UpdateRunInitializedFailed ",
        "False UpdateRunFailed ",
        "False StageUpdatingFailed ",
        "False ClusterUpdatingFailed ",
    ];
    match value {
        Value::String(text) if FATAL.iter().any(|fatal| text.starts_with(fatal)) => {
            text.split(' ').take(3).collect::<Vec<_>>().join(" ").into()
        }
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), without_reasons(value))).collect(),
        Value::Array(items) => items.iter().map(without_reasons).collect(),
        other => other.clone(),
    }
}
