//! How a run reads and writes the bindings of a placement.

use federate_kubernetes::Object;
use federate_kubernetes::condition::{self, Condition};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::ClusterUpdatingStatus;
use super::{Failure, Run, RunWrite};
use crate::KubeFleetBehaviour;
use crate::rollout::row;

/// The desired state of a binding.
#[derive(Clone, Debug)]
pub(super) struct DesiredBinding {
    /// The name of the resource snapshot.
    pub(super) snapshot: String,
    pub(super) apply_strategy: Value,
}

/// A binding with its conditions.
pub(super) struct BindingView<'o> {
    pub(super) object: &'o Object,
    conditions: Vec<Condition>,
    generation: i64,
}

impl<'o> BindingView<'o> {
    pub(super) fn new(object: &'o Object) -> Self {
        let conditions = object.value_at(&["status", "conditions"]).filter(|c| !c.is_null());
        Self {
            object,
            conditions: conditions.and_then(|c| Vec::deserialize(c).ok()).unwrap_or_default(),
            generation: object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0),
        }
    }

    pub(super) fn cluster(&self) -> &'o str {
        self.object.text_at(&["spec", "targetCluster"])
    }

    pub(super) fn state(&self) -> &'o str {
        self.object.text_at(&["spec", "state"])
    }

    fn current_condition(&self, kind: &str) -> Option<&Condition> {
        condition::find_current_condition(&self.conditions, kind, self.generation)
    }

    pub(super) fn has_rollout_started(&self) -> bool {
        self.current_condition("RolloutStarted").is_some_and(Condition::is_true)
    }

    /// Whether its spec is the desired one.
    pub(super) fn is_in_sync(&self, wanted: &DesiredBinding, cluster: &ClusterUpdatingStatus) -> bool {
        let spec = &self.object.body["spec"];
        let apply_strategy = spec.get("applyStrategy").filter(|value| !value.is_null());
        self.object.text_at(&["spec", "resourceSnapshotName"]) == wanted.snapshot
            && apply_strategy == Some(&wanted.apply_strategy)
            && spec["resourceOverrideSnapshots"] == json!(cluster.resource_override_snapshots)
            && spec["clusterResourceOverrideSnapshots"] == json!(cluster.cluster_resource_override_snapshots)
    }

    /// Whether the cluster is updated; an error if that failed.
    pub(super) fn check_updated(
        &self,
        stage: &str,
        run: &str,
        behaviour: &KubeFleetBehaviour,
    ) -> Result<bool, Failure> {
        let is_updated = ["Available", "DiffReported"]
            .iter()
            .any(|kind| self.current_condition(kind).is_some_and(Condition::is_true));
        if is_updated {
            return Ok(true);
        }
        let failed = row::has_failed_condition(&self.conditions, self.generation, behaviour);
        if failed || self.current_condition("DiffReported").is_some_and(Condition::is_false) {
            return Err(Failure::Retry(format!(
                "the cluster updating encountered an error at stage `{stage}`, updateRun := `{run}`"
            )));
        }
        Ok(false)
    }
}

impl Run<'_> {
    /// The binding of a selected cluster.
    pub(super) fn find_binding(&self, cluster: &str) -> Option<BindingView<'_>> {
        let all = self.hub.list_objects(self.kinds.binding, self.namespace.as_deref());
        let own = all.filter(|o| o.label(crate::hub::PARENT_LABEL) == Some(self.placement.as_str()));
        own.map(BindingView::new).find(|b| b.cluster() == cluster && b.state() != "Unscheduled")
    }

    /// Writes the desired spec if `spec` is true, and the condition that the rollout started.
    pub(super) fn write_binding(
        &mut self,
        name: &str,
        wanted: &DesiredBinding,
        cluster: &ClusterUpdatingStatus,
        spec: bool,
    ) {
        let (now, index, run) =
            (self.now, self.status.resource_snapshot_index_used.clone(), self.name.clone());
        let namespace = self.namespace.clone();
        let Some(object) = self.hub.get_mut(self.kinds.binding, namespace.as_deref(), name) else { return };
        if spec {
            write_spec(object, wanted, cluster);
        }
        start_rollout(object, &index, &run, now);
        self.hub.record_write(RunWrite::Binding(name.to_owned()));
    }
}

fn write_spec(object: &mut Object, wanted: &DesiredBinding, cluster: &ClusterUpdatingStatus) {
    let generation = object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    object.body["metadata"]["generation"] = (generation + 1).into();
    let Some(spec) = object.body["spec"].as_object_mut() else { return };
    spec.insert("state".to_owned(), "Bound".into());
    spec.insert("resourceSnapshotName".to_owned(), wanted.snapshot.as_str().into());
    spec.insert("applyStrategy".to_owned(), wanted.apply_strategy.clone());
    for (key, list) in [
        ("resourceOverrideSnapshots", json!(cluster.resource_override_snapshots)),
        ("clusterResourceOverrideSnapshots", json!(cluster.cluster_resource_override_snapshots)),
    ] {
        if list.as_array().is_none_or(Vec::is_empty) {
            spec.remove(key);
        } else {
            spec.insert(key.to_owned(), list);
        }
    }
}

/// Adds the condition that the rollout started.
fn start_rollout(object: &mut Object, index: &str, run: &str, now: Timestamp) {
    let message = format!(
        "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: {index}, \
         updateRun: {run}"
    );
    let generation = object.value_at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
    let condition =
        Condition::new("RolloutStarted", "True", "RolloutStarted", message).at_generation(generation);
    let condition = Condition { last_transition_time: Some(now), ..condition };
    let status = &mut object.body["status"];
    if status["conditions"].is_null() {
        status["conditions"] = json!([]);
    }
    if let Some(all) = status["conditions"].as_array_mut() {
        all.retain(|condition| condition["type"] != "RolloutStarted");
        all.push(json!(condition));
    }
}
