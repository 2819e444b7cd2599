//! `ClusterResourceBinding` and `ResourceBinding`: a placement's row for one cluster.
//!
//! Facts: when the scheduler unschedules a row, it records the former state in an annotation.

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{ClusterName, Object};
use serde::Deserialize;
use serde_json::Value;

use crate::rollout::row;
pub use crate::rollout::row::BindingState;
use crate::schedule::Scores;
use crate::{KubeFleetBehaviour, state};

/// The annotation with the state that an unscheduled row had.
const PREVIOUS_STATE_ANNOTATION: &str = "kubernetes-fleet.io/previous-binding-state";

/// A row.
#[derive(Clone, Debug)]
pub struct HubBinding {
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: ClusterName,
    /// The state of the decision.
    pub state: BindingState,
    /// The state that it had before it was unscheduled.
    pub previous_state: Option<BindingState>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its generation.
    pub generation: i64,
    /// The policy snapshot that it was picked under.
    pub policy_snapshot: String,
    /// The resource snapshot that is released to it; empty before.
    pub resource_snapshot: String,
    /// The scores with which it was picked, if it was scored.
    pub scores: Option<Scores>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    state: BindingState,
    target_cluster: String,
    scheduling_policy_snapshot_name: String,
    resource_snapshot_name: String,
    cluster_decision: ClusterDecision,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterDecision {
    cluster_score: Option<ClusterScore>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterScore {
    affinity_score: i64,
    /// By topology spread.
    priority_score: i64,
}

impl HubBinding {
    /// Reads a binding.
    pub(super) fn from_object(object: &Object) -> Result<Self, serde_json::Error> {
        let spec = Spec::deserialize(object.value_at(&["spec"]).unwrap_or(&Value::Null))?;
        let conditions = object.value_at(&["status", "conditions"]).filter(|c| !c.is_null());
        let previous = object
            .annotation(PREVIOUS_STATE_ANNOTATION)
            .map(|state| BindingState::deserialize(Value::from(state)));
        Ok(Self {
            name: object.id.name.clone(),
            cluster: spec.target_cluster.into(),
            state: spec.state,
            previous_state: previous.transpose()?,
            deleting: object.is_deleting(),
            generation: object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
            policy_snapshot: spec.scheduling_policy_snapshot_name,
            resource_snapshot: spec.resource_snapshot_name,
            scores: spec
                .cluster_decision
                .cluster_score
                .map(|score| Scores { topology: score.priority_score, affinity: score.affinity_score }),
            conditions: conditions.map_or(Ok(Vec::new()), Vec::deserialize)?,
        })
    }

    /// Returns a binding that is stored in a plan.
    pub(crate) fn from_stored(placement: &str, binding: &state::StoredBinding) -> Self {
        Self {
            name: format!("{placement}-{}", binding.cluster),
            cluster: binding.cluster.clone(),
            state: binding.state,
            previous_state: binding.previous_state,
            deleting: binding.deleting,
            generation: binding.generation.unwrap_or_default(),
            policy_snapshot: String::new(),
            resource_snapshot: String::new(),
            scores: binding.scores(),
            conditions: binding.conditions.clone(),
        }
    }

    /// Whether it counts as a placement in its cluster.
    pub(super) fn is_counted(&self) -> bool {
        !self.deleting && self.state != BindingState::Unscheduled
    }

    /// The condition of that type, if it is about the current generation.
    pub fn find_condition(&self, kind: &str) -> Option<&Condition> {
        condition::find_current_condition(&self.conditions, kind, self.generation)
    }

    /// Whether the cluster reports differences instead of applying.
    pub fn reports_diff(&self) -> bool {
        self.find_condition("DiffReported").is_some()
    }

    /// Whether the row failed, so that waiting does not help.
    pub fn has_failed(&self, behaviour: &KubeFleetBehaviour) -> bool {
        row::has_failed_condition(&self.conditions, self.generation, behaviour)
    }
}
