//! Policy snapshots: the policy that rows belong to, and what the scheduler said of it last.
//!
//! Facts: the number of clusters is not part of the snapshot but an annotation, which changes in place. The
//! status is written when a decision, the verdict or the placement's generation has changed; the order of
//! decisions is no change.

use std::collections::BTreeMap;

use federate_kubernetes::Object;
use federate_kubernetes::condition::{self, Condition};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ClusterDecision;
use crate::api::{PlacementPolicy, PlacementType};

pub(crate) const LATEST_LABEL: &str = "kubernetes-fleet.io/is-latest-snapshot";
const INDEX_LABEL: &str = "kubernetes-fleet.io/policy-index";
const CLUSTER_COUNT_ANNOTATION: &str = "kubernetes-fleet.io/number-of-clusters";
const GENERATION_ANNOTATION: &str = "kubernetes-fleet.io/CRP-generation";

/// The most decisions in a status, and the most of them about clusters that were not picked.
const MAX_DECISIONS: usize = 1000;
const MAX_UNSELECTED: usize = 20;

/// A policy snapshot.
#[derive(Clone, Debug)]
pub struct PolicySnapshot {
    /// Its name.
    pub name: String,
    /// Its number among the snapshots of its placement.
    pub index: i64,
    /// Whether it is the latest one.
    pub latest: bool,
    /// `spec.policy` as it is written.
    policy: Value,
    /// The number of clusters that `PickN` wants.
    number_of_clusters: Option<i64>,
    /// The generation of the placement for which it was last updated.
    placement_generation: i64,
    /// The snapshot's own generation.
    generation: i64,
    /// The last status by the scheduler.
    pub status: PolicySnapshotStatus,
}

/// The status of a policy snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySnapshotStatus {
    /// Whether as many clusters as asked for were found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation of the placement that the status is about.
    #[serde(rename = "observedCRPGeneration")]
    pub observed_placement_generation: i64,
    /// Decisions, those about picked clusters first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_clusters: Vec<ClusterDecision>,
}

/// Whether a snapshot is marked as the latest of its placement.
pub(crate) fn is_latest(object: &Object) -> bool {
    object.label(LATEST_LABEL) == Some("true")
}

impl PolicySnapshot {
    /// Returns the latest snapshot of a placement: its first one, or one that follows it with another policy.
    pub(super) fn for_policy(placement: &str, is_first: bool, policy: &PlacementPolicy) -> Self {
        let index = i64::from(!is_first);
        Self {
            name: format!("{placement}-{index}"),
            index,
            latest: true,
            policy: Value::Null,
            number_of_clusters: policy.number_of_clusters,
            placement_generation: 1,
            generation: 1,
            status: PolicySnapshotStatus::default(),
        }
    }

    /// Reads a snapshot.
    pub(super) fn from_object(object: &Object) -> Result<Self, serde_json::Error> {
        let status = object.value_at(&["status"]).filter(|status| !status.is_null());
        Ok(Self {
            name: object.id.name.clone(),
            index: parse_number(object.label(INDEX_LABEL)).unwrap_or(0),
            latest: is_latest(object),
            policy: object.value_at(&["spec", "policy"]).cloned().unwrap_or_default(),
            number_of_clusters: parse_number(object.annotation(CLUSTER_COUNT_ANNOTATION)),
            placement_generation: parse_number(object.annotation(GENERATION_ANNOTATION)).unwrap_or(0),
            generation: object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
            status: status.map_or(Ok(PolicySnapshotStatus::default()), PolicySnapshotStatus::deserialize)?,
        })
    }

    /// The policy, with the current number of clusters.
    pub(crate) fn read_policy(&self) -> Result<PlacementPolicy, serde_json::Error> {
        let policy = PlacementPolicy::from_json(Some(&self.policy))?;
        Ok(PlacementPolicy { number_of_clusters: self.number_of_clusters, ..policy })
    }

    /// The policy as a placement writes it.
    pub(super) fn policy_as_written(&self) -> Value {
        let mut policy = match &self.policy {
            Value::Null => json!({"placementType": "PickAll"}),
            policy => policy.clone(),
        };
        if let (Some(policy), Some(number)) = (policy.as_object_mut(), self.number_of_clusters) {
            policy.insert("numberOfClusters".to_owned(), number.into());
        }
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

/// Whether the policy is fulfilled with so many clusters.
fn scheduled_condition(policy: &PlacementPolicy, found: usize) -> Condition {
    let wanted = match policy.placement_type {
        PlacementType::PickAll => found,
        PlacementType::PickN => usize::try_from(policy.number_of_clusters.unwrap_or(0)).unwrap_or_default(),
        PlacementType::PickFixed => policy.cluster_names.len(),
    };
    if found == wanted {
        let message = format!(
            "found all cluster needed as specified by the scheduling policy, found {found} cluster(s)"
        );
        Condition::new("Scheduled", "True", "SchedulingPolicyFulfilled", message)
    } else {
        let message = format!(
            "could not find all clusters needed as specified by the scheduling policy, found {found} cluster(s) \
             instead"
        );
        Condition::new("Scheduled", "False", "SchedulingPolicyUnfulfilled", message)
    }
}

fn same_decisions(before: &[ClusterDecision], after: &[ClusterDecision]) -> bool {
    before.len() == after.len() && index_by_cluster(before) == index_by_cluster(after)
}

fn index_by_cluster(decisions: &[ClusterDecision]) -> BTreeMap<&str, &ClusterDecision> {
    decisions.iter().map(|decision| (decision.cluster_name.as_str(), decision)).collect()
}

fn parse_number(text: Option<&str>) -> Option<i64> {
    text.and_then(|text| text.parse().ok())
}
