//! `KubeFed`'s cases: placements with the status of each cluster, the scheduler's result and what it writes
//! back, manifests, DNS records and endpoints. A family is about one object, except where all rows of the plan
//! are recorded.

use std::collections::BTreeMap;

use federate_dialect::PreviousPlan;
use federate_dialect::{Explanation, Placement, Plan};
use federate_engine::EngineSettings;
use federate_kubernetes::{Finding, ObjectRef, Severity};
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::{Ran, live, previous, run_with};

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let want = &case["expect"];
    let settings = EngineSettings {
        strict_inventory: true,
        previous: PreviousPlan::new(previous(case)),
        live: live(case),
        hosts: serde_json::from_value(case["hosts"].clone()).unwrap_or_default(),
        ..EngineSettings::default()
    };
    let whole =
        ["kubefed/placement/", "kubefed/e2e/"].iter().any(|f| case["id"].as_str().unwrap().starts_with(f));
    let about = |object: &ObjectRef| match want["placements"].as_array() {
        _ if whole => true,
        Some(rows) => rows.iter().any(|row| row["object"] == json!(object)),
        None => object.kind == "DNSEndpoint",
    };
    let (ran, explained) = run_with(&files(case), &settings, Config::default(), |engine, plan| {
        let rows = plan.placements.iter().filter(|row| about(&row.object));
        rows.map(|row| engine.explain_placement(&row.object, plan).expect("an explanation"))
            .collect::<Vec<_>>()
    });
    let reported = |f: &&Finding| f.code == "override-failed" || invalid(&ran.plan, f);
    let mut errors = ran.findings.iter().filter(|f| f.severity == Severity::Error);
    let unexpected = errors.find(|f| !reported(f));
    if let Some(finding) = unexpected {
        return Err(format!("unexpected error {}: {}", finding.code, finding.message));
    }
    let rows: Vec<&Placement> = ran.plan.placements.iter().filter(|row| about(&row.object)).collect();
    let mut got = Map::new();
    if want.get("placements").is_some() {
        got.insert("placements".into(), rows.iter().map(|row| placement(row, &ran)).collect());
    }
    if want.get("manifests").is_some() {
        got.insert("manifests".into(), json!(manifests(&ran, about)));
    }
    one_object(&rows, &explained, whole, want, &mut got);
    compare(&sorted(want.clone()), &sorted(Value::Object(got)))
}

/// The objects of a case. Some of Federation v1 have neither its clusters nor its annotations, but were recorded with its
/// controllers: another object says whose they are.
pub(crate) fn files(case: &Value) -> Value {
    let mut files = case["files"].clone();
    if case["id"].as_str().unwrap().starts_with("kubefed/v1") {
        files.as_array_mut().unwrap().push(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "of-federation-v1",
                "namespace": "federation-system",
                "annotations": {"federation.alpha.kubernetes.io/cluster-selector": "[]"},
            },
        }));
    }
    files
}

/// Whether a finding is about a selector that keeps an object from being placed.
fn invalid(plan: &Plan, finding: &Finding) -> bool {
    let row = plan.placements.iter().find(|row| Some(&row.object) == finding.object.as_ref());
    let reason = row.and_then(|row| Some(row.unschedulable.as_ref()?.reason.as_str()));
    matches!(reason, Some("ComputePlacementFailed" | "InvalidClusterSelector"))
}

/// The recorded fields of a case about one object.
fn one_object(
    rows: &[&Placement],
    explained: &[Explanation],
    whole: bool,
    want: &Value,
    got: &mut Map<String, Value>,
) {
    let ([row], [explanation], false) = (rows, explained, whole) else { return };
    for (key, field) in [("recordStatus", "recordStatus"), ("job", "job")] {
        if let Some(value) = row.scheduler_state.get(field) {
            got.insert(key.into(), value.clone());
        }
    }
    if row.object.kind == "DNSEndpoint" {
        if let Some(unschedulable) = &row.unschedulable {
            got.insert("error".into(), json!(unschedulable.reason));
        }
        return;
    }
    if let Some(rewritten) = explanation.rewritten.as_ref().filter(|_| want.get("hub").is_some()) {
        got.insert("hub".into(), json!([rewritten]));
    }
    if row.policy.as_ref().is_some_and(|p| p.kind == "ReplicaSchedulingPreference") {
        let replicas =
            explanation.clusters.iter().filter_map(|c| Some((c.cluster.to_string(), json!(c.replicas?))));
        got.insert("schedule".into(), replicas.collect::<Map<_, _>>().into());
    }
}

fn placement(row: &Placement, ran: &Ran) -> Value {
    let clusters: Map<String, Value> =
        row.clusters.iter().map(|p| (p.name.to_string(), json!(p.replicas))).collect();
    let policy = row.policy.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut value = json!({"object": row.object, "policy": policy, "clusters": clusters});
    if let Some(unschedulable) = &row.unschedulable {
        value["unschedulable"] = json!(unschedulable.reason);
    }
    let held = ran.not_sent.iter().filter(|(object, ..)| *object == row.object);
    let statuses: Map<String, Value> =
        held.map(|(_, cluster, status)| (cluster.clone(), json!(status))).collect();
    if !statuses.is_empty() {
        value["clusterStatus"] = statuses.into();
    }
    value
}

/// The manifests of the objects of a case.
fn manifests(ran: &Ran, about: impl Fn(&ObjectRef) -> bool) -> BTreeMap<String, Vec<Value>> {
    let mut manifests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (_, cluster, body) in ran.sent.iter().filter(|(object, ..)| about(object)) {
        manifests.entry(cluster.clone()).or_default().push(body.clone());
    }
    manifests
}

/// Sorts lists of objects, and removes clusters that receive nothing.
fn sorted(mut expect: Value) -> Value {
    let by_text = |list: &mut Vec<Value>| list.sort_by_key(|v| crate::diff::normal(v).to_string());
    if let Some(list) = expect.get_mut("placements").and_then(Value::as_array_mut) {
        by_text(list);
    }
    if let Some(map) = expect.get_mut("manifests").and_then(Value::as_object_mut) {
        map.retain(|_, list| list.as_array().is_none_or(|l| !l.is_empty()));
        map.values_mut().filter_map(Value::as_array_mut).for_each(by_text);
    }
    expect
}
