//! The loss of a cluster over time, for scenarios: each row of a plan is a binding, which the taint manager evicts.
//!
//! Facts: a push cluster is not ready after the threshold of failed probes, a pull cluster after its lease has expired.
//! Copies in other clusters count as healthy, so that a graceful eviction is done once everything is scheduled.

use std::collections::BTreeMap;

use federate_dialect::{Evictions, FailoverOutcome, OutageStep, Placement, ScenarioMoment};
use federate_kubernetes::{Cluster, Condition, Taint};
use federate_repo::{Repo, Role};
use jiff::{SignedDuration, Timestamp};

use super::{EvictionTask, FailoverOptions, ResourceBinding, TaintPolicy};
use crate::capacity::readiness::{ConditionThresholds, GracePeriods, lose_agent, lose_endpoint};
use crate::capacity::taints::{self, ClusterTaint};
use crate::state::{EVICTING, KarmadaState};
use crate::version::KarmadaBehaviour;
use crate::{KarmadaPlanner, NAME};

fn timestamp_at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// What happens to a cluster that cannot be reached.
pub(crate) fn simulate_outage(repo: &Repo, cluster: &Cluster, failover: bool) -> Vec<OutageStep> {
    let options = FailoverOptions {
        failover,
        ..FailoverOptions::for_behaviour(KarmadaBehaviour::from_config(&repo.config, NAME))
    };
    let pulls = repo
        .claimed_objects(NAME, Role::Inventory)
        .any(|object| object.id == cluster.id && object.text_at(&["spec", "syncMode"]) == "Pull");
    let (after, condition) = if pulls {
        lose_agent(GracePeriods::default())
    } else {
        lose_endpoint(ConditionThresholds::default())
    };
    let seconds = after.as_secs();
    let ready = Condition { last_transition_time: Some(timestamp_at(seconds)), ..condition };
    let mut all: Vec<ClusterTaint> = cluster.taints.iter().map(ClusterTaint::from).collect();
    taints::update_no_schedule(&mut all, Some(&ready), timestamp_at(seconds));
    if options.follows_taint_policies() {
        for policy in read_taint_policies(repo).iter().filter(|policy| policy.targets_cluster(cluster)) {
            policy.update_taints(std::slice::from_ref(&ready), &mut all, timestamp_at(seconds));
        }
    }
    let mut steps = vec![build_step(cluster, seconds, &format!("Ready is {}", ready.status), &all)];
    if options.adds_no_execute() {
        taints::update_no_execute(&mut all, Some(&ready), true, timestamp_at(seconds));
        let later = seconds + options.failover_eviction_timeout.as_secs();
        let before = steps.last().map_or_else(|| cluster.clone(), |step| step.cluster.clone());
        steps.push(build_step(&before, later, "it has not been ready for 5 minutes", &all));
    }
    steps
}

fn build_step(before: &Cluster, seconds: i64, why: &str, all: &[ClusterTaint]) -> OutageStep {
    let taints: Vec<Taint> = all.iter().map(Taint::from).collect();
    let new = taints.iter().filter(|taint| !before.taints.contains(taint));
    let new: Vec<String> = new.map(|taint| format!(", taint {}:{}", taint.key, taint.effect)).collect();
    let what = format!("{}: {why}{}", before.name, new.concat());
    OutageStep { seconds, what, cluster: Cluster { ready: false, taints, ..before.clone() } }
}

/// The taint policies of a repo, the oldest first.
fn read_taint_policies(repo: &Repo) -> Vec<TaintPolicy> {
    let objects = repo
        .claimed_objects(NAME, Role::Other)
        .filter(|object| object.id.group() == "policy.karmada.io" && object.id.kind == "ClusterTaintPolicy");
    let mut policies: Vec<TaintPolicy> =
        objects.filter_map(|object| TaintPolicy::from_object(object).ok()).collect();
    policies.sort_by_key(TaintPolicy::sort_key);
    policies
}

/// Evicts a row from clusters whose taints it does not tolerate, and ends evictions that are done, as the controllers do
/// with its binding.
pub(crate) fn fail_over(
    plane: &KarmadaPlanner<'_>,
    row: &Placement,
    evicted: &Evictions,
    moment: &ScenarioMoment<'_>,
) -> FailoverOutcome {
    let mut done = FailoverOutcome::default();
    if !moment.failover || row.policy.is_none() {
        return done;
    }
    let mut evicting = plane.evicting.iter();
    if !row.scheduler_state.contains_key(EVICTING)
        && !evicting.any(|cluster| row.clusters.contains_cluster(&cluster.name))
    {
        return done;
    }
    let options = FailoverOptions {
        failover: true,
        taint_eviction: true,
        ..FailoverOptions::for_behaviour(plane.behaviour)
    };
    let now = timestamp_at(moment.seconds);
    let mut state = KarmadaState::from_scheduler_state(&row.scheduler_state);
    let mut tasks = Vec::new();
    for cluster in &state.evicting {
        let Some((name, began)) = evicted.get_key_value(cluster.as_str()) else { continue };
        let mode = if row.withdrawn.contains(name) { options.taint_purge_mode.as_str() } else { "Directly" };
        tasks.push(EvictionTask {
            from_cluster: cluster.clone(),
            purge_mode: mode.to_owned(),
            creation_timestamp: Some(timestamp_at(*began)),
            ..EvictionTask::default()
        });
    }
    let failover = plane.find_policy(row).and_then(|policy| policy.spec.failover.clone()).unwrap_or_default();
    let mut binding =
        ResourceBinding::from_row(row, state.applied_placement.as_deref().cloned(), failover, tasks);
    let before = binding.tasks.clone();
    binding.assess_tasks(&options, now);
    let finished = before.iter().filter(|task| !binding.is_evicting(&task.from_cluster));
    done.finished = finished.map(|task| task.from_cluster.as_str().into()).collect();
    if let Some(left) = binding.next_task(&options, now) {
        // The time is over a moment after its end.
        done.wait_until(moment.seconds + left.as_secs() + 1);
    }
    let taints: BTreeMap<&str, Vec<ClusterTaint>> = (plane.evicting.iter())
        .filter(|cluster| row.clusters.contains_cluster(&cluster.name))
        .map(|cluster| (cluster.name.as_ref(), taints_at(cluster, moment)))
        .collect();
    let taints = taints.iter().map(|(cluster, taints)| (*cluster, taints.as_slice())).collect();
    done.evicted =
        binding.evict_tainted(&options, &taints, now).iter().map(|name| name.as_str().into()).collect();
    if let Some(left) = binding.next_taint(&options, &taints, now) {
        done.wait_until(moment.seconds + left.as_secs());
    }
    if done.evicted.is_empty() && done.finished.is_empty() {
        return done;
    }
    for name in &done.evicted {
        if binding.tasks.iter().any(|task| *task.from_cluster == **name && task.purges_directly()) {
            done.purged.push(name.clone());
        }
    }
    state.evicting.retain(|cluster| !done.finished.iter().any(|finished| **finished == **cluster));
    state.evicting.extend(done.evicted.iter().map(ToString::to_string));
    let mut after = row.clone();
    after.clusters.retain(|placed| !done.evicted.contains(&placed.name));
    after.withdrawn.retain(|cluster| !done.finished.contains(cluster));
    after.withdrawn.extend(done.evicted.iter().filter(|cluster| !done.purged.contains(cluster)).cloned());
    after.withdrawn.sort();
    after.scheduler_state = state.into_scheduler_state();
    done.placement = Some(after);
    done
}

/// The taints of a cluster that may evict, each with the time since when it is there.
fn taints_at(cluster: &Cluster, moment: &ScenarioMoment<'_>) -> Vec<ClusterTaint> {
    let taints = cluster.taints.iter().filter(|taint| taint.effect == "NoExecute");
    taints
        .map(|taint| ClusterTaint {
            time_added: Some(timestamp_at((moment.since)(&cluster.name, taint))),
            ..ClusterTaint::from(taint)
        })
        .collect()
}
