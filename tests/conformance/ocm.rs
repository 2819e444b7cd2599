//! Open Cluster Management's cases of placements: decisions, scores, sets, and the order of evaluation.

use std::collections::BTreeMap;

use federate_dialect::{Placement, Plan, PlannerInput, PreviousPlan, SharedLists};
use federate_engine::EngineSettings;
use federate_kubernetes::{ClusterName, Finding, LiveObjects, ObjectRef};
use federate_ocm::hub::{Failure, HubModel, HubRun, MemberTaint, NamedScores, Skipped};
use federate_ocm::report::PlacementReport;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::{previous, repo, run, strict_members};

/// How many evaluations are recorded of placements that never settle.
const RECORDED_EVALUATIONS: usize = 8;

/// How many evaluations each placement gets before it counts as never settling.
const MAX_EVALUATIONS: usize = 40;

/// Verifies the first evaluation of one placement, what a second one changes, and the inventory after the hub's controllers.
pub(crate) fn placement(case: &Value) -> Result<(), String> {
    with_hub(case, |hub| {
        let want = &case["expect"];
        for row in want["placements"].as_array().into_iter().flatten() {
            let id: ObjectRef = serde_json::from_value(row["object"].clone()).expect("an object");
            let report = hub.evaluate(&id, 1).ok_or("the placement is not evaluated")?;
            compare_row(row, &report)?;
            if want["settles"] == false {
                let second = hub.evaluate(&id, 2).ok_or("the placement is not evaluated")?;
                compare(&want["second"], &names(&second.clusters))?;
            } else if row.get("error").is_none() && row.get("skipped").is_none() {
                let second = hub.evaluate(&id, 2).ok_or("the placement is not evaluated")?;
                compare(&row["clusters"], &names(&second.clusters))
                    .map_err(|why| format!("the second evaluation moves it:\n{why}"))?;
            }
        }
        if want.get("sets").is_some() {
            let sets: Map<String, Value> = hub
                .sets()
                .into_iter()
                .map(|(name, members)| match members {
                    Ok(members) => (name, json!(members)),
                    Err(error) => (name, json!({"error": error})),
                })
                .collect();
            compare(&want["sets"], &sets.into())?;
        }
        if let Some(inventory) = want.get("inventory") {
            let clusters: Map<String, Value> = hub
                .inventory()
                .into_iter()
                .map(|one| {
                    let mut row = json!({"clusterSet": one.set});
                    let taints: Vec<Value> = one.taints.iter().map(taint).collect();
                    if !taints.is_empty() {
                        row["taints"] = taints.into();
                    }
                    (one.name.to_string(), row)
                })
                .collect();
            compare(inventory, &clusters.into())?;
        }
        Ok(())
    })?;
    plan_agrees(case)
}

fn taint(taint: &MemberTaint) -> Value {
    let MemberTaint { key, value, effect, added, .. } = taint;
    json!({"key": key, "value": value, "effect": effect, "timeAdded": added.map(|time| time.to_string())})
}

/// Verifies the evaluations of several placements by one worker.
pub(crate) fn balance(case: &Value) -> Result<(), String> {
    with_hub(case, |hub| {
        let want = &case["expect"];
        let count = want["placements"].as_array().map_or(5, Vec::len);
        let run = hub.run(false, count * MAX_EVALUATIONS);
        compare(&want["settles"], &run.settles.into())?;
        let mut evaluations: Vec<Value> = run
            .evaluations
            .iter()
            .map(|(placement, clusters)| json!({"placement": placement, "clusters": clusters}))
            .collect();
        if !run.settles {
            evaluations.truncate(RECORDED_EVALUATIONS);
        }
        compare(&want["evaluations"], &evaluations.into())?;
        let reverse = hub.run(true, count * MAX_EVALUATIONS);
        let differs = run.settles != reverse.settles || final_clusters(&run) != final_clusters(&reverse);
        compare(&want["orderDependent"], &differs.into())?;
        for row in want["placements"].as_array().into_iter().flatten() {
            let id: ObjectRef = serde_json::from_value(row["object"].clone()).expect("an object");
            let report = run.placements.iter().find(|report| report.object == id);
            compare_row(row, report.ok_or("the placement is not evaluated")?)?;
        }
        Ok(())
    })?;
    plan_agrees(case)
}

fn final_clusters(run: &HubRun) -> Vec<(&ObjectRef, &[ClusterName])> {
    run.placements.iter().map(|report| (&report.object, report.clusters.as_slice())).collect()
}

/// Calls `ask` with the hub of a case.
pub(crate) fn with_hub(
    case: &Value,
    ask: impl FnOnce(&HubModel<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let repo = repo(case);
    let clusters = strict_members(&repo);
    let previous = PreviousPlan::new(previous(case));
    let (live, hosts, lists) = (LiveObjects::default(), BTreeMap::new(), SharedLists::default());
    let input = PlannerInput {
        repo: &repo,
        clusters: &clusters,
        now: case["now"].as_str().map(|now| now.parse().expect("a time")),
        live: &live,
        hosts: &hosts,
        lists: &lists,
        previous: &previous,
        implicit: true,
    };
    ask(&HubModel::new(input))
}

fn names(clusters: &[ClusterName]) -> Value {
    clusters.iter().map(|name| (name.to_string(), Value::Null)).collect::<Map<_, _>>().into()
}

/// Compares a recorded row with a report, as far as the row goes.
fn compare_row(want: &Value, report: &PlacementReport) -> Result<(), String> {
    let mut got = json!({"object": report.object, "clusters": names(&report.clusters)});
    if let Some(skipped) = report.skipped {
        got["skipped"] = match skipped {
            Skipped::Disabled => "Disabled",
            Skipped::Deleting => "Deleting",
        }
        .into();
        return compare(want, &got);
    }
    match &report.failure {
        Some(Failure::Misconfigured { plugin, message }) => {
            got["error"] = json!({"code": "Misconfigured", "plugin": plugin, "message": message});
            // The words of a compiler are its own.
            let is_compiled = |text: Option<&Value>| {
                text.and_then(Value::as_str).is_some_and(|text| text.contains("compilation failed"))
            };
            if is_compiled(want["error"].get("message")) && is_compiled(got["error"].get("message")) {
                got["error"]["message"] = want["error"]["message"].clone();
            }
        }
        Some(Failure::SyncError(message)) => {
            got["error"] = json!({"code": "SyncError", "message": message});
        }
        Some(Failure::Panic) => got["error"] = json!({"code": "Panic"}),
        Some(Failure::Expression(one)) => return Err(format!("not evaluated: {}", one.what)),
        None => {
            let scores =
                |one: &NamedScores| json!({"name": one.name, "weight": one.weight, "scores": one.scores});
            let prioritizers: Vec<Value> = report.prioritizers.iter().map(scores).collect();
            got["prioritizers"] = if prioritizers.is_empty() { Value::Null } else { prioritizers.into() };
            if !report.ranking.is_empty() {
                got["ranking"] = json!(report.ranking);
            }
            let rejected = report.rejected.iter().map(|(name, why)| (name.to_string(), why.name().into()));
            got["rejected"] = rejected.collect::<Map<_, _>>().into();
        }
    }
    if !report.conditions.is_empty() {
        let conditions = report.conditions.iter().map(|one| {
            let status = if one.is_true { "True" } else { "False" };
            (one.kind.to_owned(), json!({"status": status, "reason": one.reason, "message": one.message}))
        });
        got["conditions"] = conditions.collect::<Map<_, _>>().into();
        got["numberOfSelectedClusters"] = report.selected.into();
        decisions(report, &mut got);
    }
    let misconfigured = "/conditions/PlacementMisconfigured/message";
    let words = |row: &Value| row.pointer(misconfigured).and_then(Value::as_str).map(str::to_owned);
    if let (Some(wanted), Some(found)) = (words(want), words(&got))
        && [&wanted, &found].iter().all(|text| text.starts_with("Predicate:compilation failed"))
    {
        *got.pointer_mut(misconfigured).expect("a condition") = wanted.into();
    }
    if report.unscheduled != 0 {
        got["unscheduled"] = report.unscheduled.into();
    }
    if report.requeue {
        got["requeue"] = true.into();
    }
    if !report.expired.is_empty() {
        got["warning"] = "ScoresExpired".into();
    }
    compare(want, &got)
}

/// Adds the decisions and their groups to a row.
fn decisions(report: &PlacementReport, got: &mut Value) {
    const DOMAIN: &str = "cluster.open-cluster-management.io";
    let records = report.records();
    if records.is_empty() {
        (got["decisions"], got["decisionGroups"]) = (Value::Null, Value::Null);
        return;
    }
    let decisions = records.iter().map(|record| {
        json!({
            "name": record.name,
            "labels": {
                format!("{DOMAIN}/decision-group-index"): record.group.to_string(),
                format!("{DOMAIN}/decision-group-name"): record.group_name,
                format!("{DOMAIN}/placement"): report.object.name,
            },
            "clusters": record.clusters,
        })
    });
    got["decisions"] = decisions.collect();
    let groups = report.groups.iter().enumerate().map(|(index, group)| {
        let names = records.iter().filter(|record| record.group == index).map(|record| record.name.as_str());
        json!({
            "clusterCount": group.clusters.len(),
            "decisionGroupIndex": index,
            "decisionGroupName": group.name,
            "decisions": names.collect::<Vec<_>>(),
        })
    });
    got["decisionGroups"] = groups.collect();
}

/// Verifies that a plan ends where the evaluations of the hub end, and that a plan with it as memory is the same.
fn plan_agrees(case: &Value) -> Result<(), String> {
    let now = case["now"].as_str().map(|now| now.parse().expect("a time"));
    let settings = |previous| EngineSettings {
        strict_inventory: true,
        now,
        previous: PreviousPlan::new(previous),
        ..EngineSettings::default()
    };
    let ran = run(&case["files"], &settings(previous(case)));
    let is_placement = |row: &&Placement| row.object.kind == "Placement";
    let names = |plan: &Plan| -> Value {
        let rows = plan.placements.iter().filter(is_placement);
        let row = |row: &Placement| {
            let clusters: Vec<&str> = row.clusters.iter().map(|placed| &*placed.name).collect();
            (row.object.namespaced_name(), json!(clusters))
        };
        rows.map(row).collect::<Map<_, _>>().into()
    };
    let planned = names(&ran.plan);
    with_hub(case, |hub| {
        let hub = hub.run(false, MAX_EVALUATIONS * 5);
        let settled = hub.placements.iter().map(|one| (one.object.namespaced_name(), json!(one.clusters)));
        if hub.settles && hub.placements.len() == 1 {
            compare(&settled.collect::<Map<_, _>>().into(), &planned)?;
        }
        Ok(())
    })?;
    // Decisions of placements that are only on the hub stay there.
    let mut memory = ran.plan.clone();
    let is_new = |row: &Placement| ran.plan.placements.iter().all(|known| known.object != row.object);
    memory.placements.extend(previous(case).placements.into_iter().filter(is_new));
    let again = run(&case["files"], &settings(memory));
    compare(&planned, &names(&again.plan)).map_err(|why| format!("a plan of the plan differs:\n{why}"))
}

/// Verifies whether the API server and the hub accept an object. Each refusal must point into the object.
pub(crate) fn validation(case: &Value) -> Result<(), String> {
    let ran = run(&case["files"], &EngineSettings::default());
    let errors: Vec<&Finding> = ran.findings.iter().filter(|finding| finding.is_error()).collect();
    let is_refusal = |finding: &Finding| {
        ["invalid-policy", "invalid-cluster"].contains(&finding.code) && finding.object.is_some()
    };
    let refusals: Vec<&str> =
        errors.iter().filter(|finding| is_refusal(finding)).map(|finding| finding.message.as_str()).collect();
    if case["expect"]["valid"].as_bool() == Some(refusals.is_empty()) {
        return Ok(());
    }
    Err(format!("want {}, got {errors:#?}", case["expect"]))
}
