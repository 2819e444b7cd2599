//! `KubeFleet`'s cases of how a placement is rolled out: rounds of a rolling update, stages, and evictions.
//!
//! What they start from, the state of bindings on a hub, no command of federate reads; so these call the
//! library's functions.

use federate_kubefleet::Behaviour;
use federate_kubefleet::rollout::row::Row;
use federate_kubefleet::rollout::{budget, rolling, staged};
use federate_kubernetes::Object;
use federate_repo::Repo;
use serde_json::{Value, json};

use crate::diff::compare;
use crate::run;

const PLACEMENTS: [&str; 2] = ["ClusterResourcePlacement", "ResourcePlacement"];

fn claimed<'a>(repo: &'a Repo, kinds: &'a [&str]) -> impl Iterator<Item = &'a Object> {
    repo.claimed.iter().map(|c| &c.object).filter(|o| kinds.contains(&o.id.kind.as_str()))
}

pub(crate) fn staged(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let strategy = claimed(&repo, &["ClusterStagedUpdateStrategy", "StagedUpdateStrategy"]).next();
    let selected: Vec<String> = serde_json::from_value(case["selected"].clone()).expect("a list");
    let clusters = run::members(&repo);
    let picked: Vec<_> = clusters.iter().filter(|c| selected.iter().any(|s| **s == *c.name)).collect();
    let got = match staged::stages(strategy.expect("a strategy"), &picked, &Behaviour::newest()) {
        Err(failure) => json!({"error": failure.name()}),
        Ok(stages) => {
            let stage = |stage: staged::Stage| {
                json!({
                    "stage": stage.name, "clusters": stage.clusters, "maxConcurrency": stage.max_concurrency
                })
            };
            json!({"stages": stages.into_iter().map(stage).collect::<Vec<_>>()})
        }
    };
    compare(&case["expect"], &got)
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

pub(crate) fn eviction(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let of = |kind| claimed(&repo, kind).next();
    let placement = of(&PLACEMENTS).expect("a placement");
    let budget = of(&["ClusterResourcePlacementDisruptionBudget"]);
    let available: Vec<bool> = serde_json::from_value(case["available"].clone()).expect("a list");
    let eviction = budget::eviction(placement, budget, &available).expect("objects that can be read");
    let got = json!({"evictionAllowed": eviction.allowed, "availablePlacements": eviction.available});
    compare(&case["expect"], &got)
}
