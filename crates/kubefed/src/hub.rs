//! The federated objects of a hub as a previous plan, and one run of the replica scheduler over them.
//!
//! Facts: the scheduler writes its decision to the federated object itself: the clusters to its placement, the
//! replicas as overrides of `/spec/replicas`. What runs is only in the members. Without a ready cluster, a run
//! writes nothing.

use serde_json::{Value, json};

use super::config::ControlPlaneConfig;
use super::explanation;
use super::federated_object::FederatedObject;
use super::member::version;
use super::overrides::REPLICAS_PATH;
use super::{KubeFedPlanner, NAME, division::DivisionTrace, preference, types::FederatedTypeIndex};
use federate_dialect::{HubKinds, Placed, Placement, Plan, PlannerInput, PreviousPlan};
use federate_kubernetes::object::value_at;
use federate_kubernetes::{Object, ObjectRef};

/// The kinds that the previous plan is read from, and the inventory.
pub(crate) const HUB_KINDS: [HubKinds; 2] = [
    HubKinds { group: "core.kubefed.io", kinds: &["KubeFedCluster", "FederatedTypeConfig"] },
    HubKinds { group: "types.kubefed.io", kinds: &[] },
];

/// How a run of the scheduler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleRunOutcome {
    /// Nothing is left to do.
    Done,
    /// Unscheduled pods are too young to count, so the scheduler runs again soon.
    Recheck,
    /// The scheduler could not decide.
    Failed,
}

/// The outcome of one run of the scheduler for a federated object.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleRun {
    /// The object as it is written; `None` when nothing changes.
    pub written: Option<Value>,
    /// How the run ends.
    pub outcome: ScheduleRunOutcome,
}

/// Runs the replica scheduler once for a federated object; `None` where no preference is about it.
pub fn run_scheduler(input: PlannerInput<'_>, federated: &ObjectRef) -> Option<ScheduleRun> {
    let plane = KubeFedPlanner::new(input);
    let federated = plane.federated.iter().find(|f| f.object.id == *federated)?;
    let preference = plane.preference_of(federated)?;
    let previous = PreviousPlan::default();
    let failed = ScheduleRun { written: None, outcome: ScheduleRunOutcome::Failed };
    if federated.overrides.is_err() {
        return Some(failed);
    }
    let observed =
        preference::observe_participants(&plane, preference, federated, &previous).unwrap_or_default();
    let waiting = observed.iter().filter_map(|(_, observed)| observed.waiting).next_back();
    let outcome = if waiting == Some(true) { ScheduleRunOutcome::Recheck } else { ScheduleRunOutcome::Done };
    let schedule =
        preference::compute_schedule(&plane, preference, federated, &previous, &mut DivisionTrace::default());
    let written = schedule.ok().map(|schedule| explanation::rewrite_federated(federated, &schedule));
    let written = written.filter(|body| placement_differs(&federated.object.body, body)).map(|mut body| {
        let generation = federated.object.value_at(&["metadata", "generation"]).and_then(Value::as_i64);
        body["metadata"]["generation"] = generation.unwrap_or(0).saturating_add(1).into();
        body
    });
    Some(ScheduleRun { written, outcome })
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

/// The versions of a federated object's template and overrides. The control plane compares them to know whether
/// it has to send the object again.
pub fn propagated_versions(federated: &Object) -> (String, String) {
    version::compute_versions(&federated.body)
}

/// Reads a previous plan from the federated objects of a hub: for each one the clusters of its placement,
/// with the replicas in its overrides.
pub fn read_plan(objects: &[Object]) -> Plan {
    let types = FederatedTypeIndex::from_configs(
        objects.iter(),
        &ControlPlaneConfig::from_objects(objects.iter()).namespace,
    );
    let mut plan = Plan::default();
    for object in objects {
        let Some(kind) = types.get(&object.id) else { continue };
        let Ok(FederatedObject { target, spec, .. }) = FederatedObject::new(object, kind) else { continue };
        let Some(named) = spec.placement.clusters else { continue };
        let mut row = Placement::new(NAME, target, Some(object.id.clone()));
        row.clusters = named
            .iter()
            .map(|c| Placed { name: c.name.as_str().into(), replicas: overridden_replicas(object, &c.name) })
            .collect();
        plan.placements.push(row);
    }
    plan
}

/// The replicas that a federated object's overrides give a cluster.
fn overridden_replicas(object: &Object, cluster: &str) -> Option<i64> {
    let entries = object.value_at(&["spec", "overrides"])?.as_array()?;
    let entry = entries.iter().find(|entry| entry.get("clusterName").is_some_and(|name| name == cluster))?;
    let steps = entry.get("clusterOverrides")?.as_array()?;
    steps
        .iter()
        .find(|step| step.get("path").is_some_and(|path| path == REPLICAS_PATH))?
        .get("value")?
        .as_i64()
}
