//! The rollout machine: which clusters are updated next, given how far each of them is.
//!
//! ```text
//! strategy, clusters, time ─► RolloutDecision ─► whoever carries it out observes the clusters, and asks again
//! ```
//!
//! A decision is a pure value. Three kinds of strategies make one, each in a module of its own:
//!
//! | strategy | asked by |
//! |---|---|
//! | [`stage`]: ordered clusters, a number of them at a time, tasks before and after | `rollout.stages` of a Sync, update runs of `KubeFleet` |
//! | [`budget`]: as long as enough clusters are available | rolling updates of `KubeFleet` |
//! | [`group`]: decision groups, times that a success lasts and a failure may take | sets of works of Open Cluster Management |
//!
//! What clusters have of a policy is in a [`PolicyRollout`](crate::PolicyRollout). A Sync and the scenarios of `whatif`
//! keep one and let the control plane advance it by the same call ([`RolloutRules::advance_rollout`](crate::RolloutRules)).

use jiff::{SignedDuration, Timestamp};

use federate_kubernetes::ClusterName;

pub mod budget;
mod explanation;
pub mod group;
pub mod stage;

pub use explanation::{
    EvictionVerdict, GroupRollout, GroupRolloutState, NextRound, PlacementStage, RollingRound,
    RolloutExplanation, RolloutPhase, StagedRollout, Wave,
};

/// How far the update of a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateState {
    /// It has to be updated, or its state is unknown.
    Pending,
    /// It is being updated.
    Updating,
    /// It is updated.
    Updated,
    /// Its update fails.
    Failed,
    /// It was not updated in time.
    TimedOut,
    /// It is left out.
    Skipped,
}

/// A cluster in a rollout.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterUpdate {
    /// The cluster.
    pub cluster: ClusterName,
    /// How far its update is.
    pub state: UpdateState,
    /// Since when it is that far, if that is known.
    pub since: Option<Timestamp>,
}

impl ClusterUpdate {
    /// A cluster whose update has not begun.
    pub fn pending(cluster: ClusterName) -> Self {
        Self { cluster, state: UpdateState::Pending, since: None }
    }
}

/// What a rollout does at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutDecision {
    /// The clusters that are being updated; the update of those that are [pending](UpdateState::Pending) begins now.
    pub active: Vec<ClusterUpdate>,
    /// The clusters that have to be updated, but must wait. Groups do not name them.
    pub waiting: Vec<ClusterName>,
    /// The clusters that have just timed out.
    pub timed_out: Vec<ClusterUpdate>,
    /// Whether more clusters have failed than may.
    pub is_breached: bool,
    /// Whether nothing is left to do, now or later.
    pub is_done: bool,
    /// When the decision changes by itself.
    pub recheck: Option<SignedDuration>,
}

impl RolloutDecision {
    /// The clusters whose update begins now.
    pub fn starting(&self) -> impl Iterator<Item = &ClusterName> {
        let pending = self.active.iter().filter(|active| active.state == UpdateState::Pending);
        pending.map(|active| &active.cluster)
    }
}
