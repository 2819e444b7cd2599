//! `KubeFleet`'s cases of what a placement selects and sends, and of how it is rolled out.
use federate_kubefleet::manifest::{Sending, items};
use federate_kubefleet::overrides::Overrides;
use federate_kubefleet::rollout::row::Row;
use federate_kubefleet::rollout::{budget, rolling, staged};
use federate_kubefleet::selection::sanitise::sanitised;
use federate_kubefleet::selection::{Hub, select};
use federate_kubernetes::Object;
use federate_repo::Repo;
use serde_json::{Map, Value, json};

use crate::Judge;
use crate::diff::compare;
use crate::run;

/// The judge of a family.
pub(crate) fn judge(family: &str) -> Option<Judge> {
    Some(match family {
        "selection" => selection,
        "overrides" => overrides,
        "waves" => waves,
        "staged" => staged,
        "rollout" => rollout,
        "eviction" => eviction,
        "health" => health,
        _ => return None,
    })
}

fn claimed<'a>(repo: &'a Repo, kinds: &'a [&str]) -> impl Iterator<Item = &'a Object> {
    repo.claimed.iter().map(|c| &c.object).filter(|o| kinds.contains(&o.id.kind.as_str()))
}

const PLACEMENTS: [&str; 2] = ["ClusterResourcePlacement", "ResourcePlacement"];
const OVERRIDES: [&str; 2] = ["ClusterResourceOverride", "ResourceOverride"];

fn selection(case: &Value) -> Result<(), String> {
    let want = &case["expect"];
    let repo = run::repo(case);
    let mut placements = claimed(&repo, &PLACEMENTS);
    let placement = placements.find(|o| json!(o.id) == want["placement"]).expect("the placement");
    let mut got = json!({"placement": placement.id});
    match select(&Hub::new(&repo), placement) {
        Err(failure) => got["error"] = json!(failure.reason.name()),
        Ok(selected) => {
            got["selected"] = selected.iter().map(|one| json!(one.object().id)).collect();
            got["resources"] = selected.iter().map(|one| sanitised(&one.object().body)).collect();
        }
    }
    if want.get("manifests").is_some() {
        got["manifests"] = manifests(&repo, placement).0.into();
    }
    compare(want, &got)
}

fn overrides(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let placement = claimed(&repo, &PLACEMENTS).next().expect("a placement");
    let (manifests, errors) = manifests(&repo, placement);
    let mut got = json!({"manifests": manifests});
    if !errors.is_empty() {
        got["errors"] = errors.into();
    }
    compare(&case["expect"], &got)
}

/// What every cluster is sent, in order, and why some are sent nothing.
fn manifests(repo: &Repo, placement: &Object) -> (Map<String, Value>, Map<String, Value>) {
    let clusters = run::members(repo);
    let clusters: Vec<_> = clusters.iter().collect();
    let names = clusters.iter().map(|c| c.name.to_string());
    let selected = select(&Hub::new(repo), placement).expect("a selection");
    let items = match items(&selected) {
        Ok(items) => items,
        Err((_, failure)) => {
            return (names.map(|name| (name, json!({"error": failure.reason}))).collect(), Map::new());
        }
    };
    let (overrides, findings) = Overrides::new(claimed(repo, &OVERRIDES));
    assert!(findings.is_empty(), "{findings:?}");
    let sending = Sending::new(&overrides, &placement.id, items, &clusters);
    let (failed, fine): (Vec<String>, Vec<String>) = names.partition(|name| sending.failure(name).is_some());
    let mut manifests: Map<String, Value> = fine.into_iter().map(|name| (name, json!([]))).collect();
    for index in 0..sending.items().len() {
        for variant in sending.variants(index) {
            let Ok(rendered) = variant.rendered else { continue };
            for cluster in &variant.clusters {
                let list = manifests[cluster.as_ref()].as_array_mut().expect("a list");
                list.push(rendered.body.clone());
            }
        }
    }
    let errors = failed.into_iter().map(|name| {
        let reason = json!(sending.failure(&name));
        (name, reason)
    });
    (manifests, errors.collect())
}

fn waves(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let objects = repo.templates.iter().map(|t| &t.object.id);
    let waves = federate_kubefleet::waves::waves(objects).into_iter();
    let waves: Vec<Value> =
        waves.map(|(wave, objects)| json!({"wave": wave, "objects": sorted(json!(objects))})).collect();
    let mut want = case["expect"].clone();
    for wave in want["waves"].as_array_mut().expect("a list") {
        wave["objects"] = sorted(wave["objects"].take());
    }
    compare(&want, &json!({"waves": waves}))
}

fn health(case: &Value) -> Result<(), String> {
    let [live] = case["files"].as_array().expect("a list").as_slice() else { panic!("one object") };
    let health = federate_kubefleet::health::health(&run::observed(live));
    compare(&case["expect"], &json!({"health": health.name()}))
}

fn eviction(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let of = |kind| claimed(&repo, kind).next();
    let placement = of(&PLACEMENTS).expect("a placement");
    let budget = of(&["ClusterResourcePlacementDisruptionBudget"]);
    let available: Vec<bool> = serde_json::from_value(case["available"].clone()).expect("a list");
    let eviction = budget::eviction(placement, budget, &available).expect("objects that can be read");
    let got = json!({"evictionAllowed": eviction.allowed, "availablePlacements": eviction.available});
    compare(&case["expect"], &got)
}

fn staged(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let strategy = claimed(&repo, &["ClusterStagedUpdateStrategy", "StagedUpdateStrategy"]).next();
    let selected: Vec<String> = serde_json::from_value(case["selected"].clone()).expect("a list");
    let clusters = run::members(&repo);
    let picked: Vec<_> = clusters.iter().filter(|c| selected.iter().any(|s| **s == *c.name)).collect();
    let got = match staged::stages(strategy.expect("a strategy"), &picked) {
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

fn rollout(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let placement = claimed(&repo, &PLACEMENTS).next().expect("a placement");
    let rows: Vec<Row> = serde_json::from_value(case["bindings"].clone()).expect("rows");
    let now = case["now"].as_str().and_then(|now| now.parse().ok()).expect("a time");
    let got = match rolling::next(placement, &rows, now).expect("a placement that can be read") {
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

/// A list without an order of its own.
fn sorted(mut list: Value) -> Value {
    list.as_array_mut().expect("a list").sort_by_key(|v| crate::diff::normal(v).to_string());
    list
}
