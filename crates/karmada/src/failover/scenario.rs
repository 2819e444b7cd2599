//! The loss of a cluster over time, for scenarios: the same rules as [`ControlPlane`](super::ControlPlane) over rows of a
//! plan in place of bindings.
//!
//! Facts: a push cluster is not ready after the threshold of failed probes, a pull cluster after its lease has expired.
//! Copies in other clusters count as healthy, so that a graceful eviction is done once everything is scheduled.

use federate_dialect::{Evictions, FailedOver, LossStep, Moment, Placement};
use federate_kubernetes::{Cluster, Condition, Object, Taint};
use federate_repo::{Repo, Role};
use jiff::{SignedDuration, Timestamp};

use super::taint_manager::{TolerationPeriod, tolerated};
use super::{Options, TaintPolicy};
use crate::capacity::taints::{self, ClusterTaint};
use crate::memory::{EVICTING, SchedulerMemory};
use crate::version::{Behaviour, NoExecute};
use crate::{Karmadas, NAME, defaults};

/// The seconds for which probes must fail (`--cluster-failure-threshold`).
const FAILURE_THRESHOLD: i64 = 30;
/// The seconds after which the lease of an agent has expired (`--cluster-monitor-grace-period`).
const GRACE_PERIOD: i64 = 40;

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// What happens to a cluster that cannot be reached.
pub(crate) fn loss(repo: &Repo, cluster: &Cluster, failover: bool) -> Vec<LossStep> {
    let options = Options { failover, ..Options::with(Behaviour::configured(&repo.config, NAME)) };
    let pulls = repo
        .claimed(NAME, Role::Inventory)
        .any(|object| object.id == cluster.id && object.text(&["spec", "syncMode"]) == "Pull");
    let (seconds, status) = if pulls { (GRACE_PERIOD, "Unknown") } else { (FAILURE_THRESHOLD, "False") };
    let mut ready = Condition::new("Ready", status, "ClusterNotReachable", "cluster is not reachable");
    ready.last_transition_time = Some(at(seconds));
    let mut all: Vec<ClusterTaint> = cluster.taints.iter().map(of_cluster).collect();
    taints::follow(&mut all, Some(&ready), at(seconds));
    if failover && options.behaviour.no_execute == NoExecute::OfUsers {
        for policy in policies(repo).iter().filter(|policy| policy.targets(cluster)) {
            policy.apply(std::slice::from_ref(&ready), &mut all, at(seconds));
        }
    }
    let mut steps = vec![step(cluster, seconds, &format!("Ready is {status}"), &all)];
    if options.adds_no_execute() {
        taints::follow_no_execute(&mut all, Some(&ready), true, at(seconds));
        let later = seconds + options.failover_eviction_timeout.as_secs();
        let before = steps.last().map_or_else(|| cluster.clone(), |step| step.cluster.clone());
        steps.push(step(&before, later, "it has not been ready for 5 minutes", &all));
    }
    steps
}

fn step(before: &Cluster, seconds: i64, why: &str, all: &[ClusterTaint]) -> LossStep {
    let taints: Vec<Taint> = all.iter().map(neutral).collect();
    let new = taints.iter().filter(|taint| !before.taints.contains(taint));
    let new: Vec<String> = new.map(|taint| format!(", taint {}:{}", taint.key, taint.effect)).collect();
    let what = format!("{}: {why}{}", before.name, new.concat());
    LossStep { seconds, what, cluster: Cluster { ready: false, taints, ..before.clone() } }
}

/// The taint policies of a repo, the oldest first.
fn policies(repo: &Repo) -> Vec<TaintPolicy> {
    let objects = repo.claimed(NAME, Role::Other);
    let is_policy =
        |object: &&Object| object.id.group() == "policy.karmada.io" && object.id.kind == "ClusterTaintPolicy";
    let mut policies: Vec<TaintPolicy> =
        objects.filter(is_policy).filter_map(|object| TaintPolicy::read(object).ok()).collect();
    policies.sort_by_key(TaintPolicy::created);
    policies
}

fn of_cluster(taint: &Taint) -> ClusterTaint {
    ClusterTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        ..ClusterTaint::default()
    }
}

fn neutral(taint: &ClusterTaint) -> Taint {
    Taint { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect.clone() }
}

/// Evicts a row from clusters whose taints it does not tolerate, and ends evictions that are done.
pub(crate) fn fail_over(
    plane: &Karmadas<'_>,
    row: &Placement,
    evicted: &Evictions,
    moment: &Moment<'_>,
) -> FailedOver {
    let mut done = FailedOver::default();
    let may_evict = || plane.evicting.iter().any(|cluster| row.clusters.has(&cluster.name));
    if !moment.failover || row.policy.is_none() || !(row.memory.contains_key(EVICTING) || may_evict()) {
        return done;
    }
    let mut memory = SchedulerMemory::of(&row.memory);
    end(row, &mut memory, (evicted, moment.seconds), &mut done);
    let applied = memory.applied_placement.as_ref();
    let applied = applied.and_then(|applied| defaults::placement(applied, &plane.behaviour));
    let tolerations = applied.map(|placement| placement.cluster_tolerations).unwrap_or_default();
    for cluster in plane.evicting.iter().filter(|cluster| row.clusters.has(&cluster.name)) {
        let taints: Vec<ClusterTaint> = (cluster.taints.iter())
            .filter(|taint| taint.effect == "NoExecute")
            .map(|t| ClusterTaint { time_added: Some(at((moment.since)(&cluster.name, t))), ..of_cluster(t) })
            .collect();
        match tolerated(&tolerations, &taints.iter().collect::<Vec<_>>()) {
            TolerationPeriod::Until(end) if at(moment.seconds) < end => done.wait(end.as_second()),
            TolerationPeriod::Forever => {}
            TolerationPeriod::None | TolerationPeriod::Until(_) => done.evicted.push(cluster.name.clone()),
        }
    }
    memory.evicting.extend(done.evicted.iter().map(ToString::to_string));
    if !done.evicted.is_empty() || !done.finished.is_empty() {
        let mut after = row.clone();
        after.clusters.retain(|placed| !done.evicted.contains(&placed.name));
        after.memory = memory.into_memory();
        done.placement = Some(after);
    }
    done
}

/// Ends the evictions that are replaced, or that have taken too long.
fn end(
    row: &Placement,
    memory: &mut SchedulerMemory,
    (evicted, seconds): (&Evictions, i64),
    done: &mut FailedOver,
) {
    let timeout = Options::default().graceful_eviction_timeout.as_secs();
    let replaced = row.unschedulable.is_none() && !row.clusters.is_empty();
    let mut waits = Vec::new();
    memory.evicting.retain(|cluster| {
        let Some((name, began)) = evicted.get_key_value(cluster.as_str()) else { return true };
        if replaced || seconds - began > timeout {
            done.finished.push(name.clone());
            return false;
        }
        waits.push(began + timeout + 1);
        true
    });
    for end in waits {
        done.wait(end);
    }
}
