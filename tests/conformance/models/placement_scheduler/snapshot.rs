//! The latest policy snapshot of a placement, and what the scheduler said of it last.
//!
//! Facts: the status is written when a decision, the verdict or the placement's generation has changed; the order of
//! decisions is no change.

use std::collections::BTreeMap;

use federate_kubefleet::hub::snapshot::scheduled_condition;
use federate_kubefleet::schedule::{PlacementPolicy, Scores};
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{Object, ObjectRef};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most decisions in a status, and the most of them about clusters that were not picked.
const MAX_DECISIONS: usize = 1000;
const MAX_UNSELECTED: usize = 20;

/// A policy snapshot.
#[derive(Clone, Debug)]
pub(super) struct PolicySnapshot {
    pub(super) name: String,
    /// `spec.policy` as it is written.
    policy: Value,
    /// The number of clusters that `PickN` wants.
    number_of_clusters: Option<i64>,
    /// The generation of the placement for which it was last updated.
    placement_generation: i64,
    /// The snapshot's own generation.
    generation: i64,
    /// The last status by the scheduler.
    pub(super) status: PolicySnapshotStatus,
}

/// The status of a policy snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PolicySnapshotStatus {
    /// Whether as many clusters as asked for were found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    /// The generation of the placement that the status is about.
    #[serde(rename = "observedCRPGeneration")]
    pub(crate) observed_placement_generation: i64,
    /// Decisions, those about picked clusters first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) target_clusters: Vec<ClusterDecision>,
}

/// What the scheduler decided about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterDecision {
    /// The cluster.
    pub(crate) cluster_name: String,
    /// Whether it was picked.
    pub(crate) selected: bool,
    /// Its scores, where it was scored.
    #[serde(rename = "clusterScore", skip_serializing_if = "Option::is_none")]
    pub(crate) score: Option<ClusterScore>,
    /// Why.
    pub(crate) reason: String,
}

/// The scores of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterScore {
    /// By preferred affinity.
    #[serde(rename = "affinityScore")]
    pub(crate) affinity: i64,
    /// By topology spread.
    #[serde(rename = "priorityScore")]
    pub(crate) topology: i64,
}

impl ClusterScore {
    pub(super) fn to_scores(self) -> Scores {
        Scores { topology: self.topology, affinity: self.affinity }
    }
}

/// The latest snapshot of a placement.
pub(super) fn find_latest(placement: &ObjectRef, objects: &[Object]) -> PolicySnapshot {
    let mut latest = objects.iter().filter(|object| {
        object.id.kind == "ClusterSchedulingPolicySnapshot"
            && object.label("kubernetes-fleet.io/parent-CRP") == Some(&placement.name)
            && object.label("kubernetes-fleet.io/is-latest-snapshot") == Some("true")
    });
    let (Some(object), None) = (latest.next(), latest.next()) else {
        panic!("there is not one latest snapshot")
    };
    let annotation = |key: &str| object.annotation(key).and_then(|text| text.parse().ok());
    let status = object.value_at(&["status"]).unwrap_or(&Value::Null);
    PolicySnapshot {
        name: object.id.name.clone(),
        policy: object.value_at(&["spec", "policy"]).cloned().unwrap_or_default(),
        number_of_clusters: annotation("kubernetes-fleet.io/number-of-clusters"),
        placement_generation: annotation("kubernetes-fleet.io/CRP-generation").unwrap_or(0),
        generation: object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
        status: Option::deserialize(status).expect("a status").unwrap_or_default(),
    }
}

impl PolicySnapshot {
    /// The policy, with the current number of clusters.
    pub(super) fn read_policy(&self) -> PlacementPolicy {
        let mut policy = PlacementPolicy::from_json(Some(&self.policy)).expect("a policy");
        policy.number_of_clusters = self.number_of_clusters;
        policy
    }

    /// Writes the scheduler's verdict, if it differs from the last one.
    pub(super) fn report_decisions(
        &mut self,
        policy: &PlacementPolicy,
        selected: Vec<ClusterDecision>,
        others: Vec<ClusterDecision>,
        now: Timestamp,
    ) {
        let condition = scheduled_condition(policy, selected.len()).at_generation(self.generation);
        let mut decisions = selected;
        decisions.truncate(MAX_DECISIONS);
        let rest = MAX_DECISIONS.saturating_sub(decisions.len()).min(MAX_UNSELECTED);
        decisions.extend(others.into_iter().take(rest));
        let status = &mut self.status;
        let same_verdict =
            condition::find_condition(&status.conditions, &condition.kind).is_some_and(|old| {
                (&old.status, &old.reason) == (&condition.status, &condition.reason)
                    && old.observed_generation >= condition.observed_generation
            });
        if status.observed_placement_generation == self.placement_generation
            && same_verdict
            && same_decisions(&status.target_clusters, &decisions)
        {
            return;
        }
        status.observed_placement_generation = self.placement_generation;
        status.target_clusters = decisions;
        condition::set_condition(&mut status.conditions, condition, now);
    }
}

fn same_decisions(before: &[ClusterDecision], after: &[ClusterDecision]) -> bool {
    before.len() == after.len() && index_by_cluster(before) == index_by_cluster(after)
}

fn index_by_cluster(decisions: &[ClusterDecision]) -> BTreeMap<&str, &ClusterDecision> {
    decisions.iter().map(|decision| (decision.cluster_name.as_str(), decision)).collect()
}
