//! `KubeFleet`'s cases of scheduling, with scores and rejections, and of admission.

use federate_dialect::PreviousPlan;
use federate_dialect::{Explanation, Placement};
use federate_engine::EngineSettings;
use federate_kubernetes::{Finding, Severity};
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::{previous, run, run_with};

/// The tables of upstream's scheduler. They contain objects that admission refuses, so its findings are
/// ignored.
pub(crate) fn upstream_schedule(case: &Value) -> Result<(), String> {
    scheduled(case, false)
}

/// Verifies the clusters of a placement.
pub(crate) fn schedule(case: &Value) -> Result<(), String> {
    scheduled(case, true)
}

fn scheduled(case: &Value, admitted: bool) -> Result<(), String> {
    let settings = EngineSettings {
        strict_inventory: true,
        now: case["now"].as_str().map(|now| now.parse().expect("a time")),
        previous: PreviousPlan::new(previous(case)),
        ..EngineSettings::default()
    };
    let want = &case["expect"]["placements"][0];
    let about = |row: &Placement| want["object"] == json!(row.object);
    let (ran, explained) = run_with(&case["files"], &settings, Config::default(), |engine, plan| {
        plan.placements.iter().find(|row| about(row)).map(|row| engine.explain_placement(&row.object, plan))
    });
    let explained = explained.flatten().ok_or("there is no explanation")?;
    // Of a placement that admission refuses, the explanation has the row that it would get.
    let row = if admitted { ran.plan.placements.iter().find(|row| about(row)) } else { None };
    let row = row.unwrap_or(&explained.placement);
    let aborted = row.unschedulable.as_ref().is_some_and(|u| u.reason != "NoClusterPicked");
    let mut errors = ran.findings.iter().filter(|f| f.severity == Severity::Error);
    if let Some(finding) = errors.find(|f| admitted || f.code != "invalid-policy") {
        return Err(format!("unexpected error {}: {}", finding.code, finding.message));
    }
    compare(want, &placement(row, &explained, aborted))
}

fn placement(row: &Placement, explained: &Explanation, aborted: bool) -> Value {
    let clusters: Map<String, Value> =
        row.clusters.iter().map(|p| (p.name.to_string(), json!(p.replicas))).collect();
    let policy = row.policy.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut value = json!({"object": row.object, "policy": policy, "clusters": clusters});
    let bindings = row.scheduler_state["bindings"].as_array().expect("a list");
    let scores: Map<String, Value> = bindings
        .iter()
        .filter(|b| b.get("affinityScore").is_some())
        .map(|b| {
            let name = b["cluster"].as_str().expect("a name").to_owned();
            (name, json!([b["affinityScore"], b["topologySpreadScore"]]))
        })
        .collect();
    if !scores.is_empty() {
        value["scores"] = scores.into();
    }
    if let Some(unschedulable) = &row.unschedulable {
        value["unschedulable"] = json!(unschedulable.reason);
    }
    if aborted {
        return value;
    }
    let refused = explained.clusters.iter();
    let rejected: Map<String, Value> =
        refused.filter_map(|c| Some((c.cluster.to_string(), json!(c.refused_by?)))).collect();
    if !rejected.is_empty() {
        value["rejected"] = rejected.into();
    }
    value["fulfilled"] = json!(explained.fulfilled);
    value
}

/// Verifies whether admission accepts an object. Each refusal must have the code `invalid-policy` and point into
/// the object.
pub(crate) fn validation(case: &Value) -> Result<(), String> {
    let ran = run(&case["files"], &EngineSettings::default());
    let errors: Vec<&Finding> = ran.findings.iter().filter(|f| f.severity == Severity::Error).collect();
    let refused = |f: &Finding| f.code == "invalid-policy" && !f.pointer.is_empty() && f.object.is_some();
    if let Some(other) = errors.iter().find(|f| !refused(f)) {
        return Err(format!("unexpected error {}: {}", other.code, other.message));
    }
    let reported: Vec<&str> = errors.iter().map(|f| f.message.as_str()).collect();
    if case["expect"]["valid"].as_bool() == Some(errors.is_empty()) {
        return Ok(());
    }
    Err(format!("want {}, got {reported:#?}", case["expect"]))
}
