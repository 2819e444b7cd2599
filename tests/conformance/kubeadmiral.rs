//! `KubeAdmiral`'s cases: placements, manifests, and what is not sent and why.

use federate::dialect::Placement;
use federate::engine::Settings;
use federate::repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::{Ran, live, previous, run_with};

/// Statuses that the cases tell of single clusters.
const PER_CLUSTER: [&str; 2] = ["ClusterNotReady", "ApplyOverridesFailed"];

pub(crate) fn judge(case: &Value) -> Result<(), String> {
    let mut settings = Settings {
        strict_inventory: true,
        // The cases' times are long past or far away.
        now: Some("2026-01-01T00:00:00Z".to_owned()),
        previous: previous(case),
        live: live(case),
        ..Settings::default()
    };
    if let Some(applied) = case.get("applied") {
        settings.previous = run_with(&applied["files"], &settings, Config::default(), |_, _| ()).0.plan;
    }
    let ran = run_with(&case["files"], &settings, config(case), |_, _| ()).0;
    let want = &case["expect"];
    let mut got = Map::new();
    got.insert("placements".into(), ran.plan.placements.iter().map(|p| row(p, want)).collect());
    if want.get("manifests").is_some() {
        got.insert("manifests".into(), json!(ran.manifests));
    }
    if want.get("actions").is_some() {
        got.insert("actions".into(), actions(&ran));
    }
    compare(&sorted(want.clone()), &sorted(Value::Object(got)))
}

/// The control plane's flags.
fn config(case: &Value) -> Config {
    let mut config = Config::default();
    if let Some(regex) = case.get("nsExcludeRegexp") {
        let flags = Map::from_iter([("excludeNamespaces".to_owned(), regex.clone())]);
        config.dialects.insert("kubeadmiral".to_owned(), flags);
    }
    config
}

fn row(placement: &Placement, want: &Value) -> Value {
    let clusters: Map<String, Value> =
        placement.clusters.iter().map(|p| (p.name.to_string(), json!(p.replicas))).collect();
    let mut row = json!({"object": placement.object, "clusters": clusters});
    let everywhere = placement.object.kind == "Namespace" && !placement.clusters.is_empty();
    match &placement.policy {
        Some(policy) => row["policy"] = json!(policy.to_string()),
        None if everywhere => row["policy"] = json!("namespace-auto-propagation"),
        None => {}
    }
    if let Some(unschedulable) = &placement.unschedulable {
        row["unschedulable"] = json!(unschedulable.reason);
    }
    if !placement.required_by.is_empty() {
        let mut leaders: Vec<String> = placement.required_by.iter().map(ToString::to_string).collect();
        leaders.sort();
        row["follows"] = json!(leaders);
    }
    // Left out of the cases where the control plane itself varies.
    let same = |r: &&Value| r["object"] == row["object"];
    let asked = want["placements"].as_array().into_iter().flatten().find(same);
    if let Some(deferred) =
        placement.memory.get("deferred").filter(|_| asked.is_some_and(|r| r.get("deferred").is_some()))
    {
        row["deferred"] = deferred.clone();
    }
    row
}

/// What is done about each object, by cluster.
fn actions(ran: &Ran) -> Value {
    let row = |placement: &Placement| {
        let held = |status: &str| PER_CLUSTER.contains(&status);
        let none = ran.withheld.iter().filter(|(id, _, status)| *id == placement.object && held(status));
        let mut clusters: Map<String, Value> = none
            .map(|(_, cluster, status)| (cluster.clone(), json!({"op": "none", "status": status})))
            .collect();
        for placed in &placement.clusters {
            let sent = ran.manifests.get(placed.name.as_ref()).into_iter().flatten().any(|m| {
                m["kind"] == json!(placement.object.kind)
                    && m["metadata"]["name"] == json!(placement.object.name)
                    && m["metadata"]["namespace"].as_str() == placement.object.namespace.as_deref()
            });
            if sent {
                clusters.insert(placed.name.to_string(), json!({"op": "create", "status": "OK"}));
            }
        }
        json!({"object": placement.object, "clusters": clusters})
    };
    ran.plan.placements.iter().map(row).collect()
}

/// Lists have no order of their own, and clusters that receive nothing need not be named.
fn sorted(mut expect: Value) -> Value {
    let by_text = |list: &mut Vec<Value>| list.sort_by_key(|v| crate::diff::normal(v).to_string());
    for key in ["placements", "actions"] {
        if let Some(list) = expect.get_mut(key).and_then(Value::as_array_mut) {
            by_text(list);
        }
    }
    if let Some(map) = expect.get_mut("manifests").and_then(Value::as_object_mut) {
        map.retain(|_, list| list.as_array().is_none_or(|l| !l.is_empty()));
        map.values_mut().filter_map(Value::as_array_mut).for_each(by_text);
    }
    expect
}
