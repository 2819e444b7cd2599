//! The scheduler state of a placement beyond clusters and replicas: the `memory` of a row
//! of the plan.
//!
//! Facts: on a control plane, the same is in the status, an annotation and the spec of the binding
//! (`hub`), and the claim of a policy is in labels and annotations of the template. `rebalanced` and the digests
//! are federate's own: in git a `WorkloadRebalancer` stays after it has acted, and there are no events.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use federate_dialect::{Placement, SchedulerState};
use federate_kubernetes::{ClusterName, ObjectRef};

/// The key of [`KarmadaState::evicting`].
pub(crate) const EVICTING: &str = "evicting";

/// The key of [`KarmadaState::policy_digest`].
pub(crate) const POLICY_DIGEST: &str = "policyDigest";

/// The key of [`KarmadaState::unclaimed_from`].
const UNCLAIMED_FROM: &str = "unclaimedFrom";

/// The state of one placement. An entry that is missing or has another type counts as empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KarmadaState {
    /// The name of the ordered cluster affinity that was used last.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_or_default")]
    pub affinity: Option<String>,
    /// The names of the rebalancers that list the object and have been obeyed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "read_or_default")]
    pub rebalanced: Vec<String>,
    /// The placement of the policy at the last scheduling, with its defaults.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_or_default")]
    pub applied_placement: Option<Arc<Value>>,
    /// Whether the control plane cannot read the placement of the last scheduling, which then counts as unchanged.
    #[serde(rename = "placementUnreadable")]
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "read_or_default")]
    pub unreadable: bool,
    /// Whether the scheduling of the binding is suspended.
    #[serde(rename = "schedulingSuspended")]
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "read_or_default")]
    pub suspended: bool,
    /// Whether a new scheduling is requested that has not happened yet.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "read_or_default")]
    pub reschedule: bool,
    /// The clusters that the object is being evicted from.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "read_or_default")]
    pub evicting: Vec<String>,
    /// The clusters that the object's own scheduling has not chosen, but objects in `requiredBy` need, each with the
    /// replicas that the first of those has there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "read_or_default")]
    pub required_on: BTreeMap<ClusterName, i64>,
    /// The clusters of a duplicated workload in the scheduler's order, where that is not the order of names.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "read_or_default")]
    pub order: Vec<ClusterName>,
    /// The policy that had claimed the object, if no policy claims it any more.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_or_default")]
    pub unclaimed_from: Option<ObjectRef>,
    /// The digest of the policy that selects the object by labels. As long as the policy is the same, its claim
    /// outlives a change of the object's labels.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_or_default")]
    pub policy_digest: Option<String>,
    /// The digest of the object at the time when a lazy policy was last applied to it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_or_default")]
    pub template_digest: Option<String>,
}

impl KarmadaState {
    /// Reads the scheduler state of a row.
    pub fn from_scheduler_state(state: &SchedulerState) -> Self {
        // Each entry tolerates any value, so that the whole cannot fail.
        Self::deserialize(&**state).unwrap_or_default()
    }

    /// Whether the object's own scheduling has chosen a cluster of its row.
    pub fn has_chosen(&self, cluster: &str) -> bool {
        !self.required_on.contains_key(cluster)
    }

    /// The state as a row stores it.
    pub fn into_scheduler_state(self) -> SchedulerState {
        match serde_json::to_value(self) {
            Ok(Value::Object(state)) => state.into(),
            _ => SchedulerState::new(),
        }
    }
}

/// Whether a row is about an object that a policy places or has placed, and not only one that others need.
pub(crate) fn is_scheduled(row: &Placement) -> bool {
    row.policy.is_some() || row.scheduler_state.contains_key(UNCLAIMED_FROM)
}

fn read_or_default<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(from: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(value: Value) -> SchedulerState {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_form_in_a_plan_is_kept() {
        for written in [
            json!({}),
            json!({"affinity": "near", "appliedPlacement": {"clusterAffinities": [{"affinityName": "near"}]}}),
            json!({
                "affinity": "near", "rebalanced": ["even"], "appliedPlacement": {}, "reschedule": true,
                "evicting": ["m1", "m2"],
            }),
            json!({
                "placementUnreadable": true, "schedulingSuspended": true, "requiredOn": {"m3": 2}, "order": ["m2", "m1"],
                "unclaimedFrom": {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "name": "p"},
                "policyDigest": "0a", "templateDigest": "0b",
            }),
        ] {
            let read = KarmadaState::from_scheduler_state(&state(written.clone()));
            let again = serde_json::to_value(read.into_scheduler_state()).unwrap();
            assert_eq!(again.to_string(), written.to_string());
        }
    }

    #[test]
    fn what_cannot_be_read_is_empty_and_hides_nothing_else() {
        let read = KarmadaState::from_scheduler_state(&state(json!({
            "affinity": "near", "appliedPlacement": null, "reschedule": "yes", "evicting": "m1", "other": 1,
        })));
        let expected = KarmadaState { affinity: Some("near".to_owned()), ..KarmadaState::default() };
        assert_eq!(read, expected);
    }
}
