//! `KubeFleet`'s cases of how a placement is rolled out: rounds of a rolling update, stages, and evictions.
//!
//! All are read from the explanation of the placement. Rounds and evictions start from the bindings on a hub, which the
//! memory of a plan contains after `federate snapshot`.

use federate_dialect::PreviousPlan;
use federate_dialect::rollout::{PlacementStage, RolloutExplanation};
use federate_engine::EngineSettings;
use federate_kubernetes::Finding;
use federate_repo::Config;
use serde_json::{Value, json};

use crate::diff::compare;
use crate::run;

const PLACEMENTS: [&str; 2] = ["ClusterResourcePlacement", "ResourcePlacement"];

/// The stages of an update strategy, from the explanation of a placement that picks the clusters by name.
pub(crate) fn staged(case: &Value) -> Result<(), String> {
    let mut files = case["files"].as_array().expect("a list").clone();
    files.push(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "crp-main"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": {"placementType": "PickFixed", "clusterNames": case["selected"]},
        },
    }));
    let rollout =
        explained(&files.into(), &EngineSettings::default(), "crp-main").ok_or("there is no explanation")?;
    let [staged] = rollout.staged.as_slice() else { return Err("there is not one strategy".to_owned()) };
    let got = match &staged.stages {
        Err(error) => json!({"error": error}),
        Ok(stages) => json!({"stages": stages}),
    };
    compare(&case["expect"], &got)
}

/// Whether a strategy is admitted and its run can be initialized, and the stages of the run.
pub(crate) fn strategies(case: &Value) -> Result<(), String> {
    let want = &case["expect"];
    let settings = EngineSettings { strict_inventory: true, ..EngineSettings::default() };
    let ran = run::run(&case["files"], &settings);
    let of_strategy = |finding: &&Finding| {
        let kind = finding.object.as_ref().map(|object| object.kind.as_str()).unwrap_or_default();
        finding.is_error() && finding.code == "invalid-policy" && kind.ends_with("StagedUpdateStrategy")
    };
    let refused = ran.findings.iter().find(of_strategy);
    let failed = ran.findings.iter().find(|finding| finding.code == "run-fails");
    let expected = [want.get("refusedBySchema").is_some(), want.get("initializationError").is_some()];
    let got = [refused.is_some(), failed.is_some_and(|_| refused.is_none())];
    if got != expected {
        return Err(format!("want {want}, got {refused:#?} and {failed:#?}"));
    }
    let Some(stages) = want.get("stages") else { return Ok(()) };
    let rollout = explained(&case["files"], &settings, "p").ok_or("there is no explanation")?;
    let [staged] = rollout.staged.as_slice() else { return Err("there is not one strategy".to_owned()) };
    let stage = |stage: &PlacementStage| json!({"stage": stage.name, "clusters": stage.clusters});
    let got = staged.stages.as_ref().map_err(|error| (*error).to_owned())?;
    compare(stages, &got.iter().map(stage).collect())
}

/// The rollout of a placement, as it is explained.
fn explained(files: &Value, settings: &EngineSettings, placement: &str) -> Option<RolloutExplanation> {
    let (_, explained) = run::run_with(files, settings, Config::default(), |engine, plan| {
        let row = plan
            .placements
            .iter()
            .find(|row| PLACEMENTS.contains(&row.object.kind.as_str()) && row.object.name == placement)?;
        engine.explain_placement(&row.object, plan)
    });
    explained?.rollout
}

/// The explanation of a placement whose bindings on the hub are remembered.
fn on_hub(case: &Value, bindings: &[Value]) -> Result<RolloutExplanation, String> {
    let files = case["files"].as_array().expect("a list");
    let placement = files.iter().find(|file| PLACEMENTS.iter().any(|kind| file["kind"] == *kind));
    let placement = placement.expect("a placement");
    let counted = bindings.iter().filter(|b| b["state"] != "Unscheduled" && b["deleting"] != true);
    let clusters: Vec<Value> = counted.map(|b| json!({"name": b["cluster"]})).collect();
    let (spec, name) = (&placement["spec"], placement["metadata"]["name"].as_str().expect("a name"));
    let previous = json!({"placements": [{
        "object": {"apiVersion": placement["apiVersion"], "kind": placement["kind"], "name": name},
        "clusters": clusters,
        "memory": {"policy": spec["policy"], "bindings": bindings},
    }]});
    let settings = EngineSettings {
        now: case["now"].as_str().map(|now| now.parse().expect("a time")),
        previous: PreviousPlan::new(serde_json::from_value(previous).expect("a plan")),
        ..EngineSettings::default()
    };
    explained(&case["files"], &settings, name).ok_or_else(|| "there is no explanation".to_owned())
}

/// The next round of a rolling update, from the explanation of a placement whose bindings are remembered.
pub(crate) fn rollout(case: &Value) -> Result<(), String> {
    let mut bindings = case["bindings"].as_array().expect("a list").clone();
    for binding in &mut bindings {
        // Every object on a hub has a generation; it is recorded where conditions refer to it.
        let binding = binding.as_object_mut().expect("an object");
        binding.entry("generation").or_insert_with(|| 1.into());
    }
    let next = on_hub(case, &bindings)?.next.ok_or("the next round is not explained")?;
    compare(&case["expect"], &serde_json::to_value(next).expect("a value"))
}

/// Whether a cluster may be evicted, from the explanation of a placement whose bindings are available or not.
pub(crate) fn eviction(case: &Value) -> Result<(), String> {
    let available = case["available"].as_array().expect("a list").iter().enumerate();
    let bindings: Vec<Value> = available
        .map(|(index, available)| {
            let status = if *available == true { "True" } else { "False" };
            json!({"cluster": format!("m{index}"), "state": "Bound", "generation": 1, "conditions": [
                {"type": "Available", "status": status, "observedGeneration": 1}]})
        })
        .collect();
    let explained = on_hub(case, &bindings)?.eviction.ok_or("the budget is not explained")?;
    let got = json!({
        "evictionAllowed": explained.eviction_allowed, "availablePlacements": explained.available_placements,
    });
    compare(&case["expect"], &got)
}
