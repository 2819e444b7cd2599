//! The scheduler state of a row of the plan: the policy and the bindings of a placement, or the clusters of an object by
//! placement.
//!
//! Facts: the scheduler keeps the policy in a policy snapshot and one binding per cluster. A binding that names
//! an older snapshot is obsolete.

use std::collections::BTreeMap;

use federate_dialect::Placement;
use federate_dialect::scheduler_state::or_default;
use federate_kubernetes::condition::Condition;
use federate_kubernetes::{ClusterName, ObjectRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::overrides::work::WorkInputs;
use crate::rollout::row::{BindingResources, BindingRow, BindingState};
use crate::schedule::Scores;

/// The scheduler state of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KubeFleetState {
    /// On the row of a placement: `spec.policy`, as written, under which its bindings were made.
    #[serde(deserialize_with = "present_policy", skip_serializing_if = "Option::is_none")]
    pub policy: Option<Value>,
    /// On the row of a placement: the rest of its `spec`, with which an update is compared.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
    /// On the row of a placement: its bindings.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub bindings: Option<Vec<StoredBinding>>,
    /// On the row of an object that several placements select: the clusters of each placement.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub placements: Option<Vec<PlacementShare>>,
}

/// A binding: a placement's decision about one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredBinding {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Whether resources are released to the cluster. A binding without a state is bound.
    #[serde(default = "default_state", deserialize_with = "known_state")]
    pub state: BindingState,
    /// The affinity score with which the cluster was picked.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub affinity_score: Option<i64>,
    /// The topology spread score with which the cluster was picked.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub topology_spread_score: Option<i64>,
    /// Whether it was made under a policy before the one that is remembered.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub obsolete: bool,
    /// Its generation, if it was read from a hub.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// For a binding that is being removed, its state before.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub previous_state: Option<BindingState>,
    /// What its works were written with, if overrides read the labels of the cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub works: Option<WorkInputs>,
    /// Which resources it has, if that is known.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub resources: Option<BindingResources>,
    /// Whether the hub is deleting it.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// How its rollout is going, on the hub.
    #[serde(
        default,
        deserialize_with = "or_default",
        serialize_with = "without_messages",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}

/// The clusters to which one placement sends an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlacementShare {
    /// The placement.
    pub policy: ObjectRef,
    /// Sorted by name.
    pub clusters: Vec<ClusterName>,
}

impl KubeFleetState {
    /// Reads the scheduler state of a row.
    pub(crate) fn from_row(row: &Placement) -> Self {
        row.read_scheduler_state()
    }

    /// What the works of clusters were written with.
    pub(crate) fn work_inputs(self) -> BTreeMap<ClusterName, WorkInputs> {
        let bindings = self.bindings.into_iter().flatten().filter(|binding| !binding.deleting);
        bindings.filter_map(|binding| Some((binding.cluster, binding.works?))).collect()
    }

    /// Writes the state to a row.
    pub(crate) fn write_to(&self, row: &mut Placement) {
        row.write_scheduler_state(self);
    }
}

impl StoredBinding {
    /// A binding without scores.
    pub(crate) fn new(cluster: ClusterName, state: BindingState) -> Self {
        Self {
            cluster,
            state,
            affinity_score: None,
            topology_spread_score: None,
            obsolete: false,
            generation: None,
            previous_state: None,
            works: None,
            resources: None,
            deleting: false,
            conditions: Vec::new(),
        }
    }

    /// The scores with which the cluster was picked.
    pub(crate) fn scores(&self) -> Option<Scores> {
        let scores = self.topology_spread_score.zip(self.affinity_score);
        scores.map(|(topology, affinity)| Scores { topology, affinity })
    }

    /// The binding as rollouts read it. Resources that are not known count as old.
    pub(crate) fn to_row(&self) -> BindingRow {
        BindingRow {
            cluster: self.cluster.clone(),
            state: self.state,
            resources: self.resources.unwrap_or_default(),
            deleting: self.deleting,
            generation: self.generation.unwrap_or_default(),
            conditions: self.conditions.clone(),
        }
    }
}

/// No rule reads messages, and they change more often than anything else.
fn without_messages<S: Serializer>(conditions: &[Condition], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Kept<'c> {
        r#type: &'c str,
        status: &'c str,
        reason: &'c str,
        last_transition_time: Option<jiff::Timestamp>,
        observed_generation: i64,
    }
    serializer.collect_seq(conditions.iter().map(|condition| Kept {
        r#type: &condition.kind,
        status: &condition.status,
        reason: &condition.reason,
        last_transition_time: condition.last_transition_time,
        observed_generation: condition.observed_generation,
    }))
}

fn default_state() -> BindingState {
    BindingState::Bound
}

/// A state that is not known counts as bound.
fn known_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BindingState, D::Error> {
    Ok(or_default::<D, Option<BindingState>>(deserializer)?.unwrap_or(BindingState::Bound))
}

/// A policy that is `null` is a policy: it is `PickAll`.
fn present_policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row() -> Placement {
        let id = ObjectRef {
            api_version: "placement.kubernetes-fleet.io/v1".into(),
            kind: "ClusterResourcePlacement".into(),
            namespace: None,
            name: "p".into(),
        };
        Placement::new("kubefleet", id, None)
    }

    #[test]
    fn a_memory_keeps_its_form() {
        let form = json!({
            "policy": {"placementType": "PickN", "numberOfClusters": 1},
            "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
            "bindings": [
                {"cluster": "a", "state": "Bound", "affinityScore": 10, "topologySpreadScore": 0},
                {"cluster": "b", "state": "Scheduled", "obsolete": true,
                 "works": {"digest": "0", "labels": {"region": "east"}}},
                {"cluster": "d", "state": "Unscheduled", "previousState": "Bound"},
                {"cluster": "c", "state": "Unscheduled", "generation": 2, "resources": "latest", "deleting": true,
                 "conditions": [{"type": "Available", "status": "True", "reason": "AllWorkAreAvailable",
                    "lastTransitionTime": "2026-11-20T12:00:00Z", "observedGeneration": 2}]},
            ],
            "placements": [{"policy": row().object, "clusters": ["a", "b"]}],
        });
        let mut given = row();
        given.scheduler_state = form.as_object().unwrap().clone().into();
        let mut written = row();
        KubeFleetState::from_row(&given).write_to(&mut written);
        assert_eq!(serde_json::to_value(&written.scheduler_state).unwrap(), form);
    }

    #[test]
    fn a_binding_is_bound_unless_its_state_is_known() {
        let mut given = row();
        let state = json!({"policy": null, "bindings": [{"cluster": "a"}, {"cluster": "b", "state": 1}]});
        given.scheduler_state = state.as_object().unwrap().clone().into();
        let state = KubeFleetState::from_row(&given);
        assert_eq!(state.policy, Some(Value::Null));
        assert!(state.bindings.unwrap().iter().all(|binding| binding.state == BindingState::Bound));
    }
}
