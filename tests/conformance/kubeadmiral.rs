//! `KubeAdmiral`'s cases: placements, manifests, and why objects are not sent.

use std::collections::BTreeMap;

use federate_dialect::PreviousPlan;
use federate_dialect::{ControlPlaneAction, Placement, Plan, SyncOp};
use federate_engine::{Engine, EngineSettings};
use federate_kubernetes::{Cluster, ObjectRef};
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::{self, Ran, live, previous, run_with};

/// The statuses that cases record by cluster.
const PER_CLUSTER: [&str; 2] = ["ClusterNotReady", "ApplyOverridesFailed"];

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let (ran, ()) = run_case(case, |_, _| ());
    let want = &case["expect"];
    let mut got = Map::new();
    got.insert("placements".into(), rows(&ran, want));
    if want.get("manifests").is_some() {
        got.insert("manifests".into(), json!(ran.manifests));
    }
    if want.get("actions").is_some() {
        got.insert("actions".into(), actions(&ran));
    }
    compare(&sorted(want.clone()), &sorted(Value::Object(got)))
}

/// What is run of a case, and the plan that it started from.
struct RanCase {
    ran: Ran,
    previous: Plan,
}

impl std::ops::Deref for RanCase {
    type Target = Ran;

    fn deref(&self) -> &Ran {
        &self.ran
    }
}

fn run_case<T>(case: &Value, look: impl FnOnce(&Engine<'_>, &Plan) -> T) -> (RanCase, T) {
    let mut previous = previous(case);
    let mut settings = EngineSettings {
        strict_inventory: true,
        // The times in the cases are in the distant past or future.
        now: Some("2026-01-01T00:00:00Z".parse().expect("a time")),
        previous: PreviousPlan::new(previous.clone()),
        live: live(case),
        ..EngineSettings::default()
    };
    if let Some(applied) = case.get("applied") {
        previous = run_with(&applied["files"], &settings, Config::default(), |_, _| ()).0.plan;
        settings.previous = PreviousPlan::new(previous.clone());
    }
    let (ran, seen) = run_with(&case["files"], &settings, config(case), look);
    (RanCase { ran, previous }, seen)
}

/// The rows of the plan as cases have them.
fn rows(ran: &RanCase, want: &Value) -> Value {
    let before =
        |placement: &Placement| ran.previous.placements.iter().find(|row| row.object == placement.object);
    ran.plan.placements.iter().map(|placement| row(placement, before(placement), want)).collect()
}

/// The actions in each cluster, for cases with observed objects.
pub(crate) fn judge_actions(case: &Value) -> Result<(), String> {
    let live = live(case);
    let clusters = inventory(case);
    let (ran, actions) = run_case(case, |engine, plan| {
        let mut all = Vec::new();
        for placement in &plan.placements {
            for cluster in &clusters {
                let ObjectRef { kind, namespace, name, .. } = &placement.object;
                let group = placement.object.group();
                let there = live.get(&cluster.name, group, kind, namespace.as_deref(), name);
                let action = engine.reconcile_object(placement, cluster, there);
                all.extend(action.map(|action| (placement.object.clone(), cluster.name.to_string(), action)));
            }
        }
        all
    });
    let want = &case["expect"];
    let mut got = Map::new();
    for key in want.as_object().expect("a map").keys() {
        let value = match key.as_str() {
            "placements" => rows(&ran, want),
            "manifests" => sent(&actions),
            "actions" => done(&ran, &actions),
            "update" => json!(actions.iter().any(|(_, _, a)| matches!(a.op, SyncOp::Update(_)))),
            "status" => json!(actions.first().map(|(_, _, a)| a.status)),
            "decision" => actions.first().map_or(json!("skip"), |(_, _, a)| json!(decision(a))),
            "decisions" => decisions(&want["decisions"], &actions),
            other => return Err(format!("`{other}` is not verified")),
        };
        got.insert(key.clone(), value);
    }
    compare(&sorted(want.clone()), &sorted(Value::Object(got)))
}

type Acted = (ObjectRef, String, ControlPlaneAction);

fn inventory(case: &Value) -> Vec<Cluster> {
    let settings = EngineSettings { strict_inventory: true, ..EngineSettings::default() };
    run::clusters(&case["files"], &settings)
}

fn sent(actions: &[Acted]) -> Value {
    let mut manifests: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (_, cluster, action) in actions {
        if let SyncOp::Create(body) | SyncOp::Update(body) = &action.op {
            manifests.entry(cluster).or_default().push(body);
        }
    }
    json!(manifests)
}

fn op(action: &ControlPlaneAction) -> &'static str {
    match action.op {
        SyncOp::Create(_) => "create",
        SyncOp::Update(_) | SyncOp::Apply { .. } => "update",
        SyncOp::Delete(_) => "delete",
        SyncOp::Release(_) => "release",
        SyncOp::Nothing => "none",
    }
}

fn done(ran: &Ran, actions: &[Acted]) -> Value {
    let row = |object: &ObjectRef| {
        let own = actions.iter().filter(|(id, ..)| id == object);
        let clusters: Map<String, Value> = own
            .map(|(_, cluster, action)| (cluster.clone(), json!({"op": op(action), "status": action.status})))
            .collect();
        json!({"object": object, "clusters": clusters})
    };
    ran.plan.placements.iter().map(|p| row(&p.object)).collect()
}

fn decision(action: &ControlPlaneAction) -> &'static str {
    match (action.status, &action.op) {
        ("AlreadyExists", _) => "conflict",
        ("ManagedLabelFalse", _) => "unmanaged",
        (_, SyncOp::Update(_)) if action.adopts => "adopt",
        (_, SyncOp::Nothing) => "skip",
        _ => op(action),
    }
}

/// The actions by cluster, or by object and cluster if there are several objects.
fn decisions(want: &Value, actions: &[Acted]) -> Value {
    let nested = want.as_object().is_some_and(|map| map.values().any(Value::is_object));
    let mut got = Map::new();
    for (object, cluster, action) in actions {
        let words = json!(decision(action));
        if nested {
            let of = got.entry(format!("{}/{}", object.kind, object.name)).or_insert_with(|| json!({}));
            of[cluster] = words;
        } else {
            got.insert(cluster.clone(), words);
        }
    }
    Value::Object(got)
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

fn row(placement: &Placement, before: Option<&Placement>, want: &Value) -> Value {
    let clusters: Map<String, Value> =
        placement.clusters.iter().map(|p| (p.name.to_string(), json!(p.replicas))).collect();
    let mut row = json!({"object": placement.object, "clusters": clusters});
    let everywhere = placement.object.kind == "Namespace" && !placement.clusters.is_empty();
    match &placement.policy {
        Some(policy) => row["policy"] = json!(policy.to_string()),
        None if everywhere => row["policy"] = json!("namespace-auto-propagation"),
        None => {}
    }
    // The control plane states these in an Event when it schedules; a plan keeps them.
    let is_event = |reason: &str| ["NoClusterFits", "SchedulingDisabled"].contains(&reason);
    let acted = before.is_none_or(|before| {
        before.scheduler_state.get("trigger") != placement.scheduler_state.get("trigger")
    });
    if let Some(unschedulable) = placement.unschedulable.as_ref().filter(|u| acted || !is_event(&u.reason)) {
        row["unschedulable"] = json!(unschedulable.reason);
    }
    if !placement.required_by.is_empty() {
        let mut leaders: Vec<String> = placement.required_by.iter().map(ToString::to_string).collect();
        leaders.sort();
        row["follows"] = json!(leaders);
    }
    // Fields that the control plane sets differently from run to run.
    let same = |r: &&Value| r["object"] == row["object"];
    let asked = want["placements"].as_array().into_iter().flatten().find(same);
    if let Some(deferred) = placement
        .scheduler_state
        .get("deferred")
        .filter(|_| asked.is_some_and(|r| r.get("deferred").is_some()))
    {
        row["deferred"] = deferred.clone();
    }
    row
}

/// The actions about each object, by cluster.
fn actions(ran: &Ran) -> Value {
    let row = |placement: &Placement| {
        let held = |status: &str| PER_CLUSTER.contains(&status);
        let none = ran.not_sent.iter().filter(|(id, _, status)| *id == placement.object && held(status));
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

/// Sorts lists, and removes clusters that receive nothing.
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
