//! Karmada's cases of bindings on a hub as the memory of a plan.

use federate_dialect::{Placement, Plan, PreviousPlan};
use federate_engine::EngineSettings;
use federate_karmada::hub;
use federate_kubernetes::{Object, Severity};
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::run;

/// The plan of a hub, and the next decision.
pub(crate) fn hub_state(case: &Value) -> Result<(), String> {
    let hub = case["hub"].as_array().expect("a list");
    let objects: Vec<Object> = hub.iter().map(|body| Object::from_manifest(body.clone(), "hub")).collect();
    let placements = hub::read_placements(&objects).map_err(|e| e.to_string())?;
    let mut got = json!({"memory": placements.iter().map(remembered).collect::<Vec<_>>()});
    let plan = Plan { placements, ..Plan::default() };
    let settings = EngineSettings {
        strict_inventory: true,
        previous: PreviousPlan::new(plan),
        ..EngineSettings::default()
    };
    let ran = run(&case["files"], &settings);
    if let Some(finding) = ran.findings.iter().find(|finding| finding.severity == Severity::Error) {
        return Err(format!("unexpected error {}: {}", finding.code, finding.message));
    }
    let tasks = |row: &Placement| {
        let of = objects.iter().find(|binding| {
            let resource = |key: &str| binding.text_at(&["spec", "resource", key]);
            resource("name") == row.object.name && resource("kind") == row.object.kind
        });
        of.and_then(|binding| binding.value_at(&["spec", "gracefulEvictionTasks"]).cloned())
    };
    let rows = ran.plan.placements.iter().map(|row| decided(row, tasks(row)));
    got["placements"] = rows.collect();
    compare(&without_empty_namespaces(&case["expect"]), &got)
}

/// Objects of the cluster scope have no namespace, which some cases write as an empty one.
fn without_empty_namespaces(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| *key != "namespace" || *value != "");
            kept.map(|(key, value)| (key.clone(), without_empty_namespaces(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_empty_namespaces).collect(),
        other => other.clone(),
    }
}

fn clusters(row: &Placement) -> Value {
    row.clusters.iter().map(|p| (p.name.to_string(), json!(p.replicas))).collect::<Map<_, _>>().into()
}

fn remembered(row: &Placement) -> Value {
    let mut value = serde_json::to_value(&row.scheduler_state).expect("it is JSON");
    // What the cases show only by the next decision.
    for key in ["placementUnreadable", "schedulingSuspended"] {
        value.as_object_mut().expect("a map").remove(key);
    }
    value["object"] = json!(row.object);
    value["clusters"] = clusters(row);
    value
}

fn decided(row: &Placement, tasks: Option<Value>) -> Value {
    let mut value = json!({"object": row.object, "clusters": clusters(row)});
    if let Some(affinity) = row.scheduler_state.get("affinity") {
        value["affinity"] = affinity.clone();
    }
    if let Some(unschedulable) = &row.unschedulable {
        value["unschedulable"] = json!(unschedulable.reason);
    }
    if let Some(tasks) = tasks {
        value["gracefulEvictionTasks"] = tasks;
    }
    value
}
