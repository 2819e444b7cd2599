//! Cases of repos in two states, one after the other: where objects go, and what the members hold.

use std::collections::BTreeMap;

use federate_dialect::{Placement, Plan, PreviousPlan};
use federate_engine::EngineSettings;
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::{compare, normal};
use crate::run::{Ran, live, run_with};

/// The objects of each member, by kind, namespace and name.
type Members = BTreeMap<String, BTreeMap<String, Value>>;

/// Verifies a repo of `KubeAdmiral` after those that were applied before it.
pub(crate) fn verify_kubeadmiral(case: &Value) -> Result<(), String> {
    verify(case, "kubeadmiral")
}

/// Verifies a repo of `KubeFed` after those that were applied before it.
pub(crate) fn verify_kubefed(case: &Value) -> Result<(), String> {
    verify(case, "kubefed")
}

fn verify(case: &Value, dialect: &str) -> Result<(), String> {
    let mut plan = Plan::default();
    let mut members = Members::new();
    let states = match &case["applied"] {
        Value::Null => Vec::new(),
        Value::Array(states) => states.iter().collect(),
        state => vec![state],
    };
    let mut last = None;
    for state in states.into_iter().chain([case]) {
        let ran = run_state(state, plan);
        members = held_after(&ran, &members);
        plan = ran.plan.clone();
        last = Some(ran);
    }
    let ran = last.expect("a state");
    let want = &case["expect"];
    let ready = ready_members(&case["files"]);
    members.retain(|name, _| ready.contains(name));
    if want.get("placements").is_none() {
        // Only the one object is recorded.
        for objects in members.values_mut() {
            objects.retain(|key, _| !key.starts_with("Namespace "));
        }
        members.retain(|_, objects| !objects.is_empty());
    }
    let mut wanted = Map::new();
    let mut got = Map::new();
    for (key, want) in want.as_object().expect("a map") {
        let (want, value) = match key.as_str() {
            "placements" => (unordered(want.clone()), unordered(placements(&ran, want, dialect))),
            "manifests" => {
                let lists = members
                    .iter()
                    .map(|(name, objects)| (name.clone(), unordered(objects.values().cloned().collect())));
                let mut want = want.clone();
                want.as_object_mut().expect("a map").retain(|_, list| list != &json!([]));
                for list in want.as_object_mut().expect("a map").values_mut() {
                    *list = unordered(list.take());
                    list.as_array_mut().expect("a list").iter_mut().for_each(without_empty_maps);
                }
                let mut got: Value = lists.collect::<Map<_, _>>().into();
                for list in got.as_object_mut().expect("a map").values_mut() {
                    list.as_array_mut().expect("a list").iter_mut().for_each(without_empty_maps);
                }
                (want, got)
            }
            "absent" => {
                check_absence(want, &members)?;
                continue;
            }
            "waits" => {
                let waits =
                    ran.plan.placements.iter().filter(|row| row.scheduler_state.contains_key("pending"));
                (unordered(want.clone()), unordered(waits.map(|row| json!(row.object)).collect()))
            }
            other => return Err(format!("`{other}` is not verified")),
        };
        wanted.insert(key.clone(), want);
        got.insert(key.clone(), value);
    }
    compare(&Value::Object(wanted), &Value::Object(got))
}

fn run_state(state: &Value, previous: Plan) -> Ran {
    // Where a case has no time, its times are in the distant past or future.
    let now = state["now"].as_str().unwrap_or("2026-01-01T00:00:00Z");
    let settings = EngineSettings {
        strict_inventory: true,
        now: Some(now.parse().expect("a time")),
        previous: PreviousPlan::new(previous),
        live: live(state),
        ..EngineSettings::default()
    };
    run_with(&state["files"], &settings, Config::default(), |_, _| ()).0
}

/// What the members have after a rendering: what was rendered, and of objects that are held back what they had.
fn held_after(ran: &Ran, before: &Members) -> Members {
    let mut members = Members::new();
    for (cluster, objects) in &ran.manifests {
        let objects = objects.iter().map(|object| (key(object), object.clone()));
        members.entry(cluster.clone()).or_default().extend(objects);
    }
    for (object, cluster, _) in &ran.not_sent {
        let name =
            json!({"kind": object.kind, "metadata": {"namespace": object.namespace, "name": object.name}});
        let earlier = before.get(cluster).and_then(|objects| objects.get(&key(&name)));
        if let Some(earlier) = earlier {
            members.entry(cluster.clone()).or_default().entry(key(&name)).or_insert_with(|| earlier.clone());
        }
    }
    members.retain(|_, objects| !objects.is_empty());
    members
}

fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    format!("{} {namespace} {}", object["kind"].as_str().unwrap_or_default(), metadata["name"])
}

/// The members that can be looked at.
fn ready_members(files: &Value) -> Vec<String> {
    let settings = EngineSettings { strict_inventory: true, ..EngineSettings::default() };
    let clusters = crate::run::clusters(files, &settings);
    clusters.iter().filter(|c| c.joined && c.ready).map(|c| c.name.to_string()).collect()
}

/// The rows. Of `KubeFed` some are not recorded, and a number of replicas only where a preference decides it.
fn placements(ran: &Ran, want: &Value, dialect: &str) -> Value {
    let objects: Vec<&Value> = want.as_array().into_iter().flatten().map(|row| &row["object"]).collect();
    let recorded =
        |row: &&Placement| dialect != "kubefed" || objects.iter().any(|object| **object == json!(row.object));
    let row = |row: &Placement| {
        let clusters: Map<String, Value> =
            row.clusters.iter().map(|placed| (placed.name.to_string(), json!(placed.replicas))).collect();
        let mut got = json!({"object": row.object, "clusters": clusters});
        let asked = want.as_array().into_iter().flatten().find(|want| want["object"] == got["object"]);
        if asked.is_some_and(|want| want.get("deferred").is_some()) {
            got["deferred"] = row.scheduler_state.get("deferred").cloned().unwrap_or_default();
        }
        got
    };
    ran.plan.placements.iter().filter(recorded).map(row).collect()
}

fn check_absence(absent: &Value, members: &Members) -> Result<(), String> {
    for (cluster, references) in absent.as_object().expect("a map") {
        for reference in references.as_array().expect("a list") {
            let object = json!({"kind": reference["kind"], "metadata": reference});
            if members.get(cluster).is_some_and(|objects| objects.contains_key(&key(&object))) {
                return Err(format!("{cluster} has {reference}"));
            }
        }
    }
    Ok(())
}

/// The cases leave out empty maps.
fn without_empty_maps(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(without_empty_maps);
        map.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
}

fn unordered(mut list: Value) -> Value {
    list.as_array_mut().expect("a list").sort_by_key(|value| normal(value).to_string());
    list
}
