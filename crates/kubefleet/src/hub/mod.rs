//! The objects of a hub: bindings and policy snapshots, read as the memory of a plan, and one run of the
//! scheduler over them.
//!
//! Facts: a binding is a placement's row for one cluster. Its label names the placement; its own name has no
//! meaning. A row belongs to the policy snapshot that it names; rows of older snapshots are obsolete. A binding
//! that is being deleted does not count.

use federate_dialect::{HubKinds, Placed, Placement, Plan};
use federate_kubernetes::{Cluster, Object, ObjectRef};

use crate::api::Policy;
use crate::memory::{self, Memory};
use crate::{Behaviour, NAME, PLACEMENT_GROUP, cluster, updates};

pub mod binding;
mod cycle;
mod released;
pub mod snapshot;

pub use binding::{Binding, Decision, State};
pub use cycle::Run;
use released::Released;
pub use snapshot::{Snapshot, SnapshotStatus};

/// The label that names the placement of a binding or snapshot.
pub(crate) const PARENT: &str = "kubernetes-fleet.io/parent-CRP";

/// A placement with everything that the scheduler reads on the hub.
#[derive(Clone, Debug)]
pub struct Hub {
    /// The placement's name.
    name: String,
    /// The namespace of a `ResourcePlacement`.
    namespace: Option<String>,
    /// The latest policy snapshot.
    snapshot: Snapshot,
    /// Its policy.
    policy: Policy,
    /// The fleet, sorted by name.
    clusters: Vec<Cluster>,
    /// The placement's bindings, by name.
    bindings: Vec<Binding>,
    /// The rules of the release.
    behaviour: Behaviour,
}

/// The rows of a placement that a plan remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RememberedRows {
    /// The rows.
    pub bindings: Vec<memory::Binding>,
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
    #[error("{0} cannot be read: {1}")]
    Unreadable(ObjectRef, serde_json::Error),
}

impl Hub {
    /// The state of a placement, among the objects of a hub.
    pub fn of(placement: &ObjectRef, objects: &[Object], behaviour: &Behaviour) -> Result<Self, Error> {
        let mut latest: Vec<&Object> =
            snapshots(placement, objects).filter(|o| snapshot::is_latest(o)).collect();
        let (Some(one), true) = (latest.pop(), latest.is_empty()) else {
            return Err(Error::Snapshots(placement.clone(), latest.len()));
        };
        let unreadable = |error| Error::Unreadable(one.id.clone(), error);
        let snapshot = Snapshot::read(one).map_err(unreadable)?;
        let policy = snapshot.policy().map_err(unreadable)?;
        Ok(Self {
            name: placement.name.clone(),
            namespace: placement.namespace.clone(),
            snapshot,
            policy,
            clusters: clusters(objects, behaviour),
            bindings: bindings(placement, objects)?,
            behaviour: *behaviour,
        })
    }

    /// The state of a placement whose rows a plan remembers, after its policy was written.
    pub(crate) fn remembered(
        placement: &ObjectRef,
        policy: &Policy,
        rows: &RememberedRows,
        clusters: &[Cluster],
        behaviour: &Behaviour,
    ) -> Self {
        let snapshot = Snapshot::latest(&placement.name, rows.are_of_policy, policy);
        let binding = |binding: &memory::Binding| {
            let is_current = rows.are_of_policy && !binding.obsolete;
            let policy_snapshot = if is_current { snapshot.name.clone() } else { String::new() };
            Binding { policy_snapshot, ..Binding::remembered(&placement.name, binding) }
        };
        let mut bindings: Vec<Binding> = rows.bindings.iter().map(binding).collect();
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
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }
}

/// The kinds that the memory is read from, and the inventory.
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
fn clusters(objects: &[Object], behaviour: &Behaviour) -> Vec<Cluster> {
    let members = objects.iter().filter(|o| o.id.kind == "MemberCluster");
    let mut all: Vec<Cluster> = members.map(|object| cluster::read(object, true, behaviour)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Objects of a kind that belong to the placement by their label.
fn belonging<'o>(
    placement: &'o ObjectRef,
    objects: &'o [Object],
    [cluster_kind, kind]: [&'static str; 2],
) -> impl Iterator<Item = &'o Object> {
    let kind = if placement.namespace.is_none() { cluster_kind } else { kind };
    objects.iter().filter(move |object| {
        object.id.kind == kind
            && object.id.namespace == placement.namespace
            && object.label(PARENT) == Some(placement.name.as_str())
    })
}

/// The placement's bindings, by name.
pub fn bindings(placement: &ObjectRef, objects: &[Object]) -> Result<Vec<Binding>, Error> {
    let all = belonging(placement, objects, ["ClusterResourceBinding", "ResourceBinding"]);
    let read = |o: &Object| Binding::read(o).map_err(|error| Error::Unreadable(o.id.clone(), error));
    let mut bindings = all.map(read).collect::<Result<Vec<_>, _>>()?;
    bindings.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(bindings)
}

fn snapshots<'o>(placement: &'o ObjectRef, objects: &'o [Object]) -> impl Iterator<Item = &'o Object> {
    belonging(placement, objects, ["ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot"])
}

/// What the hub remembers of its placements, as rows of a plan: the clusters that each has, with the states and
/// scores of the bindings, and the policy that they were picked under. Placements that were never scheduled
/// are left out.
pub fn memory_of(objects: &[Object]) -> Result<Plan, Error> {
    let placements = objects.iter().filter(|object| {
        object.id.group() == PLACEMENT_GROUP
            && matches!(object.id.kind.as_str(), "ClusterResourcePlacement" | "ResourcePlacement")
    });
    let mut rows = Vec::new();
    for placement in placements {
        let bindings = bindings(&placement.id, objects)?;
        let counted: Vec<&Binding> = bindings.iter().filter(|binding| binding.counts()).collect();
        if let Some(snapshot) = policy_of(&placement.id, objects, &counted)? {
            let released = Released::of(placement, objects);
            rows.push(remembered(placement, &snapshot, &bindings, &released));
        }
    }
    rows.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(Plan { placements: rows, ..Plan::default() })
}

/// The snapshot that the rows belong to: the latest one, if any row is of it or there are no rows; else the
/// last one that a row names.
fn policy_of(
    placement: &ObjectRef,
    objects: &[Object],
    bindings: &[&Binding],
) -> Result<Option<Snapshot>, Error> {
    let mut all = Vec::new();
    for object in snapshots(placement, objects) {
        let read = Snapshot::read(object).map_err(|error| Error::Unreadable(object.id.clone(), error))?;
        all.push(read);
    }
    all.sort_by_key(|snapshot| (snapshot.latest, snapshot.index));
    let named = |snapshot: &Snapshot| bindings.iter().any(|b| b.policy_snapshot == snapshot.name);
    let at = all.iter().rposition(named).or(all.len().checked_sub(1));
    Ok(at.map(|at| all.swap_remove(at)))
}

/// A placement's row. What a binding is remembered for has the keys of the memory that a plan has. Bindings that do not
/// count are remembered for rollouts only.
fn remembered(
    placement: &Object,
    snapshot: &Snapshot,
    bindings: &[Binding],
    released: &Released<'_>,
) -> Placement {
    let mut row = Placement::new(NAME, placement.id.clone(), Some(placement.id.clone()));
    let counted = bindings.iter().filter(|binding| binding.counts());
    let mut placed: Vec<Placed> =
        counted.map(|b| Placed { name: b.cluster.clone(), replicas: None }).collect();
    placed.sort_by(|a, b| a.name.cmp(&b.name));
    row.clusters = placed.into_iter().collect();
    let binding = |binding: &Binding| memory::Binding {
        affinity_score: binding.decision.score.map(|score| score.affinity),
        topology_spread_score: binding.decision.score.map(|score| score.topology),
        obsolete: binding.policy_snapshot != snapshot.name,
        generation: Some(binding.generation),
        resources: released.to(binding),
        previous_state: binding.previous_state.filter(|_| binding.state == State::Unscheduled),
        deleting: binding.deleting,
        conditions: binding.conditions.clone(),
        ..memory::Binding::new(binding.cluster.clone(), binding.state)
    };
    let (policy, bindings) = (snapshot.policy_as_written(), bindings.iter().map(binding).collect());
    let spec = updates::remembered_spec(placement, &policy);
    Memory { policy: Some(policy), spec: Some(spec), bindings: Some(bindings), placements: None }
        .write(&mut row);
    row
}
