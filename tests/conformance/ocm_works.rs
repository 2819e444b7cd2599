//! Open Cluster Management's cases of works: the rule of rollouts, reconciliations of sets of works, and the order in
//! which an agent applies manifests.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::rollout::{ClusterUpdate, UpdateState};
use federate_kubernetes::{Object, ObjectRef};
use federate_ocm::agent::{ManifestStep, plan_work};
use federate_ocm::hub::{DecisionGroup, HubRun};
use federate_ocm::member::{AgentWrite, WorkOwner, list_writes};
use federate_ocm::rollout::decide_rollout;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::models::work_replica_set::{self, SetReconciliation, WorkOperation, WorkSummary};
use crate::ocm::with_hub;

/// Evaluations enough for the placements of a case.
const MAX_EVALUATIONS: usize = 400;

/// The states of clusters, as the hub names them.
const STATES: [(&str, UpdateState); 6] = [
    ("ToApply", UpdateState::Pending),
    ("Progressing", UpdateState::Updating),
    ("Succeeded", UpdateState::Updated),
    ("Failed", UpdateState::Failed),
    ("TimeOut", UpdateState::TimedOut),
    ("Skip", UpdateState::Skipped),
];

fn now(case: &Value) -> Timestamp {
    case["now"].as_str().expect("a time").parse().expect("a time")
}

/// Verifies the rule of rollouts alone.
pub(crate) fn rollout_step(case: &Value) -> Result<(), String> {
    let rollout = &case["rollout"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let groups: Vec<DecisionGroup> = list(&rollout["groups"])
        .iter()
        .map(|group| DecisionGroup {
            name: group["name"].as_str().unwrap_or_default().to_owned(),
            clusters: list(&group["clusters"])
                .iter()
                .map(|name| name.as_str().expect("a name").into())
                .collect(),
        })
        .collect();
    let state_of = |name: &Value| STATES.into_iter().find(|(known, _)| name == known).expect("a state").1;
    let existing: Vec<ClusterUpdate> = list(&rollout["existing"])
        .iter()
        .map(|one| ClusterUpdate {
            cluster: one["cluster"].as_str().expect("a name").into(),
            state: state_of(&one["status"]),
            since: one["since"].as_str().map(|time| time.parse().expect("a time")),
        })
        .collect();
    let want = &case["expect"];
    let decided = match decide_rollout(&rollout["strategy"], &groups, &existing, now(case)) {
        Ok(decided) => decided,
        Err(_) if want.get("error").is_some() => return Ok(()),
        Err(error) => return Err(format!("unexpected error: {error}")),
    };
    let name_of = |state| STATES.into_iter().find(|(_, known)| *known == state).expect("a state").0;
    let pairs = |updates: &[ClusterUpdate]| -> Value {
        updates.iter().map(|one| json!([one.cluster, name_of(one.state)])).collect()
    };
    let decision = &decided.decision;
    let mut got = json!({
        "toRollout": pairs(&decision.active),
        "timeOut": pairs(&decision.timed_out),
        "removed": pairs(&decided.removed),
        "maxFailureBreach": decision.is_breached,
    });
    if let Some(recheck) = decision.recheck {
        got["recheckAfterSeconds"] = seconds(recheck);
    }
    compare(want, &got)
}

fn seconds(duration: SignedDuration) -> Value {
    json!(duration.as_secs_f64())
}

/// Verifies one reconciliation of each set of works.
pub(crate) fn replica_set(case: &Value) -> Result<(), String> {
    with_hub(case, |hub| {
        let run = hub.run(false, MAX_EVALUATIONS);
        let placements: Map<String, Value> =
            run.placements.iter().map(|one| (one.object.namespaced_name(), json!(one.clusters))).collect();
        let want = &case["expect"];
        compare(&want["placements"], &placements.into())?;
        let works: Vec<Object> = case["works"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|work| Object::from_manifest(work.clone(), "works"))
            .collect();
        for want in want["workReplicaSets"].as_array().into_iter().flatten() {
            let id: ObjectRef = serde_json::from_value(want["object"].clone()).expect("an object");
            let set = find_set(&case["files"], &id);
            let done = work_replica_set::reconcile(&set, &run.placements, &works, now(case))?;
            let mut want = want.clone();
            if let Some(actions) = want["actions"].as_array_mut() {
                actions.sort_by_key(|action| {
                    [&action["cluster"], &action["placement"]].map(ToString::to_string)
                });
            }
            compare(&want, &describe_set(&set, &done, &works))?;
        }
        Ok(())
    })
}

fn find_set(files: &Value, id: &ObjectRef) -> Object {
    let all = files.as_array().into_iter().flatten().map(|file| Object::from_manifest(file.clone(), "files"));
    all.into_iter().find(|object| object.id == *id).expect("the set is among the files")
}

fn describe_set(set: &Object, done: &SetReconciliation, works: &[Object]) -> Value {
    let template = &set.body["spec"]["manifestWorkTemplate"];
    let mut actions: Vec<Value> = done
        .actions
        .iter()
        .map(|action| {
            let mut row =
                json!({"action": action.operation.name(), "cluster": action.cluster, "placement": action.placement});
            if action.operation == WorkOperation::Create {
                row["generateName"] = json!(set.id.name);
                row["labels"] = json!(action.labels);
                row["manifests"] = template["workload"]["manifests"].clone();
                for key in ["deleteOption", "manifestConfigs", "executor"] {
                    if template.get(key).is_some() {
                        row[key] = with_defaults(key, &template[key]);
                    }
                }
            } else {
                row["name"] = json!(action.name);
            }
            row
        })
        .collect();
    actions.sort_by_key(|action| [&action["cluster"], &action["placement"]].map(ToString::to_string));
    let mut held: BTreeSet<(String, String)> = works
        .iter()
        .filter(|work| {
            let own = format!("{}.{}", set.id.namespace.as_deref().unwrap_or_default(), set.id.name);
            work.label("work.open-cluster-management.io/manifestworkreplicaset") == Some(&own)
        })
        .map(|work| (work.id.namespace.clone().unwrap_or_default(), work.id.name.clone()))
        .collect();
    for action in &done.actions {
        let key = (action.cluster.to_string(), action.name.clone());
        match action.operation {
            WorkOperation::Delete => held.remove(&key),
            WorkOperation::Create | WorkOperation::Update => held.insert(key),
        };
    }
    let clusters: Map<String, Value> = held.into_iter().map(|(cluster, _)| (cluster, Value::Null)).collect();
    let mut row = json!({"object": set.id, "actions": actions, "clusters": clusters});
    if let Some(is_gone) = done.is_gone {
        if is_gone {
            row["finalizerRemoved"] = true.into();
        }
        return row;
    }
    row["status"] = json!({
        "conditions": conditions(done),
        "summary": summary(&done.summary),
        "placementSummary": done.placements.as_ref().map(|placements| {
            let rows = placements.iter().map(|one| {
                json!({"name": one.name, "availableDecisionGroups": one.progress, "summary": summary(&one.summary)})
            });
            rows.collect::<Vec<_>>()
        }),
    });
    if let Some(recheck) = done.recheck {
        row["recheckAfterSeconds"] = seconds(recheck);
    }
    row
}

/// A part of a template as a hub stores it.
fn with_defaults(key: &str, value: &Value) -> Value {
    let mut value = value.clone();
    if key == "deleteOption" && value.get("propagationPolicy").is_none() {
        value["propagationPolicy"] = "Foreground".into();
    }
    if key == "manifestConfigs" {
        for config in value.as_array_mut().into_iter().flatten() {
            if config.get("feedbackScrapeType").is_none() {
                config["feedbackScrapeType"] = "Poll".into();
            }
            if let Some(strategy) = config.get_mut("updateStrategy") {
                if strategy.get("type").is_none() {
                    strategy["type"] = "Update".into();
                }
                if let Some(apply) = strategy.get_mut("serverSideApply")
                    && apply.get("fieldManager").is_none()
                {
                    apply["fieldManager"] = "work-agent".into();
                }
            }
        }
    }
    value
}

fn conditions(done: &SetReconciliation) -> Value {
    let rows = done.conditions.iter().map(|(kind, is_true, reason)| {
        let status = if *is_true { "True" } else { "False" };
        ((*kind).to_owned(), json!({"status": status, "reason": reason}))
    });
    rows.collect::<Map<_, _>>().into()
}

fn summary(summary: &WorkSummary) -> Value {
    let WorkSummary { total, applied, available, degraded, progressing } = *summary;
    json!({
        "total": total, "applied": applied, "available": available, "degraded": degraded,
        "progressing": progressing, "desiredTotal": 0, "updated": 0,
    })
}

/// Verifies the rounds of a rollout.
pub(crate) fn rollout(case: &Value) -> Result<(), String> {
    with_hub(case, |hub| {
        let run = hub.run(false, MAX_EVALUATIONS);
        let mut decisions = Map::new();
        for placement in &run.placements {
            let records = placement.records();
            let rows = records.iter().map(|record| {
                json!({"index": record.group.to_string(), "group": record.group_name, "clusters": record.clusters})
            });
            decisions.insert(placement.object.namespaced_name(), rows.collect());
        }
        compare(&case["expect"]["decisions"], &decisions.into())?;
        roll_out(case, &run)
    })
}

/// A work on the hub, and when it was last written.
struct WrittenWork {
    body: Value,
    round: u64,
    at: Timestamp,
}

fn roll_out(case: &Value, run: &HubRun) -> Result<(), String> {
    let set = |body: &Value| Object::from_manifest(body.clone(), "files");
    let files = case["files"].as_array().into_iter().flatten();
    let mut current = files.map(set).find(|one| one.id.kind == "ManifestWorkReplicaSet").expect("a set");
    let step = SignedDuration::from_secs(case["stepSeconds"].as_i64().expect("seconds"));
    let mut works: BTreeMap<String, WrittenWork> = BTreeMap::new();
    let mut now = now(case);
    for (round, want) in (1_u64..).zip(case["expect"]["rounds"].as_array().expect("rounds")) {
        for change in case["changes"].as_array().into_iter().flatten() {
            if change["round"].as_u64() == Some(round - 1) {
                current = set(&change["manifestWorkReplicaSet"]);
            }
        }
        let on_hub: Vec<Object> =
            works.values().map(|work| Object::from_manifest(work.body.clone(), "works")).collect();
        let done = work_replica_set::reconcile(&current, &run.placements, &on_hub, now)?;
        let mut actions: Vec<Value> = done
            .actions
            .iter()
            .map(|action| json!({"action": action.operation.name(), "cluster": action.cluster}))
            .collect();
        actions.sort_by_key(|action| action["cluster"].to_string());
        let mut got =
            json!({"actions": actions, "conditions": conditions(&done), "summary": summary(&done.summary)});
        if let Some(recheck) = done.recheck {
            got["recheckAfterSeconds"] = seconds(recheck);
        }
        let mut want = want.clone();
        if let Some(actions) = want["actions"].as_array_mut() {
            actions.sort_by_key(|action| action["cluster"].to_string());
        }
        compare(&want, &got).map_err(|why| format!("round {round}:\n{why}"))?;
        for action in &done.actions {
            let cluster = action.cluster.to_string();
            if action.operation == WorkOperation::Delete {
                works.remove(&cluster);
                continue;
            }
            let before = works.get(&cluster);
            let generation =
                before.and_then(|work| work.body["metadata"]["generation"].as_i64()).unwrap_or(0) + 1;
            let mut body = json!({
                "apiVersion": "work.open-cluster-management.io/v1",
                "kind": "ManifestWork",
                "metadata": {
                    "name": current.id.name,
                    "namespace": cluster,
                    "generation": generation,
                    "labels": {
                        "work.open-cluster-management.io/manifestworkreplicaset":
                            format!("{}.{}", current.id.namespace.as_deref().unwrap_or_default(), current.id.name),
                        "work.open-cluster-management.io/placementname": action.placement,
                    },
                },
                "spec": current.body["spec"]["manifestWorkTemplate"],
            });
            if let Some(status) = before.and_then(|work| work.body.get("status")) {
                body["status"] = status.clone();
            }
            works.insert(cluster, WrittenWork { body, round, at: now });
        }
        for (cluster, work) in &mut works {
            answer(work, &case["outcomes"][cluster], round, now);
        }
        now += step;
    }
    Ok(())
}

/// Sets the conditions of a work as its member answers after a round.
fn answer(work: &mut WrittenWork, outcome: &Value, round: u64, now: Timestamp) {
    let after = outcome["afterRounds"].as_u64().unwrap_or(0);
    let result = outcome["result"].as_str().unwrap_or("succeed");
    let is_over = round - work.round >= after;
    let conditions: Vec<(&str, &str)> = match (is_over, result) {
        (_, "silent") if is_over => return,
        (false, _) => vec![("Applied", "True"), ("Progressing", "True")],
        (true, "fail") => {
            vec![("Applied", "True"), ("Available", "False"), ("Progressing", "True"), ("Degraded", "True")]
        }
        (true, "slow") => vec![("Applied", "True"), ("Progressing", "True")],
        (true, _) => vec![("Applied", "True"), ("Available", "True"), ("Progressing", "False")],
    };
    let generation = work.body["metadata"]["generation"].clone();
    let since = |kind: &str| {
        // What progresses does so since it was written.
        if kind == "Progressing" && result != "succeed" || !is_over { work.at } else { now }
    };
    let old = work.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let rows = conditions.iter().map(|(kind, status)| {
        let kept = old.iter().find(|one| {
            one["type"] == *kind && one["status"] == *status && one["observedGeneration"] == generation
        });
        let time =
            kept.map_or_else(|| json!(since(kind).to_string()), |one| one["lastTransitionTime"].clone());
        json!({"type": kind, "status": status, "observedGeneration": generation, "lastTransitionTime": time})
    });
    work.body["status"] = json!({"conditions": rows.collect::<Vec<_>>()});
}

/// Verifies the order in which an agent applies the manifests of a work, and how it applies each. The words about an
/// expression that cannot be read are those of another parser.
pub(crate) fn order(case: &Value) -> Result<(), String> {
    let work = Object::from_manifest(case["files"][0].clone(), "files");
    let (steps, unserved) = plan_work(&work, |object| object.kind != "Gadget")?;
    let mut got: Vec<Value> = steps.iter().map(ManifestStep::describe).collect();
    got.extend(unserved.iter().map(|one| json!({"index": one.index, "error": one.error})));
    let mut want = case["expect"]["order"].clone();
    for row in want.as_array_mut().into_iter().flatten().chain(&mut got) {
        if row.get("ignoreError").is_some() {
            row["ignoreError"] = true.into();
        }
    }
    compare(&want, &got.into())
}

/// Verifies what the agent of a member writes for a manifest. Of hashes only the presence is compared.
pub(crate) fn apply(case: &Value) -> Result<(), String> {
    let work = Object::from_manifest(case["files"][0].clone(), "files");
    let (steps, _) = plan_work(&work, |_| true)?;
    let step = steps.first().ok_or("the work has no manifest")?;
    let owner = WorkOwner {
        name: "0b1c2d3e-work-1".to_owned(),
        uid: "5a0e7e2e-0000-4000-8000-000000000001".to_owned(),
    };
    let manifest = &work.body["spec"]["workload"]["manifests"][0];
    let live = Some(&case["observed"]).filter(|live| !live.is_null());
    let writes = list_writes(step, manifest, &owner, live);
    let mut got: Vec<Value> = writes
        .into_iter()
        .map(|write| match write {
            AgentWrite::Create(object) => json!({"verb": "create", "object": object}),
            AgentWrite::Update(object) => json!({"verb": "update", "object": object}),
            AgentWrite::Delete => json!({"verb": "delete"}),
            AgentWrite::Apply(body) => json!({"verb": "apply", "body": body}),
            AgentWrite::Patch(body) => json!({"verb": "patch", "body": body}),
        })
        .collect();
    let mut want = case["expect"]["writes"].clone();
    for row in want.as_array_mut().into_iter().flatten().chain(&mut got) {
        for part in ["object", "body"] {
            for key in ["operator.openshift.io/spec-hash", "open-cluster-management.io/config-spec-hash"] {
                let pointer = format!("/{part}/metadata/annotations/{}", key.replace('/', "~1"));
                if let Some(hash) = row.pointer_mut(&pointer) {
                    *hash = true.into();
                }
            }
        }
    }
    compare(&want, &got.into())
}
