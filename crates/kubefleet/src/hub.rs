//! The objects of a hub: bindings and policy snapshots, read as a previous plan, and one run of the
//! scheduler over them.
//!
//! Facts: a binding is a placement's row for one cluster. Its label names the placement; its own name has no
//! meaning. A row belongs to the policy snapshot that it names; rows of older snapshots are obsolete. A binding
//! that is being deleted does not count.

use federate_dialect::{HubKinds, Placed, Placement, Plan, UnreadableObject};
use federate_kubernetes::{Cluster, Object, ObjectRef};

use crate::api::{NAME, PLACEMENT_GROUP, PlacementPolicy};
use crate::state::{self, KubeFleetState};
use crate::{KubeFleetBehaviour, cluster, updates};

pub mod binding;
mod cycle;
mod released_resources;
pub mod snapshot;

pub use binding::{BindingState, ClusterDecision, HubBinding};
pub use cycle::SchedulerRun;
use released_resources::ReleasedResources;
pub use snapshot::{PolicySnapshot, PolicySnapshotStatus};

/// The label that names the placement of a binding or snapshot.
pub(crate) const PARENT_LABEL: &str = "kubernetes-fleet.io/parent-CRP";

/// A placement with everything that the scheduler reads on the hub.
#[derive(Clone, Debug)]
pub struct HubPlacement {
    /// The placement's name.
    name: String,
    /// The namespace of a `ResourcePlacement`.
    namespace: Option<String>,
    /// The latest policy snapshot.
    snapshot: PolicySnapshot,
    /// Its policy.
    policy: PlacementPolicy,
    /// The fleet, sorted by name.
    clusters: Vec<Cluster>,
    /// The placement's bindings, by name.
    bindings: Vec<HubBinding>,
    /// The rules of the release.
    behaviour: KubeFleetBehaviour,
}

/// The rows of a placement in a previous plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredRows {
    /// The rows.
    pub bindings: Vec<state::StoredBinding>,
    /// Whether they were made under the present policy, unless they are obsolete.
    pub are_of_policy: bool,
}

/// Why a placement on the hub cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has no latest policy snapshot, or several.
    #[error("{0} has {1} policy snapshots that are marked as the latest, but must have exactly one")]
    Snapshots(ObjectRef, usize),
    /// An object that has not the form of its kind.
    #[error(transparent)]
    Unreadable(#[from] UnreadableObject),
}

impl HubPlacement {
    /// The state of a placement, among the objects of a hub.
    pub fn from_objects(
        placement: &ObjectRef,
        objects: &[Object],
        behaviour: &KubeFleetBehaviour,
    ) -> Result<Self, Error> {
        let mut latest: Vec<&Object> =
            policy_snapshots(placement, objects).filter(|o| snapshot::is_latest(o)).collect();
        let (Some(one), true) = (latest.pop(), latest.is_empty()) else {
            return Err(Error::Snapshots(placement.clone(), latest.len()));
        };
        let read =
            PolicySnapshot::from_object(one).and_then(|snapshot| Ok((snapshot.read_policy()?, snapshot)));
        let (policy, snapshot) = read.map_err(|error| UnreadableObject::new(one, error))?;
        Ok(Self {
            name: placement.name.clone(),
            namespace: placement.namespace.clone(),
            snapshot,
            policy,
            clusters: read_clusters(objects, behaviour),
            bindings: read_bindings(placement, objects)?,
            behaviour: *behaviour,
        })
    }

    /// The state of a placement with rows in a previous plan, after its policy was written.
    pub(crate) fn from_stored(
        placement: &ObjectRef,
        policy: &PlacementPolicy,
        rows: &StoredRows,
        clusters: &[Cluster],
        behaviour: &KubeFleetBehaviour,
    ) -> Self {
        let snapshot = PolicySnapshot::for_policy(&placement.name, rows.are_of_policy, policy);
        let bindings = rows.bindings.iter().map(|binding| {
            let is_current = rows.are_of_policy && !binding.obsolete;
            let policy_snapshot = if is_current { snapshot.name.clone() } else { String::new() };
            HubBinding { policy_snapshot, ..HubBinding::from_stored(&placement.name, binding) }
        });
        let mut bindings: Vec<HubBinding> = bindings.collect();
        bindings.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            name: placement.name.clone(),
            namespace: placement.namespace.clone(),
            snapshot,
            policy: policy.clone(),
            clusters: clusters.to_vec(),
            bindings,
            behaviour: *behaviour,
        }
    }

    /// The placement's bindings, by name.
    pub fn bindings(&self) -> &[HubBinding] {
        &self.bindings
    }
}

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

/// The clusters of the hub, sorted by name. Their eligibility depends on the reports of their agents.
fn read_clusters(objects: &[Object], behaviour: &KubeFleetBehaviour) -> Vec<Cluster> {
    let members = objects.iter().filter(|o| o.id.kind == "MemberCluster");
    let mut all: Vec<Cluster> =
        members.map(|object| cluster::read_cluster(object, true, behaviour)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

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
        if let Some(snapshot) = find_policy_snapshot(&placement.id, objects, &counted)? {
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
) -> Result<Option<PolicySnapshot>, UnreadableObject> {
    let mut all = Vec::new();
    for object in policy_snapshots(placement, objects) {
        let read =
            PolicySnapshot::from_object(object).map_err(|error| UnreadableObject::new(object, error))?;
        all.push(read);
    }
    all.sort_by_key(|snapshot| (snapshot.latest, snapshot.index));
    let named = all.iter().rposition(|snapshot| bindings.iter().any(|b| b.policy_snapshot == snapshot.name));
    let at = named.or(all.len().checked_sub(1));
    Ok(at.map(|at| all.swap_remove(at)))
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
        affinity_score: binding.decision.score.map(|score| score.affinity),
        topology_spread_score: binding.decision.score.map(|score| score.topology),
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
