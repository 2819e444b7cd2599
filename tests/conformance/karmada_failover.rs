//! Karmada's cases of failover over time.

use federate_karmada::capacity::taints::ClusterTaint;
use federate_karmada::failover::FailoverOptions;
use federate_kubernetes::Condition;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::diff::compare;
use crate::karmada_capacity::{list, objects, seconds};
use crate::models::failover::{FailoverModel, FailoverReport, HubBinding, ModelOptions};

/// The taints and bindings at each point in time.
pub(crate) fn failover(case: &Value) -> Result<(), String> {
    let start: Timestamp = case["now"].as_str().and_then(|now| now.parse().ok()).expect("a time");
    let mut plane = FailoverModel::new(&objects(&case["files"]), options(&case["flags"]));
    for (index, step) in list(&case["timeline"]).iter().enumerate() {
        let now = start + seconds(&step["at"]);
        change(&mut plane, step, now);
        let report = plane.run_until_stable(now);
        compare(&case["expect"]["states"][index], &state(&plane, &report, &step["at"]))
            .map_err(|why| format!("at {}: {why}", step["at"]))?;
    }
    Ok(())
}

fn options(flags: &Value) -> ModelOptions {
    let gate = |name: &str, default: bool| flags["featureGates"][name].as_bool().unwrap_or(default);
    let mut options = FailoverOptions::default();
    options.failover = gate("Failover", true);
    options.stateful_failover = gate("StatefulFailoverInjection", false);
    options.taint_eviction = flags["enableNoExecuteTaintEviction"] == true;
    if let Some(mode) = flags["noExecuteTaintEvictionPurgeMode"].as_str() {
        mode.clone_into(&mut options.taint_purge_mode);
    }
    if let Some(seconds) = flags["gracefulEvictionTimeout"].as_i64() {
        options.graceful_eviction_timeout = SignedDuration::from_secs(seconds);
    }
    ModelOptions { rules: options, graceful_eviction: gate("GracefulEviction", true) }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Applies the events of a step.
fn change(plane: &mut FailoverModel, step: &Value, now: Timestamp) {
    for (cluster, conditions) in entries(&step["conditions"]) {
        let conditions: Vec<Condition> = list(conditions)
            .iter()
            .map(|condition| Condition::deserialize(condition).expect("a condition"))
            .collect();
        plane.member_mut(cluster).set_conditions(conditions);
    }
    for (cluster, taints) in entries(&step["addTaints"]) {
        for taint in list(taints) {
            let taint = ClusterTaint::deserialize(taint).expect("a taint");
            plane.member_mut(cluster).add_taint(taint, now);
        }
    }
    for (cluster, keys) in entries(&step["removeTaints"]) {
        for key in list(keys) {
            plane.member_mut(cluster).remove_taints(key.as_str().expect("a key"));
        }
    }
    for binding in &mut plane.bindings {
        for (cluster, health) in entries(&step["health"]) {
            match health.as_str() {
                Some("") => drop(binding.state.reported.remove(cluster)),
                health => {
                    let health = health.expect("a health").to_owned();
                    binding.state.reported.entry(cluster.clone()).or_default().health = health;
                }
            }
        }
        for (cluster, status) in entries(&step["status"]) {
            if let Some(reported) = binding.state.reported.get_mut(cluster) {
                reported.status = Some(status.clone());
            }
        }
        if let Some(suppress) = step["suppressDeletion"].as_bool() {
            binding.state.tasks.iter_mut().for_each(|task| task.suppress_deletion = Some(suppress));
        }
    }
}

fn state(plane: &FailoverModel, report: &FailoverReport, at: &Value) -> Value {
    let taints: Map<String, Value> =
        plane.members.iter().map(|member| (member.name().to_owned(), json!(member.taints))).collect();
    let mut state = json!({"at": at, "taints": taints});
    if !plane.bindings.is_empty() {
        let bindings = plane.bindings.iter().map(|one| (one.id.to_string(), binding(one)));
        state["bindings"] = bindings.collect::<Map<_, _>>().into();
    }
    if !report.evicted.is_empty() {
        let mut evicted = report.evicted.clone();
        evicted.sort();
        state["evicted"] = json!(evicted);
    }
    if let Some(next) = report.next {
        state["nextIn"] = next.as_secs().into();
    }
    state
}

fn binding(binding: &HubBinding) -> Value {
    let clusters = binding.state.clusters.iter().map(|(name, replicas)| (name.clone(), json!(replicas)));
    let mut value = json!({"clusters": clusters.collect::<Map<_, _>>()});
    if !binding.state.tasks.is_empty() {
        value["gracefulEvictionTasks"] = json!(binding.state.tasks);
    }
    if let Some(affinity) = &binding.affinity {
        value["affinity"] = json!(affinity);
    }
    if let Some(unschedulable) = &binding.unschedulable {
        value["unschedulable"] = json!(unschedulable);
    }
    value
}
