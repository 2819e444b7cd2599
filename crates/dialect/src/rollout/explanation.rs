//! How a control plane rolls an object out to its clusters, step by step.

use federate_kubernetes::{ClusterName, ObjectRef};
use serde::Serialize;

/// The rollout of a placement to clusters that do not have it yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutExplanation {
    /// The first round of a rolling update; `None` where the placement is not rolled out that way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling: Option<RollingRound>,
    /// What a rolling update does next with the placement's bindings on the hub, where the scheduler state has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextRound>,
    /// The stages by each strategy for staged updates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<StagedRollout>,
    /// The rollouts that follow decision groups and times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRollout>,
    /// What the placement's disruption budget allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction: Option<EvictionVerdict>,
    /// The waves in which a cluster applies the objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Wave>,
}

/// The first round of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RollingRound {
    /// The clusters that are updated at once, in order.
    pub update: Vec<ClusterName>,
    /// The clusters that wait until others are available.
    pub blocked: Vec<ClusterName>,
}

/// What a rolling update does next, given how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NextRound {
    /// Nothing until a binding that is being deleted is gone.
    #[serde(rename_all = "camelCase")]
    Cleanup {
        /// Always true.
        wait_for_cleanup: bool,
    },
    /// A round.
    #[serde(rename_all = "camelCase")]
    Round {
        /// The clusters that are updated, bound or removed at once, in order.
        update: Vec<ClusterName>,
        /// The clusters that wait until others are available.
        blocked: Vec<ClusterName>,
        /// The clusters that have the latest resources.
        up_to_date: Vec<ClusterName>,
        /// Whether there is anything to do, at once or later.
        need_roll: bool,
        /// The seconds until the next check.
        wait_seconds: i64,
    },
}

/// The stages by one strategy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StagedRollout {
    /// The strategy.
    pub strategy: ObjectRef,
    /// The stages, in order; or the code of the reason why an update run by this strategy does not start.
    #[serde(flatten, serialize_with = "stages_or_error::serialize")]
    pub stages: Result<Vec<PlacementStage>, &'static str>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStage {
    /// Its name.
    #[serde(rename = "stage")]
    pub name: String,
    /// Its clusters, in the order in which they are updated.
    pub clusters: Vec<ClusterName>,
    /// How many clusters are updated at a time.
    pub max_concurrency: i64,
}

/// The rollout to the clusters of one placement, by decision groups and times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRollout {
    /// The name of the placement.
    pub placement: String,
    /// The type of the strategy.
    pub strategy: String,
    /// Its limits in words.
    pub limits: Vec<String>,
    /// The phases in which a new template reaches the clusters, if every one succeeds.
    pub phases: Vec<RolloutPhase>,
    /// How far it is, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<GroupRolloutState>,
    /// What is wrong with the strategy, so that nothing is rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mistake: Option<String>,
}

/// A phase of a rollout: its clusters are updated at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RolloutPhase {
    /// The clusters.
    pub clusters: Vec<ClusterName>,
    /// Their decision groups in words, where these make the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// How far a rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRolloutState {
    /// The clusters that have the newest template.
    pub updated: Vec<ClusterName>,
    /// The clusters that are being updated.
    pub updating: Vec<ClusterName>,
    /// The clusters that fail, or have not succeeded in time.
    pub failed: Vec<ClusterName>,
    /// The clusters whose update begins now.
    pub starting: Vec<ClusterName>,
    /// The clusters that wait for others.
    pub waiting: Vec<ClusterName>,
    /// Whether more clusters have failed than may.
    pub breached: bool,
    /// After how many seconds it goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recheck_seconds: Option<i64>,
}

/// Whether a disruption budget allows an eviction; while every cluster is available, unless the scheduler state says how the
/// bindings are on the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionVerdict {
    /// The disruption budget.
    pub budget: ObjectRef,
    /// Whether an eviction is allowed.
    pub eviction_allowed: bool,
    /// How many clusters are available.
    pub available_placements: i64,
    /// How many clusters the placement has.
    pub total_placements: usize,
}

/// One wave: its objects are applied in parallel, after those of the wave before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wave {
    /// Its number.
    pub wave: u32,
    /// Its objects.
    pub objects: Vec<ObjectRef>,
}

mod stages_or_error {
    use serde::ser::{SerializeMap, Serializer};

    use super::PlacementStage;

    pub(super) fn serialize<S: Serializer>(
        stages: &Result<Vec<PlacementStage>, &'static str>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match stages {
            Ok(stages) => map.serialize_entry("stages", stages)?,
            Err(error) => map.serialize_entry("error", error)?,
        }
        map.end()
    }
}
