//! Clusters in trouble over time: taints, evictions, rescheduling, graceful removal.
//!
//! ```text
//! conditions ─► taints (of conditions, of ClusterTaintPolicies) ─► taint manager ─┐
//! health ─► application failover ─────────────────────────────────────────────────┴─► tasks ─► scheduler
//! ```
//!
//! Facts: by default nothing of this moves anything: the gate `Failover` is off, and so is eviction by taints.
//! What is evicted is taken out of the schedule at once, and stays in its cluster until its task is done.

use std::collections::BTreeMap;

use federate_kubernetes::{Cluster, Condition, Finding, Object};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::capacity::taints::{self, ClusterTaint};
use crate::cluster;

mod application;
pub mod binding;
mod json_path;
mod policy;
mod reschedule;
mod taint_manager;
mod tasks;

pub use binding::{Binding, EvictionTask, Status};
pub use policy::TaintPolicy;

/// How often controllers are run at one point in time before they count as settled.
const ROUNDS: usize = 64;

/// How the control plane is configured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The gate `Failover`.
    pub failover: bool,
    /// The gate `GracefulEviction`.
    pub graceful_eviction: bool,
    /// The gate `StatefulFailoverInjection`.
    pub stateful_failover: bool,
    /// Whether taints evict (`--enable-no-execute-taint-eviction`).
    pub taint_eviction: bool,
    /// How taints evict where the binding does not say (`--no-execute-taint-eviction-purge-mode`).
    pub taint_purge_mode: String,
    /// How long a graceful eviction may take.
    pub graceful_eviction_timeout: SignedDuration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            failover: false,
            graceful_eviction: true,
            stateful_failover: false,
            taint_eviction: false,
            taint_purge_mode: "Gracefully".to_owned(),
            graceful_eviction_timeout: SignedDuration::from_mins(10),
        }
    }
}

/// A member cluster as the controllers know it.
#[derive(Clone, Debug)]
pub struct Member {
    /// What the scheduler knows of it; its taints are those below.
    cluster: Cluster,
    conditions: Vec<Condition>,
    taints: Vec<ClusterTaint>,
    /// Whether its conditions are news.
    changed: bool,
}

/// A control plane with its clusters and bindings.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    options: Options,
    members: Vec<Member>,
    policies: Vec<TaintPolicy>,
    /// The bindings.
    pub bindings: Vec<Binding>,
}

/// What happened at one point in time.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The clusters that bindings were evicted from, each with the number of the binding.
    pub evicted: Vec<(usize, String)>,
    /// When the next timer ends.
    pub next: Option<SignedDuration>,
}

impl Member {
    fn read(object: &Object) -> Result<Self, Finding> {
        let list = |path: &[&str]| object.at(path).filter(|list| !list.is_null());
        let unreadable = |e: serde_json::Error| Finding::error("invalid-cluster", object, e.to_string());
        let conditions = list(&["status", "conditions"]).map_or(Ok(Vec::new()), Vec::deserialize);
        let taints = list(&["spec", "taints"]).map_or(Ok(Vec::new()), Vec::deserialize);
        Ok(Self {
            cluster: cluster::read(object, true)?,
            conditions: conditions.map_err(unreadable)?,
            taints: taints.map_err(unreadable)?,
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

    /// Its conditions are replaced.
    pub fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.changed |= self.conditions != conditions;
        self.conditions = conditions;
    }

    /// A taint is added by hand; it is there since `now`, unless it says otherwise.
    pub fn add_taint(&mut self, taint: ClusterTaint, now: Timestamp) {
        let time_added = taint.time_added.or(Some(now));
        taints::add(&mut self.taints, ClusterTaint { time_added, ..taint });
    }

    /// The taints of a key are removed by hand.
    pub fn remove_taints(&mut self, key: &str) {
        self.taints.retain(|taint| taint.key != key);
    }
}

impl ControlPlane {
    /// A control plane with these objects: clusters, taint policies, bindings.
    pub fn new(objects: &[Object], options: Options) -> Result<Self, Finding> {
        let of = |kind: &'static str| objects.iter().filter(move |object| object.id.kind == kind);
        let unreadable =
            |object: &Object, e: serde_json::Error| Finding::error("invalid-policy", object, e.to_string());
        let mut members = of("Cluster").map(Member::read).collect::<Result<Vec<_>, _>>()?;
        members.sort_by(|a, b| a.cluster.name.cmp(&b.cluster.name));
        let policies = of("ClusterTaintPolicy").map(|o| TaintPolicy::read(o).map_err(|e| unreadable(o, e)));
        let mut policies = policies.collect::<Result<Vec<_>, _>>()?;
        policies.sort_by_key(TaintPolicy::created);
        let bindings = of("ResourceBinding").chain(of("ClusterResourceBinding"));
        let bindings = bindings.map(|o| Binding::read(o).map_err(|e| unreadable(o, e)));
        Ok(Self { options, members, policies, bindings: bindings.collect::<Result<_, _>>()? })
    }

    /// The clusters, by name.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A cluster.
    pub fn member(&mut self, name: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.name() == name)
    }

    /// Runs all controllers until nothing changes.
    pub fn settle(&mut self, now: Timestamp) -> Report {
        self.taint(now);
        let clusters: Vec<Cluster> = self.members.iter().map(schedulable).collect();
        let taints: BTreeMap<&str, &[ClusterTaint]> =
            self.members.iter().map(|member| (member.name(), member.taints.as_slice())).collect();
        let mut report = Report::default();
        for (number, binding) in self.bindings.iter_mut().enumerate() {
            for _ in 0..ROUNDS {
                let before = binding.clone();
                let evicted = binding.run(&self.options, &clusters, &taints, now);
                report.evicted.extend(evicted.into_iter().map(|cluster| (number, cluster)));
                if *binding == before {
                    break;
                }
            }
            report.next =
                [report.next, binding.next(&self.options, &taints, now)].into_iter().flatten().min();
        }
        report
    }

    /// Brings the taints of all clusters up to date.
    fn taint(&mut self, now: Timestamp) {
        for member in &mut self.members {
            let ready = federate_kubernetes::condition::find(&member.conditions, "Ready");
            taints::follow(&mut member.taints, ready, now);
            if !std::mem::take(&mut member.changed) || !self.options.failover {
                continue;
            }
            for policy in self.policies.iter().filter(|policy| policy.targets(&member.cluster)) {
                policy.apply(&member.conditions, &mut member.taints, now);
            }
        }
    }
}

/// What the scheduler sees of a cluster.
fn schedulable(member: &Member) -> Cluster {
    let taint = |taint: &ClusterTaint| federate_kubernetes::Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
    };
    Cluster { taints: member.taints.iter().map(taint).collect(), ..member.cluster.clone() }
}
