//! The decision about one placement: its former rows, the scheduling cycle, and its new rows with their memory.
//!
//! Facts: a row is always dropped when its cluster is gone or leaving. Rows become obsolete when the policy
//! changes in more than the number of clusters. When a cycle is aborted, the selection fails or admission refuses the
//! placement, all other rows stay. A row that is dropped is remembered until the rollout has removed it: if its cluster
//! is picked again before that, it gets its state back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::api::Policy;
use super::failure::Failure;
use super::hub::RememberedRows;
use super::memory::{Binding, Memory};
use super::rollout::row;
use super::schedule::{Outcome, Request, Row, Rows, Scores, State, schedule};
use super::{KubeFleetPlane, NAME, Subject, shared, updates};
use federate_dialect::{Decided, Placed, PlacedClusters, Placement, Previous, Unschedulable};
use federate_kubernetes::{Cluster, ClusterName, Finding, ObjectRef, work};

/// The reason when no cluster is picked.
const NONE_PICKED: &str = "NoClusterPicked";

/// The steps of a cluster of a row, which is compared with those of other rows of the object.
const STEPS_PER_CLUSTER: u64 = 10;

/// A placement's rows before and after.
pub(super) struct Decision<'p, 'a> {
    plane: &'p KubeFleetPlane<'a>,
    subject: &'p Subject<'a>,
    /// The former rows, without those of clusters that are gone.
    pub(super) before: Before,
    pub(super) outcome: Result<Outcome, Failure>,
    /// Whether admission refuses the placement, so that it changes nothing.
    is_refused: bool,
}

/// The rows of the previous plan.
pub(super) struct Before {
    pub(super) rows: Vec<Option<Row>>,
    /// The policy under which they were made, as written.
    policy: Option<Value>,
    /// Whether that counts as the same policy.
    pub(super) same: bool,
    /// The rows that were made under a policy before that one.
    obsolete: Vec<bool>,
    /// The former states of rows that are being removed.
    unscheduled: Vec<Option<State>>,
    /// The memory of the placement.
    memory: federate_dialect::memory::Memory,
}

impl Before {
    fn new(subject: &Subject<'_>, clusters: &[Cluster], previous: Option<&Placement>) -> Self {
        let Memory { policy, bindings, .. } = previous.map(Memory::of).unwrap_or_default();
        let live = bindings.iter().flatten().filter(|binding| !binding.deleting);
        let bindings: BTreeMap<&str, &Binding> =
            live.rev().map(|binding| (binding.cluster.as_ref(), binding)).collect();
        // Without an earlier policy the rows count as made under this one.
        let same = policy
            .as_ref()
            .is_none_or(|old| Policy::read(Some(old)).is_ok_and(|old| subject.policy.same_snapshot(&old)));
        let mut rows = vec![None; clusters.len()];
        let mut obsolete = vec![false; clusters.len()];
        let mut unscheduled = vec![None; clusters.len()];
        for (index, cluster) in clusters.iter().enumerate().filter(|(_, cluster)| !cluster.deleting) {
            if let (Some(state), Some(binding)) = (unscheduled.get_mut(index), bindings.get(&*cluster.name)) {
                *state = unscheduled_state(binding);
            }
        }
        for placed in previous.map_or(&[][..], |p| &p.clusters) {
            let Ok(index) = clusters.binary_search_by(|c| c.name.cmp(&placed.name)) else { continue };
            let binding = bindings.get(placed.name.as_ref()).copied();
            if let (Some(row), Some(cluster)) = (rows.get_mut(index), clusters.get(index))
                && !cluster.deleting
            {
                *row = remembered(binding);
            }
            if let (Some(obsolete), Some(binding)) = (obsolete.get_mut(index), binding) {
                *obsolete = binding.obsolete;
            }
        }
        let memory = previous.map(|previous| previous.memory.clone()).unwrap_or_default();
        Self { rows, policy, same, obsolete, unscheduled, memory }
    }

    /// Marks the bindings that were obsolete before.
    fn mark_obsolete(&self, clusters: &[Cluster], bindings: &mut [Binding]) {
        for binding in bindings {
            let index = clusters.binary_search_by(|c| c.name.cmp(&binding.cluster)).ok();
            binding.obsolete = index.and_then(|index| self.obsolete.get(index)).is_some_and(|is| *is);
        }
    }

    /// The rows as bindings of the hub.
    pub(super) fn remembered_rows(&self, clusters: &[Cluster]) -> RememberedRows {
        let mut bindings: Vec<Binding> = Vec::new();
        for (index, cluster) in clusters.iter().enumerate() {
            if let Some(row) = self.rows.get(index).copied().flatten() {
                bindings.push(binding(cluster, row));
            } else if self.unscheduled.get(index).copied().flatten().is_some() {
                let unscheduled = Binding::new(cluster.name.clone(), row::State::Unscheduled);
                bindings.push(Binding { previous_state: Some(row::State::Bound), ..unscheduled });
            }
        }
        self.mark_obsolete(clusters, &mut bindings);
        RememberedRows { bindings, are_of_policy: self.same }
    }

    fn split(&self) -> Rows {
        let mut rows = Rows {
            current: self.rows.clone(),
            obsolete: vec![None; self.rows.len()],
            unscheduled: self.unscheduled.clone(),
        };
        if !self.same {
            std::mem::swap(&mut rows.current, &mut rows.obsolete);
            return rows;
        }
        let both = rows.current.iter_mut().zip(&mut rows.obsolete).zip(&self.obsolete);
        for ((current, obsolete), _) in both.filter(|(_, is_obsolete)| **is_obsolete) {
            std::mem::swap(current, obsolete);
        }
        rows
    }
}

/// The state before of a binding that is being removed.
fn unscheduled_state(binding: &Binding) -> Option<State> {
    match (binding.state, binding.previous_state?) {
        (row::State::Unscheduled, row::State::Bound) => Some(State::Bound),
        _ => None,
    }
}

/// The row of a remembered binding; `None` where the binding is unscheduled.
fn remembered(binding: Option<&Binding>) -> Option<Row> {
    let Some(binding) = binding else { return Some(Row { state: State::Bound, scores: None }) };
    let state = match binding.state {
        row::State::Unscheduled => return None,
        row::State::Scheduled => State::Scheduled,
        row::State::Bound => State::Bound,
    };
    let scores = binding.topology_spread_score.zip(binding.affinity_score);
    Some(Row { state, scores: scores.map(|(topology, affinity)| Scores { topology, affinity }) })
}

impl<'p, 'a> Decision<'p, 'a> {
    pub(super) fn new(plane: &'p KubeFleetPlane<'a>, subject: &'p Subject<'a>, previous: &Previous) -> Self {
        let mut decision = Self::as_if_admitted(plane, subject, previous);
        if !subject.admitted {
            decision.is_refused = true;
            let message = "admission refuses the placement".to_owned();
            decision.outcome = Err(Failure { reason: "NotAdmitted", message });
        }
        decision
    }

    /// The decision about the placement if admission accepted it.
    pub(super) fn as_if_admitted(
        plane: &'p KubeFleetPlane<'a>,
        subject: &'p Subject<'a>,
        previous: &Previous,
    ) -> Self {
        let clusters = plane.input.clusters;
        let before = Before::new(subject, clusters, previous.of(&subject.object.id));
        let namespace = subject.object.id.namespace.as_deref().filter(|_| plane.behaviour.namespace_affinity);
        let request = Request { policy: &subject.policy, namespace, clusters, now: plane.input.now };
        let outcome = match &subject.selected {
            Ok(_) => schedule(&request, before.split()),
            Err(failure) => Err(failure.clone()),
        };
        Self { plane, subject, before, outcome, is_refused: false }
    }

    /// The rows after it, by cluster.
    pub(super) fn rows(&self) -> &[Option<Row>] {
        self.outcome.as_ref().map_or(&self.before.rows, |outcome| &outcome.rows)
    }

    pub(super) fn placed(&self) -> impl Iterator<Item = (&'a Cluster, Row)> {
        let rows = self.plane.input.clusters.iter().zip(self.rows());
        rows.filter_map(|(cluster, row)| Some((cluster, (*row)?)))
    }

    /// The row of the placement itself, or of an object that it selects.
    pub(super) fn placement(&self, object: &ObjectRef) -> Placement {
        let placed = self.placed().map(|(c, _)| Placed { name: c.name.clone(), replicas: None });
        self.placement_on(object, placed.collect())
    }

    /// The row, on these clusters.
    fn placement_on(&self, object: &ObjectRef, clusters: PlacedClusters) -> Placement {
        let own = &self.subject.object.id;
        let mut placement = Placement::new(NAME, object.clone(), Some(own.clone()));
        placement.clusters = clusters;
        placement.unschedulable = self.unschedulable();
        if object == own && self.is_refused {
            placement.memory = self.before.memory.clone();
        } else if object == own {
            self.memory().write(&mut placement);
        }
        placement
    }

    fn unschedulable(&self) -> Option<Unschedulable> {
        let (reason, message) = match &self.outcome {
            Err(failure) => (failure.reason, failure.message.clone()),
            Ok(_) if self.placed().next().is_some() => return None,
            Ok(_) => (NONE_PICKED, "the scheduling policy picks no cluster".to_owned()),
        };
        Some(Unschedulable { reason: reason.to_owned(), message })
    }

    fn memory(&self) -> Memory {
        let written = self.subject.object.at(&["spec", "policy"]).filter(|p| !p.is_null());
        let current = || written.cloned().unwrap_or_else(updates::default_policy);
        let policy = match (&self.outcome, &self.before.policy) {
            // The rows are still those of the former policy.
            (Err(_), Some(before)) => before.clone(),
            _ => current(),
        };
        let mut bindings = self.bindings();
        if self.outcome.is_err() {
            self.before.mark_obsolete(self.plane.input.clusters, &mut bindings);
        }
        let spec = updates::remembered_spec(&self.subject.object, &policy);
        Memory { policy: Some(policy), spec: Some(spec), bindings: Some(bindings), placements: None }
    }

    /// The bindings after the decision: those of the clusters, and those that are being removed and had resources.
    fn bindings(&self) -> Vec<Binding> {
        let works = self.plane.work_inputs(self.subject, self.placed().map(|(cluster, _)| cluster));
        let clusters = self.plane.input.clusters.iter().zip(self.rows()).enumerate();
        let bindings = clusters.filter_map(|(index, (cluster, row))| {
            if let Some(row) = row {
                let works = works.get(&cluster.name).cloned();
                return Some(Binding { works, ..binding(cluster, *row) });
            }
            let dropped = self.before.rows.get(index).copied().flatten().map(|row| row.state);
            let before = self.before.unscheduled.get(index).copied().flatten();
            let was_bound = dropped.or(before) == Some(State::Bound) && !cluster.deleting;
            was_bound.then(|| Binding {
                previous_state: Some(row::State::Bound),
                ..Binding::new(cluster.name.clone(), row::State::Unscheduled)
            })
        });
        bindings.collect()
    }

    /// The findings about the decision. A placement that admission refuses has findings of its own.
    fn findings(&self) -> Vec<Finding> {
        if !self.subject.admitted {
            return Vec::new();
        }
        let object = &*self.subject.object;
        if self.subject.selected.is_err() {
            // The selection reports this.
            return Vec::new();
        }
        let picked: Vec<&Cluster> = self.placed().map(|(cluster, _)| cluster).collect();
        let mut findings = self.plane.update_runs.check(object, &picked, &self.plane.behaviour);
        findings.extend(self.unfulfilled());
        findings
    }

    /// The finding about clusters that the policy does not get.
    fn unfulfilled(&self) -> Option<Finding> {
        let object = &*self.subject.object;
        let message = match (&self.outcome, self.unschedulable()) {
            (_, Some(Unschedulable { reason, message })) => format!("{}: {reason}: {message}", object.id),
            (Ok(outcome), None) if !outcome.fulfilled => format!(
                "{}: could not find all the clusters needed as specified by the scheduling policy, found {}",
                object.id,
                self.placed().count()
            ),
            _ => return None,
        };
        let help = format!("`federate explain {}/{}` shows every cluster", object.id.kind, object.id.name);
        Some(Finding::warning("unschedulable", object, message).help(help))
    }
}

fn binding(cluster: &Cluster, row: Row) -> Binding {
    let state = match row.state {
        State::Scheduled => row::State::Scheduled,
        State::Bound => row::State::Bound,
    };
    Binding {
        affinity_score: row.scores.map(|scores| scores.affinity),
        topology_spread_score: row.scores.map(|scores| scores.topology),
        ..Binding::new(cluster.name.clone(), state)
    }
}

/// Decides about one placement and all that it selects.
pub(super) fn decide<'a>(plane: &KubeFleetPlane<'a>, subject: &Subject<'a>, previous: &Previous) -> Decided {
    let decision = Decision::new(plane, subject, previous);
    let clusters: PlacedClusters =
        decision.placed().map(|(c, _)| Placed { name: c.name.clone(), replicas: None }).collect();
    let objects = std::iter::once(&subject.object.id).chain(subject.selected());
    let row = |object| {
        work::charge(STEPS_PER_CLUSTER * clusters.len() as u64);
        decision.placement_on(object, clusters.clone())
    };
    let mut placements: Vec<Placement> = objects.map(row).take_while(|_| !work::is_exceeded()).collect();
    if subject.withholds().is_some() {
        placements.extend(kept(plane, subject, previous));
    }
    Decided { placements, findings: decision.findings(), ..Decided::default() }
}

/// The former rows of what a placement sent, as far as it does not say any more that it selects it: nothing is sent, and
/// nothing that was sent is removed.
fn kept<'p>(
    plane: &'p KubeFleetPlane<'_>,
    subject: &'p Subject<'_>,
    previous: &'p Previous,
) -> impl Iterator<Item = Placement> + 'p {
    let own = &subject.object.id;
    let exists = |name: &ClusterName| {
        let found = plane.input.clusters.binary_search_by(|cluster| cluster.name.cmp(name)).ok();
        found.and_then(|index| plane.input.clusters.get(index)).is_some_and(|cluster| !cluster.deleting)
    };
    let rows = previous.rows().iter().filter(|row| row.dialect == NAME && row.object != *own);
    let selected: BTreeSet<&ObjectRef> = subject.selected().iter().collect();
    rows.filter(move |row| !selected.contains(&row.object)).filter_map(move |row| {
        let share = shared::shares(row).into_iter().find(|share| share.policy == *own)?;
        let mut kept = Placement::new(NAME, row.object.clone(), Some(own.clone()));
        let names = share.clusters.into_iter().filter(|name| exists(name));
        kept.clusters = names.map(|name| Placed { name, replicas: None }).collect();
        Some(kept)
    })
}
