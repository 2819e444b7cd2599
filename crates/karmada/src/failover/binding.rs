//! A `ResourceBinding` as the controllers of failover read and write it.

use std::collections::BTreeMap;

use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Cluster, Object, ObjectRef};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Options;
use crate::capacity::taints::ClusterTaint;
use crate::hub::APPLIED_PLACEMENT;
use crate::workload::{Requirements, Workload};

/// A binding.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The binding itself.
    pub id: ObjectRef,
    /// The template.
    pub resource: ObjectRef,
    /// Decides ties.
    pub(super) uid: String,
    /// Where it is scheduled to, with its replicas; `None` for what has none.
    pub clusters: Vec<(String, Option<i64>)>,
    /// Where it is being removed from.
    pub tasks: Vec<EvictionTask>,
    /// The affinity group that was taken last.
    pub affinity: Option<String>,
    /// Why it could not be scheduled, if it could not.
    pub unschedulable: Option<String>,
    /// What members report of it, by cluster.
    pub reported: BTreeMap<String, Status>,
    pub(super) placement: Value,
    /// The placement that was scheduled last, and the text that says so.
    pub(super) applied: Option<Value>,
    pub(super) workload: Workload,
    pub(super) failover: Failover,
    pub(super) propagate_deps: bool,
    pub(super) fresh: bool,
    generation: i64,
    scheduled_generation: i64,
    /// Since when it is unhealthy where; kept in memory only.
    pub(super) unhealthy_since: BTreeMap<String, Timestamp>,
    /// When application failover looks again.
    pub(super) application_next: Option<SignedDuration>,
}

/// What a member reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// `Healthy`, `Unhealthy` or `Unknown`.
    pub health: String,
    /// The status of the object there.
    pub status: Option<Value>,
}

/// A removal that goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EvictionTask {
    /// The cluster.
    pub from_cluster: String,
    /// The replicas that it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// `Directly`, `Gracefully` or `Never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub purge_mode: String,
    /// Why.
    pub reason: String,
    /// Who asked for it.
    pub producer: String,
    /// A message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Whether a person has to confirm it, or has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// Labels that carry state over.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// Where it was before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
}

/// What a policy says of failover.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Failover {
    pub(super) application: Option<ApplicationFailover>,
    pub(super) cluster: Option<ClusterFailover>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ApplicationFailover {
    #[serde(deserialize_with = "null_default")]
    pub(super) decision_conditions: DecisionConditions,
    #[serde(deserialize_with = "null_default")]
    pub(super) purge_mode: String,
    pub(super) grace_period_seconds: Option<i64>,
    pub(super) state_preservation: Option<StatePreservation>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DecisionConditions {
    pub(super) toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterFailover {
    #[serde(deserialize_with = "null_default")]
    pub(super) purge_mode: String,
    pub(super) state_preservation: Option<StatePreservation>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct StatePreservation {
    #[serde(deserialize_with = "null_default")]
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rule {
    pub(super) alias_label_name: String,
    pub(super) json_path: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    resource: BTreeMap<String, Value>,
    #[serde(deserialize_with = "null_default")]
    clusters: Vec<Target>,
    #[serde(deserialize_with = "null_default")]
    graceful_eviction_tasks: Vec<EvictionTask>,
    placement: Value,
    replicas: i64,
    replica_requirements: Option<ReplicaRequirements>,
    #[serde(deserialize_with = "null_default")]
    failover: Failover,
    propagate_deps: bool,
    reschedule_triggered_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    replicas: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReplicaRequirements {
    #[serde(deserialize_with = "null_default")]
    resource_request: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BindingStatus {
    scheduler_observed_generation: i64,
    #[serde(rename = "schedulerObservingAffinityName")]
    affinity: String,
    last_scheduled_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_default")]
    aggregated_status: Vec<AggregatedStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AggregatedStatus {
    cluster_name: String,
    #[serde(deserialize_with = "null_default")]
    health: String,
    status: Option<Value>,
}

fn part<T: Default + for<'de> Deserialize<'de>>(object: &Object, key: &str) -> Result<T, serde_json::Error> {
    object.at(&[key]).filter(|value| !value.is_null()).map_or(Ok(T::default()), T::deserialize)
}

impl Binding {
    pub(super) fn read(object: &Object) -> Result<Self, serde_json::Error> {
        let spec: Spec = part(object, "spec")?;
        let status: BindingStatus = part(object, "status")?;
        let text = |key: &str| spec.resource.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let requests = |r: ReplicaRequirements| {
            let all = r.resource_request.iter();
            let all = all.filter_map(|(name, amount)| Some((name.clone(), Quantity::from_json(amount)?)));
            Requirements { requests: all.filter(|(_, amount)| amount.value() > 0).collect() }
        };
        let asked = spec.reschedule_triggered_at.zip(status.last_scheduled_time);
        let report =
            |one: AggregatedStatus| (one.cluster_name, Status { health: one.health, status: one.status });
        let applied = object.annotation(APPLIED_PLACEMENT);
        Ok(Self {
            id: object.id.clone(),
            resource: ObjectRef {
                api_version: text("apiVersion"),
                kind: text("kind"),
                namespace: Some(text("namespace")).filter(|namespace| !namespace.is_empty()),
                name: text("name"),
            },
            uid: text("uid"),
            clusters: spec.clusters.into_iter().map(|target| (target.name, target.replicas)).collect(),
            tasks: spec.graceful_eviction_tasks,
            affinity: Some(status.affinity).filter(|name| !name.is_empty()),
            unschedulable: None,
            reported: status.aggregated_status.into_iter().map(report).collect(),
            placement: spec.placement,
            applied: applied.and_then(|text| serde_json::from_str(text).ok()),
            workload: Workload {
                replicas: spec.replicas,
                requirements: spec.replica_requirements.map(requests),
            },
            failover: spec.failover,
            propagate_deps: spec.propagate_deps,
            fresh: asked.is_some_and(|(asked, last)| asked > last),
            generation: object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
            scheduled_generation: status.scheduler_observed_generation,
            unhealthy_since: BTreeMap::new(),
            application_next: None,
        })
    }

    /// Runs all controllers once; where it is evicted from.
    pub(super) fn run(
        &mut self,
        options: &Options,
        clusters: &[Cluster],
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Vec<String> {
        let mut evicted = self.evict_tainted(options, taints, now);
        self.reschedule(clusters);
        self.assess_tasks(options, now);
        evicted.extend(self.fail_over(options, now));
        evicted
    }

    /// When the next timer ends.
    pub(super) fn next(
        &self,
        options: &Options,
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let timers =
            [self.next_taint(options, taints, now), self.next_task(options, now), self.application_next];
        timers.into_iter().flatten().filter(|left| *left > SignedDuration::ZERO).min()
    }

    /// Notes that its spec has changed.
    pub(super) fn touch(&mut self) {
        self.generation += 1;
    }

    /// Notes that the scheduler has dealt with it as it is.
    pub(super) fn mark_scheduled(&mut self) {
        self.scheduled_generation = self.generation;
    }

    /// Whether the scheduler has dealt with it as it is.
    pub(super) fn is_scheduled(&self) -> bool {
        self.scheduled_generation == self.generation
    }

    /// Whether a cluster is being emptied.
    pub(super) fn is_evicting(&self, cluster: &str) -> bool {
        self.tasks.iter().any(|task| task.from_cluster == cluster)
    }

    /// Takes it off a cluster; whether it was there.
    pub(super) fn evict(&mut self, cluster: &str, task: EvictionTask) -> bool {
        let Some(at) = self.clusters.iter().position(|(name, _)| name == cluster) else { return false };
        let (_, replicas) = self.clusters.remove(at);
        self.touch();
        if !self.is_evicting(cluster) {
            self.tasks.push(EvictionTask {
                from_cluster: cluster.to_owned(),
                replicas: replicas.filter(|replicas| *replicas > 0),
                ..task
            });
        }
        true
    }
}
