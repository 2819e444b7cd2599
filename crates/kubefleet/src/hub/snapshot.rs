//! Policy snapshots: the policy that rows belong to, and what the scheduler says of it.
//!
//! Facts: the number of clusters is not part of the snapshot but an annotation, which changes in place.

use federate_kubernetes::{Condition, Object};
use serde_json::{Value, json};

use crate::api::{PlacementPolicy, PlacementType};

pub(crate) const LATEST_LABEL: &str = "kubernetes-fleet.io/is-latest-snapshot";
const INDEX_LABEL: &str = "kubernetes-fleet.io/policy-index";
const CLUSTER_COUNT_ANNOTATION: &str = "kubernetes-fleet.io/number-of-clusters";

/// A policy snapshot.
#[derive(Clone, Debug)]
pub(super) struct PolicySnapshot {
    /// Its name.
    pub(super) name: String,
    /// Its number among the snapshots of its placement.
    pub(super) index: i64,
    /// Whether it is the latest one.
    pub(super) latest: bool,
    /// `spec.policy` as it is written.
    policy: Value,
    /// The number of clusters that `PickN` wants.
    number_of_clusters: Option<i64>,
}

/// Whether a snapshot is marked as the latest of its placement.
pub(crate) fn is_latest(object: &Object) -> bool {
    object.label(LATEST_LABEL) == Some("true")
}

impl PolicySnapshot {
    /// Reads a snapshot.
    pub(super) fn from_object(object: &Object) -> Self {
        Self {
            name: object.id.name.clone(),
            index: parse_number(object.label(INDEX_LABEL)).unwrap_or(0),
            latest: is_latest(object),
            policy: object.value_at(&["spec", "policy"]).cloned().unwrap_or_default(),
            number_of_clusters: parse_number(object.annotation(CLUSTER_COUNT_ANNOTATION)),
        }
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
}

/// The condition of a snapshot: whether the policy is fulfilled with so many clusters.
pub fn scheduled_condition(policy: &PlacementPolicy, found: usize) -> Condition {
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

fn parse_number(text: Option<&str>) -> Option<i64> {
    text.and_then(|text| text.parse().ok())
}
