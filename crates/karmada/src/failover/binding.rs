//! A `ResourceBinding` as the controllers of failover read and write it.

use std::collections::BTreeMap;

use federate_dialect::Placement;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Failover;

/// What of a binding decides about evictions.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceBinding {
    /// The clusters with their replicas; `None` for objects without replicas.
    pub clusters: Vec<(String, Option<i64>)>,
    /// The eviction tasks.
    pub tasks: Vec<EvictionTask>,
    /// The reports of members, by cluster.
    pub reported: BTreeMap<String, ReportedStatus>,
    /// The placement of the last scheduling.
    pub applied: Option<Value>,
    /// How the workload leaves clusters that fail.
    pub failover: Failover,
    /// Whether the scheduler has handled its present spec.
    pub is_scheduled: bool,
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
        let healthy = ReportedStatus { health: "Healthy".to_owned(), status: None };
        Self {
            clusters: row.clusters.iter().map(|placed| (placed.name.to_string(), placed.replicas)).collect(),
            tasks,
            reported: row.clusters.iter().map(|placed| (placed.name.to_string(), healthy.clone())).collect(),
            applied,
            failover,
            is_scheduled: row.unschedulable.is_none() && !row.clusters.is_empty(),
        }
    }

    /// Whether there is an eviction task for a cluster.
    pub fn is_evicting(&self, cluster: &str) -> bool {
        self.tasks.iter().any(|task| task.from_cluster == cluster)
    }

    /// Evicts it from a cluster; returns whether it was there.
    pub fn evict_from(&mut self, cluster: &str, task: EvictionTask) -> bool {
        let Some(at) = self.clusters.iter().position(|(name, _)| name == cluster) else { return false };
        let (_, replicas) = self.clusters.remove(at);
        self.is_scheduled = false;
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
