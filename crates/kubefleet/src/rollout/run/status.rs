//! The status of a run: its stages, their clusters and tasks.

use federate_dialect::rollout::{ClusterUpdate, UpdateState};
use federate_kubernetes::Object;
use federate_kubernetes::condition::{self, Condition};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the stage that removes resources from clusters.
pub(super) const DELETION: &str = "kubernetes-fleet.io/deleteStage";

/// The status of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunStatus {
    /// `Initialized`, `Progressing`, `Succeeded`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The index of the policy snapshot.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy_snapshot_index_used: String,
    /// The number of clusters.
    #[serde(skip_serializing_if = "is_zero")]
    pub policy_observed_cluster_count: i64,
    /// The index of the resource snapshot.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_snapshot_index_used: String,
    /// The apply strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_strategy: Option<Value>,
    /// The strategy as it was when the run was initialized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged_update_strategy_snapshot: Option<Value>,
    /// The stages.
    #[serde(rename = "stagesStatus", skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageStatus>,
    /// The stage that removes resources from clusters.
    #[serde(rename = "deletionStageStatus", skip_serializing_if = "Option::is_none")]
    pub deletion_stage: Option<StageStatus>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The status of a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StageStatus {
    /// Its name.
    pub stage_name: String,
    /// Its clusters, in the order in which they are updated.
    pub clusters: Vec<ClusterUpdatingStatus>,
    /// The tasks before the stage.
    #[serde(rename = "beforeStageTaskStatus", skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<TaskStatus>,
    /// The tasks after the stage.
    #[serde(rename = "afterStageTaskStatus", skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskStatus>,
    /// `Progressing` and `Succeeded`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
}

/// The status of a cluster in its stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterUpdatingStatus {
    /// Its name.
    pub cluster_name: String,
    /// The snapshots of `ResourceOverride` objects that apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_override_snapshots: Option<Vec<Value>>,
    /// The snapshots of `ClusterResourceOverride` objects that apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_resource_override_snapshots: Option<Vec<String>>,
    /// `Started` and `Succeeded`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The status of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskStatus {
    /// `Approval` or `TimedWait`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the approval request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub approval_request_name: String,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl RunStatus {
    /// Reads the status of a run.
    pub(in crate::rollout) fn from_run(run: &Object) -> Result<Self, serde_json::Error> {
        let status = run.value_at(&["status"]).filter(|status| !status.is_null());
        let mut status = status.map_or(Ok(Self::default()), Self::deserialize)?;
        let stages = status.staged_update_strategy_snapshot.as_mut().and_then(|s| s["stages"].as_array_mut());
        for stage in stages.into_iter().flatten() {
            for tasks in ["beforeStageTasks", "afterStageTasks"] {
                remove_wait_times(stage.get_mut(tasks));
            }
        }
        Ok(status)
    }

    /// Sets the observed generation of all conditions.
    pub(super) fn set_observed_generation(&mut self, generation: i64) {
        let stages = self.stages.iter_mut().chain(&mut self.deletion_stage);
        let of_stages = stages.flat_map(|stage| {
            let tasks = stage.before.iter_mut().chain(&mut stage.after).flat_map(|task| &mut task.conditions);
            let clusters = stage.clusters.iter_mut().flat_map(|cluster| &mut cluster.conditions);
            stage.conditions.iter_mut().chain(tasks).chain(clusters)
        });
        for condition in self.conditions.iter_mut().chain(of_stages) {
            condition.observed_generation = generation;
        }
    }
}

/// Removes the wait time of approvals.
fn remove_wait_times(tasks: Option<&mut Value>) {
    for task in tasks.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(task) = task.as_object_mut().filter(|task| task["type"] == "Approval") {
            task.remove("waitTime");
        }
    }
}

/// An object with conditions.
macro_rules! conditions_of {
    ($($of:ty),+) => {$(
        impl $of {
            pub(super) fn set_condition(
                &mut self,
                kind: &str,
                status: &str,
                reason: &str,
                message: &str,
                now: Timestamp,
            ) {
                condition::set_condition(&mut self.conditions, Condition::new(kind, status, reason, message), now);
            }

            pub(in crate::rollout) fn find_condition(&self, kind: &str) -> Option<&Condition> {
                condition::find_condition(&self.conditions, kind)
            }

            pub(in crate::rollout) fn is_true(&self, kind: &str) -> bool {
                self.find_condition(kind).is_some_and(Condition::is_true)
            }
        }
    )+};
}

conditions_of!(StageStatus, ClusterUpdatingStatus, TaskStatus);

impl ClusterUpdatingStatus {
    /// The status of a cluster whose update has not started.
    pub(super) fn new(cluster: &str) -> Self {
        Self { cluster_name: cluster.to_owned(), ..Self::default() }
    }

    /// How far its update is.
    pub(super) fn to_update(&self) -> ClusterUpdate {
        let state = match self.find_condition("Succeeded") {
            Some(succeeded) if succeeded.is_true() => UpdateState::Updated,
            Some(succeeded) if succeeded.is_false() => UpdateState::Failed,
            _ if self.is_true("Started") => UpdateState::Updating,
            _ => UpdateState::Pending,
        };
        ClusterUpdate { state, ..ClusterUpdate::pending(self.cluster_name.as_str().into()) }
    }

    pub(super) fn mark_started(&mut self, now: Timestamp) {
        self.set_condition("Started", "True", "ClusterUpdatingStarted", "Cluster update started", now);
    }

    pub(super) fn mark_succeeded(&mut self, now: Timestamp) {
        let message = "Cluster update completed successfully";
        self.set_condition("Succeeded", "True", "ClusterUpdatingSucceeded", message, now);
    }
}

impl StageStatus {
    pub(super) fn mark_started(&mut self, now: Timestamp) {
        let message = "Clusters in the stage started updating";
        self.set_condition("Progressing", "True", "StageUpdatingStarted", message, now);
        self.start_time.get_or_insert(now);
    }

    pub(super) fn mark_succeeded(&mut self, now: Timestamp) {
        let message = "All clusters in the stage are updated and after-stage tasks are completed";
        self.set_condition("Progressing", "False", "StageUpdatingSucceeded", message, now);
        let message = "Stage update completed successfully";
        self.set_condition("Succeeded", "True", "StageUpdatingSucceeded", message, now);
        self.end_time = Some(now);
    }

    pub(super) fn mark_skipped(&mut self, now: Timestamp) {
        let message = "Stage skipped because it has no clusters";
        for (kind, status) in [("Progressing", "False"), ("Succeeded", "True")] {
            self.set_condition(kind, status, "StageUpdatingSkippedNoClusters", message, now);
        }
        self.start_time.get_or_insert(now);
        self.end_time = Some(now);
    }
}
