//! `KubeFed`'s cases of actions in member clusters, given observed objects: retained fields, adoption, drift,
//! and the progress of deletions.

use federate_dialect::{ControlPlaneAction, DeletionProgress, DeletionState, Placement, Plan, SyncOp};
use federate_engine::EngineSettings;
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::run::{self, live, run_with};

/// The actions of one object, by cluster.
type Acted = Vec<(String, ControlPlaneAction)>;

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let want = &case["expect"];
    let live = live(case);
    let settings = EngineSettings { strict_inventory: true, live: live.clone(), ..EngineSettings::default() };
    let clusters = run::clusters(&case["files"], &settings);
    let (ran, (acted, deletion)) = run_with(&case["files"], &settings, Config::default(), |engine, plan| {
        let row = about(plan);
        let act = |name: &str| {
            let cluster = clusters.iter().find(|c| c.name.as_ref() == name)?;
            let id = &row.object;
            let there = live.get(name, id.group(), &id.kind, id.namespace.as_deref(), &id.name);
            Some((name.to_owned(), engine.reconcile_object(row, cluster, there)?))
        };
        let acted: Acted = clusters.iter().filter_map(|c| act(&c.name)).collect();
        let explained = engine.explain_placement(&row.object, plan);
        (acted, explained.and_then(|explained| explained.deletion_progress))
    });
    let row = about(&ran.plan);
    let mut got = Map::new();
    for key in want.as_object().expect("a map").keys() {
        let value = match key.as_str() {
            "placements" => json!([placement(row, &acted)]),
            "manifests" => manifests(&acted),
            "actions" => clusters.iter().map(|c| (c.name.to_string(), action(&c.name, &acted))).collect(),
            "finalizerRemoved" | "result" => {
                progress(deletion.expect("an object that is being deleted"))[key].clone()
            }
            other => return Err(format!("`{other}` is not verified")),
        };
        got.insert(key.clone(), value);
    }
    compare(&without_empty(want.clone()), &without_empty(Value::Object(got)))
}

/// The row of a case: the only one besides that of its namespace.
fn about(plan: &Plan) -> &Placement {
    let mut rows = plan.placements.iter();
    rows.find(|row| row.object.kind != "Namespace").or(plan.placements.first()).expect("a row")
}

fn placement(row: &Placement, acted: &Acted) -> Value {
    let clusters: Map<String, Value> =
        row.clusters.iter().map(|p| (p.name.to_string(), json!(p.replicas))).collect();
    let policy = row.policy.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut value = json!({"object": row.object, "policy": policy, "clusters": clusters});
    if let Some(unschedulable) = &row.unschedulable {
        value["unschedulable"] = json!(unschedulable.reason);
    }
    let placed = acted.iter().filter(|(name, a)| clusters.contains_key(name) && a.status != "OK");
    let statuses: Map<String, Value> = placed.map(|(name, a)| (name.clone(), json!(a.status))).collect();
    if !statuses.is_empty() {
        value["clusterStatus"] = statuses.into();
    }
    value
}

fn manifests(acted: &Acted) -> Value {
    let body = |action: &ControlPlaneAction| match &action.op {
        SyncOp::Create(body) | SyncOp::Update(body) | SyncOp::Release(body) => Some(body.clone()),
        SyncOp::Apply { .. } | SyncOp::Delete(_) | SyncOp::Nothing => None,
    };
    let sent = acted.iter().filter_map(|(name, action)| Some((name.clone(), json!([body(action)?]))));
    sent.collect::<Map<_, _>>().into()
}

fn action(cluster: &str, acted: &Acted) -> Value {
    let Some((_, action)) = acted.iter().find(|(name, _)| name == cluster) else {
        return json!({"op": "none"});
    };
    let op = match &action.op {
        SyncOp::Create(_) => "create",
        SyncOp::Update(_) | SyncOp::Apply { .. } => "update",
        SyncOp::Release(_) => "remove-managed-label",
        SyncOp::Delete(_) => "delete",
        SyncOp::Nothing => "none",
    };
    let mut value = json!({"op": op});
    if action.status != "OK" {
        value["status"] = json!(action.status);
    }
    if let SyncOp::Delete(options) = &action.op
        && !options.is_empty()
    {
        value["options"] = json!(options);
    }
    value
}

fn progress(progress: DeletionProgress) -> Value {
    let result = match progress.state {
        DeletionState::Done => "done",
        DeletionState::Waiting => "recheck",
        DeletionState::Failed => "error",
    };
    json!({"finalizerRemoved": progress.finalizer_removed, "result": result})
}

/// Removes clusters that receive nothing.
fn without_empty(mut expect: Value) -> Value {
    if let Some(map) = expect.get_mut("manifests").and_then(Value::as_object_mut) {
        map.retain(|_, list| list.as_array().is_none_or(|l| !l.is_empty()));
    }
    expect
}
