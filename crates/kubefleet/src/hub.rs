//! The objects of a hub: bindings and policy snapshots, read as a previous plan.
//!
//! Facts: a binding is a placement's row for one cluster. Its label names the placement; its own name has no
//! meaning. A row belongs to the policy snapshot that it names; rows of older snapshots are obsolete. A binding
//! that is being deleted does not count.

use federate_dialect::{HubKinds, Placed, Placement, Plan, UnreadableObject};
use federate_kubernetes::{Object, ObjectRef};

use crate::api::{NAME, PLACEMENT_GROUP};
use crate::state::{self, KubeFleetState};
use crate::updates;

mod binding;
mod released_resources;
pub mod snapshot;

pub use binding::{BindingState, HubBinding};
use released_resources::ReleasedResources;
use snapshot::PolicySnapshot;

/// The label that names the placement of a binding or snapshot.
pub(crate) const PARENT_LABEL: &str = "kubernetes-fleet.io/parent-CRP";

/// The kinds that the previous plan is read from, and the inventory.
pub(crate) const HUB_KINDS: [HubKinds; 2] = [
    HubKinds { group: "cluster.kubernetes-fleet.io", kinds: &["MemberCluster"] },
    HubKinds {
        group: PLACEMENT_GROUP,
        kinds: &[
            "ClusterResourcePlacement",
            "ResourcePlacement",
            "ClusterResourceBinding",
            "ResourceBinding",
            "ClusterSchedulingPolicySnapshot",
            "SchedulingPolicySnapshot",
            "ClusterResourceOverrideSnapshot",
            "ResourceOverrideSnapshot",
        ],
    },
];

/// Objects of a kind that belong to the placement by their label.
fn objects_of_placement<'o>(
    placement: &'o ObjectRef,
    objects: &'o [Object],
    [cluster_kind, kind]: [&'static str; 2],
) -> impl Iterator<Item = &'o Object> {
    let kind = if placement.namespace.is_none() { cluster_kind } else { kind };
    objects.iter().filter(move |object| {
        object.id.kind == kind
            && object.id.namespace == placement.namespace
            && object.label(PARENT_LABEL) == Some(placement.name.as_str())
    })
}

/// The placement's bindings, by name.
pub fn read_bindings(placement: &ObjectRef, objects: &[Object]) -> Result<Vec<HubBinding>, UnreadableObject> {
    let all = objects_of_placement(placement, objects, ["ClusterResourceBinding", "ResourceBinding"]);
    let bindings = all
        .map(|object| HubBinding::from_object(object).map_err(|error| UnreadableObject::new(object, error)));
    let mut bindings = bindings.collect::<Result<Vec<_>, _>>()?;
    bindings.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(bindings)
}

fn policy_snapshots<'o>(placement: &'o ObjectRef, objects: &'o [Object]) -> impl Iterator<Item = &'o Object> {
    objects_of_placement(placement, objects, ["ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot"])
}

/// The placements of the hub as rows of a previous plan: the clusters that each has, with the states and
/// scores of the bindings, and the policy that they were picked under. Placements that were never scheduled
/// are left out.
pub fn read_plan(objects: &[Object]) -> Result<Plan, UnreadableObject> {
    let placements = objects.iter().filter(|object| {
        object.id.group() == PLACEMENT_GROUP
            && matches!(object.id.kind.as_str(), "ClusterResourcePlacement" | "ResourcePlacement")
    });
    let mut rows = Vec::new();
    for placement in placements {
        let bindings = read_bindings(&placement.id, objects)?;
        let counted: Vec<&HubBinding> = bindings.iter().filter(|binding| binding.is_counted()).collect();
        if let Some(snapshot) = find_policy_snapshot(&placement.id, objects, &counted) {
            let released = ReleasedResources::from_objects(placement, objects);
            rows.push(build_row(placement, &snapshot, &bindings, &released));
        }
    }
    rows.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(Plan { placements: rows, ..Plan::default() })
}

/// The snapshot that the rows belong to: the latest one, if any row is of it or there are no rows; else the
/// last one that a row names.
fn find_policy_snapshot(
    placement: &ObjectRef,
    objects: &[Object],
    bindings: &[&HubBinding],
) -> Option<PolicySnapshot> {
    let mut all: Vec<PolicySnapshot> =
        policy_snapshots(placement, objects).map(PolicySnapshot::from_object).collect();
    all.sort_by_key(|snapshot| (snapshot.latest, snapshot.index));
    let named = all.iter().rposition(|snapshot| bindings.iter().any(|b| b.policy_snapshot == snapshot.name));
    named.map(|at| all.swap_remove(at)).or_else(|| all.pop())
}

/// A placement's row. Its scheduler state has the bindings, also those that do not count: rollouts need them.
fn build_row(
    placement: &Object,
    snapshot: &PolicySnapshot,
    bindings: &[HubBinding],
    released: &ReleasedResources<'_>,
) -> Placement {
    let mut row = Placement::new(NAME, placement.id.clone(), Some(placement.id.clone()));
    let counted = bindings.iter().filter(|binding| binding.is_counted());
    let mut placed: Vec<Placed> =
        counted.map(|b| Placed { name: b.cluster.clone(), replicas: None }).collect();
    placed.sort_by(|a, b| a.name.cmp(&b.name));
    row.clusters = placed.into_iter().collect();
    let stored = bindings.iter().map(|binding| state::StoredBinding {
        affinity_score: binding.scores.map(|scores| scores.affinity),
        topology_spread_score: binding.scores.map(|scores| scores.topology),
        obsolete: binding.policy_snapshot != snapshot.name,
        generation: Some(binding.generation),
        resources: released.resources_of(binding),
        previous_state: binding.previous_state.filter(|_| binding.state == BindingState::Unscheduled),
        deleting: binding.deleting,
        conditions: binding.conditions.clone(),
        ..state::StoredBinding::new(binding.cluster.clone(), binding.state)
    });
    let (policy, bindings) = (snapshot.policy_as_written(), stored.collect());
    let spec = updates::spec_to_store(placement, &policy);
    KubeFleetState { policy: Some(policy), spec: Some(spec), bindings: Some(bindings), placements: None }
        .write_to(&mut row);
    row
}
