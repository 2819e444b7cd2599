//! A placement's row for one cluster (a binding), as rollouts read it.
//!
//! Facts: only conditions of the row's generation count. A row whose availability cannot be tracked counts as
//! ready after a while.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::KubeFleetBehaviour;
use federate_dialect::rollout::budget::ClusterReadiness;
use federate_kubernetes::ClusterName;
use federate_kubernetes::condition::{self, Condition};

/// The state of the decision about a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingState {
    /// The cluster is picked, but resources are not released to it yet.
    #[default]
    Scheduled,
    /// Resources are released to the cluster.
    Bound,
    /// The cluster is no longer picked.
    Unscheduled,
}

/// The version of the resources of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum BindingResources {
    /// The newest.
    Latest,
    /// Earlier ones, or none.
    #[default]
    Old,
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct BindingRow {
    /// Its cluster.
    pub(crate) cluster: ClusterName,
    /// The state of the decision.
    pub(crate) state: BindingState,
    /// The version of its resources.
    pub(crate) resources: BindingResources,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
    /// Its generation.
    pub(crate) generation: i64,
    /// Its conditions.
    pub(crate) conditions: Vec<Condition>,
}

/// Whether one of the conditions of a row's generation says that something failed. Older releases count reasons
/// that only say that the row is still becoming available.
pub(crate) fn has_failed_condition(
    conditions: &[Condition],
    generation: i64,
    behaviour: &KubeFleetBehaviour,
) -> bool {
    const PENDING: [&str; 4] =
        ["OverriddenPending", "WorkNotSynchronizedYet", "ApplyPending", "ResourceNotAvailableYet"];
    let stages = ["Overridden", "WorkSynchronized", "Applied", "Available"];
    stages.into_iter().filter_map(|kind| condition::find_current_condition(conditions, kind, generation)).any(
        |condition| {
            condition.is_false()
                && (behaviour.pending_rows_fail || !PENDING.contains(&condition.reason.as_str()))
        },
    )
}

impl BindingRow {
    fn find_condition(&self, kind: &str) -> Option<&Condition> {
        condition::find_current_condition(&self.conditions, kind, self.generation)
    }

    /// Whether everything is available in the cluster.
    pub(crate) fn is_available(&self) -> bool {
        self.find_condition("Available").is_some_and(Condition::is_true)
    }

    /// Whether the cluster reports differences instead of applying.
    pub(super) fn reports_diff(&self) -> bool {
        self.find_condition("DiffReported").is_some()
    }

    /// Whether the row failed, so that waiting does not help.
    pub(super) fn has_failed(&self, behaviour: &KubeFleetBehaviour) -> bool {
        has_failed_condition(&self.conditions, self.generation, behaviour)
    }

    /// Whether the row is ready. A row whose availability cannot be tracked must have been available since
    /// before `cutoff`.
    pub(super) fn check_readiness(&self, cutoff: Timestamp) -> ClusterReadiness {
        if self.find_condition("DiffReported").is_some_and(Condition::is_true) {
            return ClusterReadiness::Ready;
        }
        let Some(available) = self.find_condition("Available").filter(|c| c.is_true()) else {
            return ClusterReadiness::NotReady;
        };
        if !matches!(available.reason.as_str(), "NotAllWorkAreAvailabilityTrackable" | "WorkNotTrackable") {
            return ClusterReadiness::Ready;
        }
        match available.last_transition_time {
            Some(since) if since >= cutoff => ClusterReadiness::ReadyAfter(since.duration_since(cutoff)),
            _ => ClusterReadiness::Ready,
        }
    }
}
