//! `ClusterResourceBinding` and `ResourceBinding`: a placement's row for one cluster.
//!
//! Facts: when the scheduler unschedules a row, it records the former state in an annotation. When the cluster
//! is picked again, the row gets that state back and keeps the annotation.

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{ClusterName, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rollout::row;
pub use crate::rollout::row::BindingState;
use crate::{KubeFleetBehaviour, state};

/// The annotation with the state that an unscheduled row had.
const PREVIOUS_STATE_ANNOTATION: &str = "kubernetes-fleet.io/previous-binding-state";

/// The finalizer by which the scheduler keeps a binding until it has seen its deletion.
pub(super) const SCHEDULER_FINALIZER: &str = "kubernetes-fleet.io/scheduler-crb-cleanup";

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
    /// Why it was picked.
    pub decision: ClusterDecision,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// What the scheduler decided about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterDecision {
    /// The cluster.
    pub cluster_name: String,
    /// Whether it was picked.
    pub selected: bool,
    /// Its scores, where it was scored.
    #[serde(rename = "clusterScore", skip_serializing_if = "Option::is_none")]
    pub score: Option<ClusterScore>,
    /// Why.
    pub reason: String,
}

/// The scores of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterScore {
    /// By preferred affinity.
    #[serde(rename = "affinityScore")]
    pub affinity: i64,
    /// By topology spread.
    #[serde(rename = "priorityScore")]
    pub topology: i64,
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

impl HubBinding {
    /// Reads a binding.
    pub(super) fn from_object(object: &Object) -> Result<Self, serde_json::Error> {
        let spec = Spec::deserialize(object.value_at(&["spec"]).unwrap_or(&Value::Null))?;
        let conditions = object.value_at(&["status", "conditions"]).filter(|c| !c.is_null());
        let finalizers = object.value_at(&["metadata", "finalizers"]).filter(|f| !f.is_null());
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
            decision: spec.cluster_decision,
            finalizers: finalizers.map_or(Ok(Vec::new()), Vec::deserialize)?,
            conditions: conditions.map_or(Ok(Vec::new()), Vec::deserialize)?,
        })
    }

    /// Returns a row for a cluster that has just been picked.
    pub(super) fn new(placement: &str, snapshot: &str, decision: ClusterDecision) -> Self {
        Self {
            name: format!("{placement}-{}", decision.cluster_name),
            cluster: decision.cluster_name.as_str().into(),
            state: BindingState::Scheduled,
            previous_state: None,
            deleting: false,
            generation: 1,
            policy_snapshot: snapshot.to_owned(),
            resource_snapshot: String::new(),
            decision,
            finalizers: vec![SCHEDULER_FINALIZER.to_owned()],
            conditions: Vec::new(),
        }
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
            decision: ClusterDecision {
                cluster_name: binding.cluster.to_string(),
                selected: true,
                score: binding
                    .affinity_score
                    .zip(binding.topology_spread_score)
                    .map(|(affinity, topology)| ClusterScore { affinity, topology }),
                reason: String::new(),
            },
            finalizers: Vec::new(),
            conditions: binding.conditions.clone(),
        }
    }

    /// Whether it counts as a placement in its cluster.
    pub(super) fn is_counted(&self) -> bool {
        !self.deleting && self.state != BindingState::Unscheduled
    }

    /// Unschedules the row.
    pub(super) fn unschedule(&mut self) {
        self.previous_state = Some(self.state);
        self.state = BindingState::Unscheduled;
        self.generation += 1;
    }

    /// Moves the row to a policy snapshot. An unscheduled row gets its former state back.
    pub(super) fn pick_again(&mut self, snapshot: &str, decision: ClusterDecision) {
        if self.state == BindingState::Unscheduled {
            self.state = self.previous_state.unwrap_or_default();
        }
        snapshot.clone_into(&mut self.policy_snapshot);
        self.decision = decision;
        self.generation += 1;
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
