//! Karmada's controllers of failover over a hub, until nothing changes.
//!
//! ```text
//! conditions ─► taints (of conditions, of ClusterTaintPolicies) ─► taint manager ─┐
//! health ─► application failover ─────────────────────────────────────────────────┴─► tasks ─► scheduler
//! ```

use std::collections::BTreeMap;

use federate_karmada::capacity::taints::{self, ClusterTaint};
use federate_karmada::failover::{FailoverOptions, TaintPolicy};
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{Cluster, Object};
use federate_repo::Config;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use federate_dialect::Dialect as _;
use federate_karmada::Karmada;

pub(crate) use binding::HubBinding;

mod application;
mod binding;

/// The most rounds of controllers at one point in time.
const MAX_ROUNDS: usize = 64;

/// How the control plane is configured.
#[derive(Clone, Debug)]
pub(crate) struct ModelOptions {
    pub(crate) rules: FailoverOptions,
    /// The gate `GracefulEviction`.
    pub(crate) graceful_eviction: bool,
}

/// A member cluster as the controllers know it.
#[derive(Clone, Debug)]
pub(crate) struct FailoverMember {
    object: Object,
    cluster: Cluster,
    conditions: Vec<Condition>,
    pub(crate) taints: Vec<ClusterTaint>,
    /// Whether its conditions have changed since the last round.
    changed: bool,
}

/// A control plane with its clusters and bindings.
#[derive(Clone, Debug)]
pub(crate) struct FailoverModel {
    options: ModelOptions,
    /// By name.
    pub(crate) members: Vec<FailoverMember>,
    policies: Vec<TaintPolicy>,
    pub(crate) bindings: Vec<HubBinding>,
}

/// The events at one point in time.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailoverReport {
    /// The clusters that bindings were evicted from.
    pub(crate) evicted: Vec<String>,
    /// When the next timer ends.
    pub(crate) next: Option<SignedDuration>,
}

impl FailoverMember {
    fn from_object(object: &Object) -> Self {
        Self {
            cluster: Karmada.read_cluster(object, true, &Config::default()).expect("a cluster"),
            conditions: read_list(object, &["status", "conditions"]),
            taints: read_list(object, &["spec", "taints"]),
            object: object.clone(),
            changed: true,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.cluster.name
    }

    /// Replaces its conditions.
    pub(crate) fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.changed |= self.conditions != conditions;
        self.conditions = conditions;
    }

    /// Adds a taint as a user does. `now` is its time, unless it has one.
    pub(crate) fn add_taint(&mut self, taint: ClusterTaint, now: Timestamp) {
        let time_added = taint.time_added.or(Some(now));
        taints::add_taint(&mut self.taints, ClusterTaint { time_added, ..taint });
    }

    /// Removes the taints with a key as a user does.
    pub(crate) fn remove_taints(&mut self, key: &str) {
        self.taints.retain(|taint| taint.key != key);
    }

    /// The cluster as the scheduler sees it.
    fn as_scheduled(&self) -> Value {
        let mut body = self.object.body.clone();
        body["spec"]["taints"] = json!(self.taints);
        body
    }
}

impl FailoverModel {
    /// A control plane with these objects: clusters, taint policies, bindings.
    pub(crate) fn new(objects: &[Object], options: ModelOptions) -> Self {
        let of_kind = |kind: &'static str| objects.iter().filter(move |object| object.id.kind == kind);
        let mut members: Vec<FailoverMember> = of_kind("Cluster").map(FailoverMember::from_object).collect();
        members.sort_by(|a, b| a.name().cmp(b.name()));
        let policies =
            of_kind("ClusterTaintPolicy").map(|object| TaintPolicy::from_object(object).expect("a policy"));
        let mut policies: Vec<TaintPolicy> = policies.collect();
        policies.sort_by_key(TaintPolicy::sort_key);
        let bindings = of_kind("ResourceBinding").chain(of_kind("ClusterResourceBinding"));
        Self { options, members, policies, bindings: bindings.map(HubBinding::from_object).collect() }
    }

    /// A cluster.
    pub(crate) fn member_mut(&mut self, name: &str) -> &mut FailoverMember {
        self.members.iter_mut().find(|member| member.name() == name).expect("a cluster")
    }

    /// Runs all controllers until nothing changes.
    pub(crate) fn run_until_stable(&mut self, now: Timestamp) -> FailoverReport {
        self.update_taints(now);
        let clusters: Vec<Value> = self.members.iter().map(FailoverMember::as_scheduled).collect();
        let taints: BTreeMap<&str, &[ClusterTaint]> =
            self.members.iter().map(|member| (member.name(), member.taints.as_slice())).collect();
        let mut report = FailoverReport::default();
        for binding in &mut self.bindings {
            for _ in 0..MAX_ROUNDS {
                let before = binding.clone();
                report.evicted.extend(binding.run_controllers(&self.options, &clusters, &taints, now));
                if *binding == before {
                    break;
                }
            }
            let next = binding.next_timer(&self.options.rules, &taints, now);
            report.next = report.next.into_iter().chain(next).min();
        }
        report
    }

    /// Updates the taints of all clusters.
    fn update_taints(&mut self, now: Timestamp) {
        for member in &mut self.members {
            let ready = condition::find_condition(&member.conditions, "Ready");
            taints::update_no_schedule(&mut member.taints, ready, now);
            if !std::mem::take(&mut member.changed) || !self.options.rules.follows_taint_policies() {
                continue;
            }
            for policy in self.policies.iter().filter(|policy| policy.targets_cluster(&member.cluster)) {
                policy.update_taints(&member.conditions, &mut member.taints, now);
            }
        }
    }
}

/// The list at a path of a cluster; empty if it is missing or null.
fn read_list<T: DeserializeOwned>(cluster: &Object, path: &[&str]) -> Vec<T> {
    let list = cluster.value_at(path).unwrap_or(&Value::Null);
    Option::deserialize(list).expect("a list").unwrap_or_default()
}
