//! `KubeFleet`'s cases of whole repos, most of them in two states, one after the other: what admission refuses, where
//! placements go, and what the members hold.

use std::collections::BTreeSet;

use federate_dialect::{Plan, PreviousPlan};
use federate_engine::EngineSettings;
use federate_kubernetes::Severity;
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::{compare, normal};
use crate::run::{Ran, previous, run_with};

/// Verifies a repo after those that were applied before it, each of which was rolled out.
pub(crate) fn verify(case: &Value) -> Result<(), String> {
    verify_states(case, roll_out)
}

/// Verifies a repo after those that were applied before it, of which none was rolled out.
pub(crate) fn verify_pending(case: &Value) -> Result<(), String> {
    verify_states(case, |plan| plan)
}

fn verify_states(case: &Value, between: impl Fn(Plan) -> Plan) -> Result<(), String> {
    let mut plan = previous(case);
    for state in states(&case["applied"]) {
        plan = between(run_state(state, case, plan).plan);
    }
    let ran = run_state(case, case, plan);
    let want = &case["expect"];
    let mut got = Map::new();
    let mut wanted = Map::new();
    for (key, want) in want.as_object().expect("a map") {
        let (want, got_value) = match key.as_str() {
            "refused" => (references(want), refused(&ran)),
            "placements" => (unordered(want.clone()), unordered(placements(&ran, want))),
            "manifests" => (received(want.clone()), received(manifests(&ran, want))),
            "absent" => {
                check_absence(want, &ran)?;
                continue;
            }
            // Explanations.
            _ => continue,
        };
        wanted.insert(key.clone(), want);
        got.insert(key.clone(), got_value);
    }
    let refused = refused(&ran);
    let mut refused = refused.as_array().expect("a list").iter();
    let is_placement = |object: &&Value| object["kind"].as_str().is_some_and(is_placement);
    match refused.find(is_placement) {
        Some(object) if want.get("refused").is_none() => {
            return Err(format!("unexpected refusal of {object}"));
        }
        _ => {}
    }
    compare(&Value::Object(wanted), &Value::Object(got))
}

/// The states of a repo that were applied before.
fn states(applied: &Value) -> Vec<&Value> {
    match applied {
        Value::Null => Vec::new(),
        Value::Array(states) => states.iter().collect(),
        state => vec![state],
    }
}

fn run_state(state: &Value, case: &Value, previous: Plan) -> Ran {
    let now = state["now"].as_str().or(case["now"].as_str());
    let settings = EngineSettings {
        strict_inventory: true,
        now: now.map(|now| now.parse().expect("a time")),
        previous: PreviousPlan::new(previous),
        ..EngineSettings::default()
    };
    let mut config = Config::default();
    if let Some(version) = case.get("version") {
        let settings = Map::from_iter([("version".to_owned(), version.clone())]);
        config.dialects.insert("kubefleet".to_owned(), settings);
    }
    run_with(&state["files"], &settings, config, |_, _| ()).0
}

/// A plan after all of it was rolled out: each picked cluster has its resources, and other clusters have none.
fn roll_out(plan: Plan) -> Plan {
    let mut plan = serde_json::to_value(plan).expect("a plan is JSON");
    for row in plan["placements"].as_array_mut().expect("a list") {
        if let Some(bindings) = row["memory"]["bindings"].as_array_mut() {
            bindings.retain(|binding| binding["state"] != "Unscheduled");
            for binding in bindings {
                binding["state"] = "Bound".into();
            }
        }
    }
    serde_json::from_value(plan).expect("a plan")
}

/// References without upstream's words.
fn references(list: &Value) -> Value {
    let reference = |entry: &Value| {
        let fields = ["apiVersion", "kind", "namespace", "name"].into_iter();
        fields.filter_map(|key| Some((key.to_owned(), entry.get(key)?.clone()))).collect::<Map<_, _>>()
    };
    unordered(list.as_array().expect("a list").iter().map(reference).collect())
}

/// The objects that admission refuses.
fn refused(ran: &Ran) -> Value {
    let is_refusal = |code: &str| matches!(code, "invalid-policy" | "invalid-override" | "refused-update");
    let refusals = ran.findings.iter().filter(|f| f.severity == Severity::Error && is_refusal(f.code));
    let objects: BTreeSet<String> = refusals.map(|f| json!(f.object).to_string()).collect();
    unordered(objects.iter().map(|text| serde_json::from_str::<Value>(text).expect("JSON")).collect())
}

fn is_placement(kind: &str) -> bool {
    kind == "ClusterResourcePlacement" || kind == "ResourcePlacement"
}

/// The rows of the placements that are expected, and of all others.
fn placements(ran: &Ran, want: &Value) -> Value {
    let rows = ran.plan.placements.iter().filter(|row| is_placement(&row.object.kind));
    let row = |row: &federate_dialect::Placement| {
        let clusters: Map<String, Value> =
            row.clusters.iter().map(|placed| (placed.name.to_string(), json!(placed.replicas))).collect();
        let mut got = json!({"object": row.object, "clusters": clusters});
        let same = |wanted: &&Value| wanted["object"] == got["object"];
        let asked = want.as_array().into_iter().flatten().find(same).cloned().unwrap_or_default();
        if asked.get("states").is_some() {
            let bindings = row.scheduler_state["bindings"].as_array().expect("a list");
            let state = |b: &Value| (b["cluster"].as_str().expect("a name").to_owned(), b["state"].clone());
            let counted = bindings.iter().filter(|binding| binding["state"] != "Unscheduled");
            got["states"] = counted.map(state).collect::<Map<_, _>>().into();
        }
        if asked.get("unschedulable").is_some() {
            got["unschedulable"] = json!(row.unschedulable.as_ref().map(|why| &why.reason));
        }
        got
    };
    rows.map(row).collect()
}

/// The manifests of the clusters that are expected, and of all others.
fn manifests(ran: &Ran, want: &Value) -> Value {
    let mut all: Map<String, Value> =
        want.as_object().expect("a map").keys().map(|name| (name.clone(), json!([]))).collect();
    all.extend(ran.manifests.iter().map(|(cluster, list)| (cluster.clone(), json!(list))));
    all.into()
}

/// Sorts the objects of each cluster, and leaves out clusters without objects.
fn received(mut manifests: Value) -> Value {
    let clusters = manifests.as_object_mut().expect("a map");
    clusters.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
    for list in clusters.values_mut() {
        *list = unordered(list.take());
    }
    manifests
}

fn check_absence(absent: &Value, ran: &Ran) -> Result<(), String> {
    for (cluster, references) in absent.as_object().expect("a map") {
        for reference in references.as_array().expect("a list") {
            let is = |object: &&Value| {
                object["kind"] == reference["kind"]
                    && object["metadata"]["name"] == reference["name"]
                    && object["metadata"].get("namespace") == reference.get("namespace")
            };
            if ran.manifests.get(cluster).into_iter().flatten().any(|object| is(&object)) {
                return Err(format!("{cluster} has {reference}"));
            }
        }
    }
    Ok(())
}

fn unordered(mut list: Value) -> Value {
    list.as_array_mut().expect("a list").sort_by_key(|value| normal(value).to_string());
    list
}
