//! The federated objects of a hub as a previous plan, and the decision of the replica scheduler about one of them.
//!
//! Facts: the scheduler writes its decision to the federated object itself: the clusters to its placement, the
//! replicas as overrides of `/spec/replicas`. What runs is only in the members.

use serde_json::Value;

use super::config::ControlPlaneConfig;
use super::explanation;
use super::federated_object::FederatedObject;
use super::member::version;
use super::overrides::REPLICAS_PATH;
use super::{KubeFedPlanner, NAME, division::DivisionTrace, preference, types::FederatedTypeIndex};
use federate_dialect::{HubKinds, Placed, Placement, Plan, PlannerInput, PreviousPlan};
use federate_kubernetes::{Object, ObjectRef};

/// The kinds that the previous plan is read from, and the inventory.
pub(crate) const HUB_KINDS: [HubKinds; 2] = [
    HubKinds { group: "core.kubefed.io", kinds: &["KubeFedCluster", "FederatedTypeConfig"] },
    HubKinds { group: "types.kubefed.io", kinds: &[] },
];

/// What the replica scheduler decides about a federated object.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaDecision {
    /// The object with the placement and the overrides of the decision; `None` if the preference has no effect.
    pub rewritten: Option<Value>,
    /// Whether unscheduled pods are too young to count, so that the scheduler decides again soon.
    pub is_waiting: bool,
}

/// Decides about a federated object once; `None` where no preference is about it.
pub fn decide_replicas(input: PlannerInput<'_>, federated: &ObjectRef) -> Option<ReplicaDecision> {
    let plane = KubeFedPlanner::new(input);
    let federated = plane.federated.iter().find(|f| f.object.id == *federated)?;
    let preference = plane.preference_of(federated)?;
    let previous = PreviousPlan::default();
    let observed =
        preference::observe_participants(&plane, preference, federated, &previous).unwrap_or_default();
    let waiting = observed.iter().filter_map(|(_, observed)| observed.waiting).next_back();
    let schedule =
        preference::compute_schedule(&plane, preference, federated, &previous, &mut DivisionTrace::default());
    let rewritten = schedule.ok().map(|schedule| explanation::rewrite_federated(federated, &schedule));
    Some(ReplicaDecision { rewritten, is_waiting: waiting == Some(true) })
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
