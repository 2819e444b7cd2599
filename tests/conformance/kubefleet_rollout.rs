//! `KubeFleet`'s cases of how a placement is rolled out: rounds of a rolling update, stages, and evictions.
//!
//! Stages are read from the explanation of a placement. Rounds and evictions start from the conditions of bindings on
//! a hub, which are neither in a repo nor in the memory of a plan; so the verify calls the library's functions.

use federate_dialect::rollout::Rollout;
use federate_engine::Settings;
use federate_kubefleet::Behaviour;
use federate_kubefleet::rollout::row::Row;
use federate_kubefleet::rollout::{budget, rolling};
use federate_kubernetes::Object;
use federate_repo::{Config, Repo};
use serde_json::{Value, json};

use crate::diff::compare;
use crate::run;

const PLACEMENTS: [&str; 2] = ["ClusterResourcePlacement", "ResourcePlacement"];

fn claimed<'a>(repo: &'a Repo, kinds: &'a [&str]) -> impl Iterator<Item = &'a Object> {
    repo.claimed.iter().map(|c| &c.object).filter(|o| kinds.contains(&o.id.kind.as_str()))
}

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
    let rollout = explained(&files.into(), "crp-main").ok_or("there is no explanation")?;
    let [staged] = rollout.staged.as_slice() else { return Err("there is not one strategy".to_owned()) };
    let got = match &staged.stages {
        Err(error) => json!({"error": error}),
        Ok(stages) => json!({"stages": stages}),
    };
    compare(&case["expect"], &got)
}

/// The rollout of a placement, as it is explained.
fn explained(files: &Value, placement: &str) -> Option<Rollout> {
    let (_, explained) = run::run_with(files, &Settings::default(), Config::default(), |engine, plan| {
        let row = plan
            .placements
            .iter()
            .find(|row| PLACEMENTS.contains(&row.object.kind.as_str()) && row.object.name == placement)?;
        engine.explain(&row.object, plan)
    });
    explained?.rollout
}

pub(crate) fn rollout(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let placement = claimed(&repo, &PLACEMENTS).next().expect("a placement");
    let rows: Vec<Row> = serde_json::from_value(case["bindings"].clone()).expect("rows");
    let now = case["now"].as_str().and_then(|now| now.parse().ok()).expect("a time");
    let got = match rolling::next(placement, &rows, now, &Behaviour::newest())
        .expect("a placement that can be read")
    {
        rolling::Next::Cleanup => json!({"waitForCleanup": true}),
        rolling::Next::Round(round) => json!({
            "update": round.update,
            "blocked": round.blocked,
            "upToDate": round.up_to_date,
            "needRoll": round.need_roll,
            "waitSeconds": round.wait.as_secs(),
        }),
    };
    compare(&case["expect"], &got)
}

/// Whether a cluster may be evicted. Where every cluster is available, the explanation says it, too.
pub(crate) fn eviction(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let of = |kind| claimed(&repo, kind).next();
    let placement = of(&PLACEMENTS).expect("a placement");
    let budget = of(&["ClusterResourcePlacementDisruptionBudget"]);
    let available: Vec<bool> = serde_json::from_value(case["available"].clone()).expect("a list");
    let eviction = budget::eviction(placement, budget, &available).expect("objects that can be read");
    let got = json!({"evictionAllowed": eviction.allowed, "availablePlacements": eviction.available});
    compare(&case["expect"], &got)?;
    if !available.iter().all(|is| *is) || budget.is_none() {
        return Ok(());
    }
    let mut files = case["files"].as_array().expect("a list").clone();
    files.extend((0..available.len()).map(|index| {
        json!({"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster",
            "metadata": {"name": format!("m{index}")}})
    }));
    let rollout = explained(&files.into(), &placement.id.name).ok_or("there is no explanation")?;
    let explained = rollout.eviction.ok_or("the budget is not explained")?;
    if usize::try_from(explained.available_placements) != Ok(available.len()) {
        // The placement does not pick that many clusters.
        return Ok(());
    }
    let got = json!({
        "evictionAllowed": explained.eviction_allowed, "availablePlacements": explained.available_placements,
    });
    compare(&case["expect"], &got)
}
