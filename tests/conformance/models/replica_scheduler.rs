//! One run of KubeFed's replica scheduler over a federated object.
//!
//! Facts: it writes the object if the placement or the overrides change, in whatever order the overrides are.

use federate_dialect::PlannerInput;
use federate_kubefed::hub::decide_replicas;
use federate_kubernetes::Object;
use federate_kubernetes::object::value_at;
use serde_json::{Value, json};

/// The outcome of one run of the scheduler for a federated object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScheduleRun {
    /// The object as it is written; `None` when nothing changes.
    pub(crate) written: Option<Value>,
    /// Whether it runs again soon.
    pub(crate) rechecks: bool,
}

/// Runs the scheduler once for a federated object with a preference.
pub(crate) fn reconcile(input: PlannerInput<'_>, federated: &Object) -> ScheduleRun {
    let decision = decide_replicas(input, &federated.id).expect("a preference");
    let written =
        decision.rewritten.filter(|body| placement_differs(&federated.body, body)).map(|mut body| {
            let generation = federated.value_at(&["metadata", "generation"]).and_then(Value::as_i64);
            body["metadata"]["generation"] = (generation.unwrap_or(0) + 1).into();
            body
        });
    ScheduleRun { written, rechecks: decision.is_waiting }
}

/// Whether the placement or the overrides differ. The order of overrides does not matter.
fn placement_differs(before: &Value, after: &Value) -> bool {
    value_at(before, &["spec", "placement"]) != value_at(after, &["spec", "placement"])
        || sorted_overrides(before) != sorted_overrides(after)
}

/// The overrides, sorted by cluster. Each entry has a list of operations.
fn sorted_overrides(federated: &Value) -> Vec<Value> {
    let list = value_at(federated, &["spec", "overrides"]).and_then(Value::as_array).cloned();
    let mut list = list.unwrap_or_default();
    list.sort_by(|a, b| a["clusterName"].as_str().cmp(&b["clusterName"].as_str()));
    for entry in &mut list {
        if !entry["clusterOverrides"].is_array() {
            entry["clusterOverrides"] = json!([]);
        }
    }
    list
}
