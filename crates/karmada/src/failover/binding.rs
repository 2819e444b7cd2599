//! A `ResourceBinding` as the controllers of failover read and write it.

use std::collections::BTreeMap;

use federate_dialect::Placement;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Cluster, Object, ObjectRef};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FailoverOptions;
use crate::api::{Failover, read_section};
use crate::capacity::taints::ClusterTaint;
use crate::hub::APPLIED_PLACEMENT;
use crate::workload::{Requirements, Workload};

/// A binding.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceBinding {
    /// The binding itself.
    pub id: ObjectRef,
    /// The template.
    pub resource: ObjectRef,
    /// The template's uid, which decides ties.
    pub(super) uid: String,
    /// The clusters with their replicas; `None` for objects without replicas.
    pub clusters: Vec<(String, Option<i64>)>,
    /// The eviction tasks.
    pub tasks: Vec<EvictionTask>,
    /// The affinity group that was used last.
    pub affinity: Option<String>,
    /// Why the last scheduling failed, if it did.
    pub unschedulable: Option<String>,
    /// The reports of members, by cluster.
    pub reported: BTreeMap<String, ReportedStatus>,
    pub(super) placement: Value,
    /// The placement of the last scheduling.
    pub(super) applied: Option<Value>,
    pub(super) workload: Workload,
    pub(super) failover: Failover,
    pub(super) propagate_deps: bool,
    pub(super) fresh: bool,
    generation: i64,
    scheduled_generation: i64,
    /// Since when it has been unhealthy, by cluster; kept in memory only.
    pub(super) unhealthy_since: BTreeMap<String, Timestamp>,
    /// When application failover looks again.
    pub(super) application_next: Option<SignedDuration>,
}

/// The report of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedStatus {
    /// `Healthy`, `Unhealthy` or `Unknown`.
    pub health: String,
    /// The status of the object there.
    pub status: Option<Value>,
}

/// An eviction that is in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EvictionTask {
    /// The cluster.
    pub from_cluster: String,
    /// The replicas that the cluster had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// `Directly`, `Gracefully` or `Never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub purge_mode: String,
    /// Why.
    pub reason: String,
    /// The controller that created it.
    pub producer: String,
    /// A message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Whether the object stays until a user confirms the eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// Labels that preserve state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// The clusters before the failover.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
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

impl ReplicaRequirements {
    fn into_requirements(self) -> Requirements {
        let requests = self.resource_request.into_iter();
        let requests = requests.filter_map(|(name, amount)| Some((name, Quantity::from_json(&amount)?)));
        Requirements { requests: requests.filter(|(_, amount)| amount.value() > 0).collect() }
    }
}

fn text_of(resource: &BTreeMap<String, Value>, key: &str) -> String {
    resource.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
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

impl EvictionTask {
    /// Whether the copy in the cluster is removed at once.
    pub(super) fn purges_directly(&self) -> bool {
        matches!(self.purge_mode.as_str(), "Directly" | "Immediately")
    }
}

impl ResourceBinding {
    /// The binding of a row of a plan, as far as taints and tasks need it. Its copies count as healthy, and the row as
    /// handled by the scheduler unless it lacks clusters.
    pub(super) fn from_row(
        row: &Placement,
        applied: Option<Value>,
        failover: Failover,
        tasks: Vec<EvictionTask>,
    ) -> Self {
        let unscheduled = row.unschedulable.is_some() || row.clusters.is_empty();
        Self {
            id: row.object.clone(),
            resource: row.object.clone(),
            uid: String::new(),
            clusters: row.clusters.iter().map(|placed| (placed.name.to_string(), placed.replicas)).collect(),
            tasks,
            affinity: None,
            unschedulable: row.unschedulable.as_ref().map(|failed| failed.reason.clone()),
            reported: row
                .clusters
                .iter()
                .map(|placed| {
                    let healthy = ReportedStatus { health: "Healthy".to_owned(), status: None };
                    (placed.name.to_string(), healthy)
                })
                .collect(),
            placement: Value::Null,
            applied,
            workload: Workload::default(),
            failover,
            propagate_deps: false,
            fresh: false,
            generation: i64::from(unscheduled),
            scheduled_generation: 0,
            unhealthy_since: BTreeMap::new(),
            application_next: None,
        }
    }

    pub(super) fn from_object(object: &Object) -> Result<Self, serde_json::Error> {
        let spec: Spec = read_section(object, "spec")?;
        let status: BindingStatus = read_section(object, "status")?;
        let requested = spec.reschedule_triggered_at.zip(status.last_scheduled_time);
        let reported = status
            .aggregated_status
            .into_iter()
            .map(|one| (one.cluster_name, ReportedStatus { health: one.health, status: one.status }));
        let applied = object.annotation(APPLIED_PLACEMENT);
        Ok(Self {
            id: object.id.clone(),
            resource: ObjectRef {
                api_version: text_of(&spec.resource, "apiVersion"),
                kind: text_of(&spec.resource, "kind"),
                namespace: Some(text_of(&spec.resource, "namespace")).filter(|name| !name.is_empty()),
                name: text_of(&spec.resource, "name"),
            },
            uid: text_of(&spec.resource, "uid"),
            clusters: spec.clusters.into_iter().map(|target| (target.name, target.replicas)).collect(),
            tasks: spec.graceful_eviction_tasks,
            affinity: Some(status.affinity).filter(|name| !name.is_empty()),
            unschedulable: None,
            reported: reported.collect(),
            placement: spec.placement,
            applied: applied.and_then(|text| serde_json::from_str(text).ok()),
            workload: Workload {
                replicas: spec.replicas,
                requirements: spec.replica_requirements.map(ReplicaRequirements::into_requirements),
            },
            failover: spec.failover,
            propagate_deps: spec.propagate_deps,
            fresh: requested.is_some_and(|(requested, last)| requested > last),
            generation: object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
            scheduled_generation: status.scheduler_observed_generation,
            unhealthy_since: BTreeMap::new(),
            application_next: None,
        })
    }

    /// Runs all controllers once; returns the clusters that the binding was evicted from.
    pub(super) fn run_controllers(
        &mut self,
        options: &FailoverOptions,
        clusters: &[Cluster],
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Vec<String> {
        let mut evicted = self.evict_tainted(options, taints, now);
        self.reschedule_if_triggered(clusters, &options.behaviour);
        self.assess_tasks(options, now);
        evicted.extend(self.fail_over(options, now));
        evicted
    }

    /// When the next timer ends.
    pub(super) fn next_timer(
        &self,
        options: &FailoverOptions,
        taints: &BTreeMap<&str, &[ClusterTaint]>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let timers =
            [self.next_taint(options, taints, now), self.next_task(options, now), self.application_next];
        timers.into_iter().flatten().filter(|left| *left > SignedDuration::ZERO).min()
    }

    /// Records that its spec has changed.
    pub(super) fn mark_changed(&mut self) {
        self.generation += 1;
    }

    /// Records that the scheduler has handled its present spec.
    pub(super) fn mark_scheduled(&mut self) {
        self.scheduled_generation = self.generation;
    }

    /// Whether the scheduler has handled its present spec.
    pub(super) fn is_scheduled(&self) -> bool {
        self.scheduled_generation == self.generation
    }

    /// Whether there is an eviction task for a cluster.
    pub(super) fn is_evicting(&self, cluster: &str) -> bool {
        self.tasks.iter().any(|task| task.from_cluster == cluster)
    }

    /// Evicts it from a cluster; returns whether it was there.
    pub(super) fn evict_from(&mut self, cluster: &str, task: EvictionTask) -> bool {
        let Some(at) = self.clusters.iter().position(|(name, _)| name == cluster) else { return false };
        let (_, replicas) = self.clusters.remove(at);
        self.mark_changed();
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
