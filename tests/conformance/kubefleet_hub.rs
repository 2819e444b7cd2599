//! `KubeFleet`'s cases of a hub: runs of its scheduler, evictions, and members that leave.

use federate_engine::EngineSettings;
use federate_kubefleet::hub::{self, BindingState};
use federate_kubefleet::{KubeFleetBehaviour, failover, membership};
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::Config;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::models::member_deletion::{self, LeaveRequeue, LeavingMember, MemberNamespace};
use crate::models::placement_scheduler::{HubPlacement, ScheduledBinding, SchedulerRun};
use crate::run;

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn objects(value: &Value) -> Vec<Object> {
    list(value).iter().map(|body| Object::from_manifest(body.clone(), "hub")).collect()
}

fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).expect("a time")
}

/// Verifies the steps of a hub, each by itself.
pub(crate) fn scheduler(case: &Value) -> Result<(), String> {
    let name = case["placement"].as_str().expect("a name");
    for (index, step) in list(&case["steps"]).iter().enumerate() {
        let want = &case["expect"]["steps"][index];
        let in_step = |why: String| format!("step {index} ({}): {why}", step["what"]);
        scheduled(name, step, want).map_err(in_step)?;
    }
    Ok(())
}

fn scheduled(name: &str, step: &Value, want: &Value) -> Result<(), String> {
    let now = time(&step["at"]);
    let all = objects(&step["hub"]);
    let is_placement = |o: &&Object| o.id.kind == "ClusterResourcePlacement" && o.id.name == name;
    let placement = all.iter().find(is_placement).expect("the placement").id.clone();
    let run = HubPlacement::from_objects(&placement, &all).run_scheduler(now);
    planned_alike(&placement, &all, &run, step, now)?;
    let mut got = json!({"cycles": run.cycles, "bindings": null, "policySnapshotStatus": run.status});
    if !run.bindings.is_empty() {
        got["bindings"] = run.bindings.iter().map(binding).collect();
    }
    for condition in got["policySnapshotStatus"]["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().expect("an object").remove("observedGeneration");
    }
    if let Some(evictions) = step["evictions"].as_array() {
        let evicted: Vec<Value> = evictions.iter().map(|e| evicted(&placement, e, now)).collect();
        got["evictions"] = evicted.into();
    }
    compare(want, &got)
}

/// Checks that a plan with the hub's memory has the clusters of the scheduler.
fn planned_alike(
    placement: &ObjectRef,
    all: &[Object],
    run: &SchedulerRun,
    step: &Value,
    now: Timestamp,
) -> Result<(), String> {
    let plan = hub::read_plan(all).map_err(|e| e.to_string())?;
    let settings = EngineSettings {
        strict_inventory: true,
        now: Some(now),
        previous: federate_dialect::PreviousPlan::new(plan),
        ..EngineSettings::default()
    };
    let kinds = ["ClusterResourcePlacement", "MemberCluster"];
    let files: Vec<Value> =
        list(&step["hub"]).iter().filter(|o| kinds.iter().any(|kind| o["kind"] == *kind)).cloned().collect();
    let (ran, ()) = run::run_with(&files.into(), &settings, Config::default(), |_, _| ());
    let row = ran.plan.placements.iter().find(|row| row.object == *placement).ok_or("there is no row")?;
    let planned: Vec<String> = row.clusters.iter().map(|placed| placed.name.to_string()).collect();
    let bindings = run.bindings.iter().map(|binding| &binding.row);
    let used = bindings.filter(|row| !row.deleting && row.state != BindingState::Unscheduled);
    let kept: Vec<String> = used.map(|row| row.cluster.to_string()).collect();
    if planned == kept {
        return Ok(());
    }
    Err(format!("the plan over the hub's memory goes to {planned:?}, the scheduler to {kept:?}"))
}

fn binding(binding: &ScheduledBinding) -> Value {
    let ScheduledBinding { row, decision, finalizers } = binding;
    let state = |state: BindingState| format!("{state:?}");
    let mut value = json!({
        "cluster": *row.cluster,
        "state": state(row.state),
        "policySnapshot": row.policy_snapshot,
        "reason": decision.reason,
        "generation": row.generation,
    });
    if !finalizers.is_empty() {
        value["finalizers"] = json!(finalizers);
    }
    if let Some(score) = decision.score {
        value["scores"] = json!([score.affinity, score.topology]);
    }
    if let Some(previous) = row.previous_state {
        value["previousState"] = state(previous).into();
    }
    if row.deleting {
        value["deleting"] = true.into();
    }
    value
}

fn evicted(placement: &ObjectRef, case: &Value, now: Timestamp) -> Value {
    let all = objects(&case["hub"]);
    let eviction = Object::from_manifest(case["eviction"].clone(), "hub");
    let budget = (!case["budget"].is_null()).then(|| Object::from_manifest(case["budget"].clone(), "hub"));
    let bindings = hub::read_bindings(placement, &all).expect("bindings");
    let object = all.iter().find(|o| o.id == *placement);
    let evicted = failover::evict_placement(
        &eviction,
        object,
        &bindings,
        budget.as_ref(),
        now,
        &KubeFleetBehaviour::for_newest(),
    )
    .expect("an eviction");
    let mut value = json!({"status": {"conditions": evicted.conditions}});
    for condition in value["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().expect("an object").remove("observedGeneration");
    }
    value
}

/// Verifies a member that leaves.
pub(crate) fn leave(case: &Value) -> Result<(), String> {
    let wait = case["forceDeleteWaitTime"]
        .as_str()
        .and_then(federate_dialect::goduration::parse)
        .expect("a duration");
    // Scenarios do not run the cycle: they must read from the rule what the cycle comes to.
    for reachable in [true, false] {
        let (cycle, rule) =
            (member_deletion::time_until_gone(reachable, wait), membership::time_until_gone(reachable, wait));
        if cycle != rule {
            return Err(format!("reachable: {reachable}: gone after {cycle}, by the rule after {rule}"));
        }
    }
    let reporting = !list(&case["covers"]).iter().any(|cover| cover == "never-reported");
    let works = case["works"].as_u64().and_then(|works| usize::try_from(works).ok()).expect("a number");
    let first = time(&case["steps"][0]["at"]);
    let mut member = LeavingMember::new(case["cluster"].as_str().expect("a name"), works, reporting, first);
    let mut steps = Vec::new();
    for step in list(&case["steps"]) {
        let now = time(&step["at"]);
        match step["agent"].as_str() {
            Some("reconciles") => member.run_agent(None, now),
            Some("fails to leave") => member.run_agent(Some("works are left"), now),
            _ => {}
        }
        if step["namespaceGone"] == true {
            member.remove_namespace();
        }
        let next = member.reconcile_hub(wait, now);
        steps.push(leaving(&member, &next));
    }
    compare(&case["expect"], &json!({"steps": steps}))
}

fn leaving(member: &LeavingMember, next: &LeaveRequeue) -> Value {
    let namespace = match member.namespace {
        MemberNamespace::Present => "present",
        MemberNamespace::Terminating(_) => "terminating",
        MemberNamespace::Gone => "gone",
    };
    let mut value = json!({
        "memberCluster": if member.gone { "gone" } else { "present" },
        "namespace": namespace,
        "works": {"there": member.works, "withFinalizer": member.held_works},
    });
    match next {
        LeaveRequeue::Event => {}
        LeaveRequeue::After(wait) => value["requeueAfter"] = duration(*wait),
        LeaveRequeue::Error(why) => value["error"] = why.as_str().into(),
    }
    if !member.gone {
        let conditions = member.conditions.iter().map(|c| {
            let condition = json!({
                "status": c.status, "reason": c.reason, "lastTransitionTime": c.last_transition_time
            });
            (c.kind.clone(), condition)
        });
        value["conditions"] = conditions.collect::<Map<String, Value>>().into();
        value["agentStatus"] = json!(member.agent_status.as_ref().map(|agent| [agent]));
        value["internalMemberCluster"] = if member.requested { "Leave" } else { "Join" }.into();
    }
    value
}

pub(crate) fn duration(wait: SignedDuration) -> Value {
    federate_dialect::goduration::format_duration(wait).into()
}
