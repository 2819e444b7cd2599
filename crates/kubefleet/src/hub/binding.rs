//! `ClusterResourceBinding` and `ResourceBinding`: a placement's row for one cluster.
//!
//! Facts: when the scheduler unschedules a row, it records the former state in an annotation. When the cluster
//! is picked again, the row gets that state back and keeps the annotation.

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{ClusterName, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rollout::row;
pub use crate::rollout::row::State;
use crate::{Behaviour, memory};

/// The annotation with the state that an unscheduled row had.
const PREVIOUS: &str = "kubernetes-fleet.io/previous-binding-state";

/// The finalizer by which the scheduler keeps a binding until it has seen its deletion.
pub(super) const CLEANUP: &str = "kubernetes-fleet.io/scheduler-crb-cleanup";

/// A row.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: ClusterName,
    /// The state of the decision.
    pub state: State,
    /// The state that it had before it was unscheduled.
    pub previous_state: Option<State>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its generation.
    pub generation: i64,
    /// The policy snapshot that it was picked under.
    pub policy_snapshot: String,
    /// The resource snapshot that is released to it; empty before.
    pub resource_snapshot: String,
    /// Why it was picked.
    pub decision: Decision,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// What the scheduler decided about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Decision {
    /// The cluster.
    pub cluster_name: String,
    /// Whether it was picked.
    pub selected: bool,
    /// Its scores, where it was scored.
    #[serde(rename = "clusterScore", skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// Why.
    pub reason: String,
}

/// The scores of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Score {
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
    state: State,
    target_cluster: String,
    scheduling_policy_snapshot_name: String,
    resource_snapshot_name: String,
    cluster_decision: Decision,
}

impl Binding {
    /// Reads a binding.
    pub(super) fn read(object: &Object) -> Result<Self, serde_json::Error> {
        let spec = Spec::deserialize(object.at(&["spec"]).unwrap_or(&Value::Null))?;
        let conditions = object.at(&["status", "conditions"]).filter(|c| !c.is_null());
        let finalizers = object.at(&["metadata", "finalizers"]).filter(|f| !f.is_null());
        let previous = object.annotation(PREVIOUS).map(|state| State::deserialize(Value::from(state)));
        Ok(Self {
            name: object.id.name.clone(),
            cluster: spec.target_cluster.into(),
            state: spec.state,
            previous_state: previous.transpose()?,
            deleting: object.deleting(),
            generation: object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
            policy_snapshot: spec.scheduling_policy_snapshot_name,
            resource_snapshot: spec.resource_snapshot_name,
            decision: spec.cluster_decision,
            finalizers: finalizers.map_or(Ok(Vec::new()), Vec::deserialize)?,
            conditions: conditions.map_or(Ok(Vec::new()), Vec::deserialize)?,
        })
    }

    /// Returns a row for a cluster that has just been picked.
    pub(super) fn new(placement: &str, snapshot: &str, decision: Decision) -> Self {
        Self {
            name: format!("{placement}-{}", decision.cluster_name),
            cluster: decision.cluster_name.as_str().into(),
            state: State::Scheduled,
            previous_state: None,
            deleting: false,
            generation: 1,
            policy_snapshot: snapshot.to_owned(),
            resource_snapshot: String::new(),
            decision,
            finalizers: vec![CLEANUP.to_owned()],
            conditions: Vec::new(),
        }
    }

    /// Returns a row as a plan remembers it.
    pub(crate) fn remembered(placement: &str, binding: &memory::Binding) -> Self {
        Self {
            name: format!("{placement}-{}", binding.cluster),
            cluster: binding.cluster.clone(),
            state: binding.state,
            previous_state: binding.previous_state,
            deleting: binding.deleting,
            generation: binding.generation.unwrap_or_default(),
            policy_snapshot: String::new(),
            resource_snapshot: String::new(),
            decision: Decision {
                cluster_name: binding.cluster.to_string(),
                selected: true,
                score: binding
                    .affinity_score
                    .zip(binding.topology_spread_score)
                    .map(|(affinity, topology)| Score { affinity, topology }),
                reason: String::new(),
            },
            finalizers: Vec::new(),
            conditions: binding.conditions.clone(),
        }
    }

    /// Whether it counts as a placement in its cluster.
    pub(super) fn counts(&self) -> bool {
        !self.deleting && self.state != State::Unscheduled
    }

    /// Unschedules the row.
    pub(super) fn unschedule(&mut self) {
        self.previous_state = Some(self.state);
        self.state = State::Unscheduled;
        self.generation += 1;
    }

    /// Moves the row to a policy snapshot. An unscheduled row gets its former state back.
    pub(super) fn pick_again(&mut self, snapshot: &str, decision: Decision) {
        if self.state == State::Unscheduled {
            self.state = self.previous_state.unwrap_or_default();
        }
        snapshot.clone_into(&mut self.policy_snapshot);
        self.decision = decision;
        self.generation += 1;
    }

    /// The condition of that type, if it is about the current generation.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition::current(&self.conditions, kind, self.generation)
    }

    /// Whether the cluster reports differences instead of applying.
    pub fn reports_diff(&self) -> bool {
        self.condition("DiffReported").is_some()
    }

    /// Whether the row failed, so that waiting does not help.
    pub fn failed(&self, behaviour: &Behaviour) -> bool {
        row::failed(&self.conditions, self.generation, behaviour)
    }
}
