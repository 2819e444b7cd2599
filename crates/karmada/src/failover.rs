//! Failing clusters over time: taints, evictions, rescheduling, graceful removal.
//!
//! ```text
//! conditions ─► taints (of conditions, of ClusterTaintPolicies) ─► taint manager ─┐
//! health ─► application failover ─────────────────────────────────────────────────┴─► tasks ─► scheduler
//! ```
//!
//! Facts: by default this moves nothing: the gate `Failover` and eviction by taints are off.
//! An evicted workload leaves the schedule at once, and stays in its cluster until its task is done. Before 1.14
//! the control plane itself adds `NoExecute` taints; `docs/semantics/karmada-versions.md` §5 has what releases differ in.

use std::collections::BTreeMap;

use federate_kubernetes::{Cluster, Condition, Finding, Object, Taint};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::capacity::taints::{self, ClusterTaint};
use crate::cluster;
use crate::version::{KarmadaBehaviour, NoExecute, RELEASES};
use federate_dialect::Release;

mod application;
pub mod binding;
mod json_path;
mod policy;
mod rescheduling;
pub(crate) mod scenario;
mod taint_manager;
mod tasks;

pub use binding::{EvictionTask, ReportedStatus, ResourceBinding};
pub use policy::TaintPolicy;
pub(crate) use policy::TaintPolicySpec;

/// The most rounds of controllers at one point in time.
const MAX_ROUNDS: usize = 64;

/// How the control plane is configured.
#[derive(Clone, Debug)]
pub struct FailoverOptions {
    /// The gate `Failover`.
    pub failover: bool,
    /// The gate `GracefulEviction`.
    pub graceful_eviction: bool,
    /// The gate `StatefulFailoverInjection`.
    pub stateful_failover: bool,
    /// Whether taints evict (`--enable-no-execute-taint-eviction`).
    pub taint_eviction: bool,
    /// The purge mode of evictions by taints where the binding has none (`--no-execute-taint-eviction-purge-mode`).
    pub taint_purge_mode: String,
    /// How long a graceful eviction may take.
    pub graceful_eviction_timeout: SignedDuration,
    /// How long a cluster may be not ready before releases up to 1.13 taint it with `NoExecute`
    /// (`--failover-eviction-timeout`).
    pub failover_eviction_timeout: SignedDuration,
    pub(super) behaviour: KarmadaBehaviour,
}

impl FailoverOptions {
    /// The defaults of a release.
    pub fn for_release(release: Release) -> Self {
        Self::for_behaviour(KarmadaBehaviour::for_release(release))
    }

    fn for_behaviour(behaviour: KarmadaBehaviour) -> Self {
        Self {
            failover: false,
            graceful_eviction: true,
            stateful_failover: false,
            taint_eviction: false,
            taint_purge_mode: behaviour.graceful_purge().to_owned(),
            graceful_eviction_timeout: SignedDuration::from_mins(10),
            failover_eviction_timeout: SignedDuration::from_mins(5),
            behaviour,
        }
    }

    /// Whether `NoExecute` taints evict.
    fn taints_evict(&self) -> bool {
        let always = self.behaviour.no_execute == NoExecute::OfControlPlane;
        self.failover && (self.taint_eviction || always)
    }
}

impl Default for FailoverOptions {
    /// The defaults of the newest release.
    fn default() -> Self {
        Self::for_release(RELEASES.find_latest())
    }
}

/// A member cluster as the controllers know it.
#[derive(Clone, Debug)]
pub struct FailoverMember {
    /// The cluster for the scheduler; its taints are those below.
    cluster: Cluster,
    conditions: Vec<Condition>,
    taints: Vec<ClusterTaint>,
    /// Whether its conditions have changed since the last round.
    changed: bool,
}

/// A control plane with its clusters and bindings.
#[derive(Clone, Debug)]
pub struct FailoverModel {
    options: FailoverOptions,
    members: Vec<FailoverMember>,
    policies: Vec<TaintPolicy>,
    /// The bindings.
    pub bindings: Vec<ResourceBinding>,
}

/// The events at one point in time.
#[derive(Clone, Debug, Default)]
pub struct FailoverReport {
    /// The clusters that bindings were evicted from, each with the number of the binding.
    pub evicted: Vec<(usize, String)>,
    /// When the next timer ends.
    pub next: Option<SignedDuration>,
}

impl FailoverMember {
    fn from_object(object: &Object) -> Result<Self, Finding> {
        Ok(Self {
            cluster: cluster::read_cluster(object, true)?,
            conditions: read_list(object, &["status", "conditions"])?,
            taints: read_list(object, &["spec", "taints"])?,
            changed: true,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.cluster.name
    }

    /// Its taints.
    pub fn taints(&self) -> &[ClusterTaint] {
        &self.taints
    }

    /// Replaces its conditions.
    pub fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.changed |= self.conditions != conditions;
        self.conditions = conditions;
    }

    /// Adds a taint as a user does. `now` is its time, unless it has one.
    pub fn add_taint(&mut self, taint: ClusterTaint, now: Timestamp) {
        let time_added = taint.time_added.or(Some(now));
        taints::add_taint(&mut self.taints, ClusterTaint { time_added, ..taint });
    }

    /// Removes the taints with a key as a user does.
    pub fn remove_taints(&mut self, key: &str) {
        self.taints.retain(|taint| taint.key != key);
    }
}

impl FailoverModel {
    /// A control plane with these objects: clusters, taint policies, bindings.
    pub fn new(objects: &[Object], options: FailoverOptions) -> Result<Self, Finding> {
        let mut members =
            with_kind(objects, "Cluster").map(FailoverMember::from_object).collect::<Result<Vec<_>, _>>()?;
        members.sort_by(|a, b| a.cluster.name.cmp(&b.cluster.name));
        let mut policies = Vec::new();
        for object in with_kind(objects, "ClusterTaintPolicy") {
            policies.push(TaintPolicy::from_object(object).map_err(|error| invalid_policy(object, &error))?);
        }
        policies.sort_by_key(TaintPolicy::sort_key);
        let mut bindings = Vec::new();
        for object in
            with_kind(objects, "ResourceBinding").chain(with_kind(objects, "ClusterResourceBinding"))
        {
            bindings
                .push(ResourceBinding::from_object(object).map_err(|error| invalid_policy(object, &error))?);
        }
        Ok(Self { options, members, policies, bindings })
    }

    /// The clusters, by name.
    pub fn members(&self) -> &[FailoverMember] {
        &self.members
    }

    /// A cluster.
    pub fn member_mut(&mut self, name: &str) -> Option<&mut FailoverMember> {
        self.members.iter_mut().find(|member| member.name() == name)
    }

    /// Runs all controllers until nothing changes.
    pub fn run_until_stable(&mut self, now: Timestamp) -> FailoverReport {
        self.update_taints(now);
        let clusters: Vec<Cluster> = self.members.iter().map(to_scheduler_cluster).collect();
        let taints: BTreeMap<&str, &[ClusterTaint]> =
            self.members.iter().map(|member| (member.name(), member.taints.as_slice())).collect();
        let mut report = FailoverReport::default();
        for (number, binding) in self.bindings.iter_mut().enumerate() {
            for _ in 0..MAX_ROUNDS {
                let before = binding.clone();
                let evicted = binding.run_controllers(&self.options, &clusters, &taints, now);
                report.evicted.extend(evicted.into_iter().map(|cluster| (number, cluster)));
                if *binding == before {
                    break;
                }
            }
            report.next =
                [report.next, binding.next_timer(&self.options, &taints, now)].into_iter().flatten().min();
        }
        let timers = self.members.iter().filter_map(|member| self.options.until_no_execute(member, now));
        report.next = report.next.into_iter().chain(timers).min();
        report
    }

    /// Updates the taints of all clusters.
    fn update_taints(&mut self, now: Timestamp) {
        for member in &mut self.members {
            let ready = federate_kubernetes::condition::find_condition(&member.conditions, "Ready");
            taints::update_no_schedule(&mut member.taints, ready, now);
            if self.options.adds_no_execute() {
                let due = self.options.no_execute_at(ready).is_some_and(|at| now > at);
                taints::update_no_execute(&mut member.taints, ready, due, now);
            }
            let policies_apply =
                self.options.failover && self.options.behaviour.no_execute == NoExecute::OfUsers;
            if !std::mem::take(&mut member.changed) || !policies_apply {
                continue;
            }
            for policy in self.policies.iter().filter(|policy| policy.targets_cluster(&member.cluster)) {
                policy.update_taints(&member.conditions, &mut member.taints, now);
            }
        }
    }
}

impl FailoverOptions {
    /// Whether the control plane itself adds `NoExecute` taints.
    fn adds_no_execute(&self) -> bool {
        self.failover && self.behaviour.no_execute == NoExecute::OfControlPlane
    }

    /// When a cluster has not been ready for too long.
    fn no_execute_at(&self, ready: Option<&Condition>) -> Option<Timestamp> {
        let since = ready.filter(|ready| !ready.is_true())?.last_transition_time?;
        since.checked_add(self.failover_eviction_timeout).ok()
    }

    /// The time until then.
    fn until_no_execute(&self, member: &FailoverMember, now: Timestamp) -> Option<SignedDuration> {
        let ready = federate_kubernetes::condition::find_condition(&member.conditions, "Ready");
        let at = self.no_execute_at(ready).filter(|_| self.adds_no_execute())?;
        Some(at.duration_since(now)).filter(|left| !left.is_negative())
    }
}

/// A cluster as the scheduler sees it.
fn to_scheduler_cluster(member: &FailoverMember) -> Cluster {
    let taints = member.taints.iter().map(Taint::from).collect();
    Cluster { taints, ..member.cluster.clone() }
}

fn with_kind<'o>(objects: &'o [Object], kind: &'static str) -> impl Iterator<Item = &'o Object> {
    objects.iter().filter(move |object| object.id.kind == kind)
}

/// The list at a path of a cluster; empty if it is missing or null.
fn read_list<T: DeserializeOwned>(cluster: &Object, path: &[&str]) -> Result<Vec<T>, Finding> {
    let Some(list) = cluster.value_at(path).filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    Vec::deserialize(list).map_err(|error| Finding::error("invalid-cluster", cluster, error.to_string()))
}

fn invalid_policy(object: &Object, error: &serde_json::Error) -> Finding {
    Finding::error("invalid-policy", object, error.to_string())
}

#[cfg(test)]
mod tests;
