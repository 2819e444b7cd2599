//! The decision about one placement: its former rows, the scheduling cycle, and its new rows with their scheduler state.
//!
//! Facts: a row is always dropped when its cluster is gone or leaving. Rows become obsolete when the policy
//! changes in more than the number of clusters. When a cycle is aborted, the selection fails or admission refuses the
//! placement, all other rows stay. A row that is dropped is remembered until the rollout has removed it: if its cluster
//! is picked again before that, it gets its state back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::api::PlacementPolicy;
use super::failure::SchedulingError;
use super::rollout::row;
use super::schedule::{
    ScheduleOutcome, ScheduleRequest, ScheduleRow, ScheduleRows, ScheduleState, schedule_placement,
};
use super::state::{KubeFleetState, StoredBinding};
use super::{KubeFleetPlane, PlacementSubject, shared_objects, updates};
use crate::api::NAME;
use federate_dialect::{DialectDecisions, Placed, PlacedClusters, Placement, PreviousPlan, Unschedulable};
use federate_kubernetes::{Cluster, Finding, ObjectRef, work};

/// The reason when no cluster is picked.
const NONE_PICKED: &str = "NoClusterPicked";

/// The steps of a cluster of a row, which is compared with those of other rows of the object.
const STEPS_PER_CLUSTER: u64 = 10;

/// A placement's rows before and after.
pub(super) struct PlacementDecision<'p, 'a> {
    plane: &'p KubeFleetPlane<'a>,
    subject: &'p PlacementSubject<'a>,
    /// The former rows, without those of clusters that are gone.
    pub(super) before: PreviousRows,
    pub(super) outcome: Result<ScheduleOutcome, SchedulingError>,
    /// Whether admission refuses the placement, so that it changes nothing.
    is_refused: bool,
}

/// The rows of the previous plan.
pub(super) struct PreviousRows {
    pub(super) rows: Vec<Option<ScheduleRow>>,
    /// The policy under which they were made, as written.
    policy: Option<Value>,
    /// Whether that counts as the same policy.
    pub(super) same_policy: bool,
    /// The rows that were made under a policy before that one.
    obsolete: Vec<bool>,
    /// The former states of rows that are being removed.
    unscheduled: Vec<Option<ScheduleState>>,
    /// The scheduler state of the placement.
    scheduler_state: federate_dialect::scheduler_state::SchedulerState,
}

impl PreviousRows {
    fn new(subject: &PlacementSubject<'_>, clusters: &[Cluster], previous: Option<&Placement>) -> Self {
        let KubeFleetState { policy, bindings, .. } =
            previous.map(KubeFleetState::from_row).unwrap_or_default();
        let live = bindings.iter().flatten().filter(|binding| !binding.deleting);
        let bindings: BTreeMap<&str, &StoredBinding> =
            live.rev().map(|binding| (binding.cluster.as_ref(), binding)).collect();
        // Without an earlier policy the rows count as made under this one.
        let same = policy.as_ref().is_none_or(|old| {
            PlacementPolicy::from_json(Some(old)).is_ok_and(|old| subject.policy.same_snapshot(&old))
        });
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
                *row = row_of_binding(binding);
            }
            if let (Some(obsolete), Some(binding)) = (obsolete.get_mut(index), binding) {
                *obsolete = binding.obsolete;
            }
        }
        let scheduler_state = previous.map(|previous| previous.scheduler_state.clone()).unwrap_or_default();
        Self { rows, policy, same_policy: same, obsolete, unscheduled, scheduler_state }
    }

    /// Marks the bindings that were obsolete before.
    fn mark_obsolete(&self, clusters: &[Cluster], bindings: &mut [StoredBinding]) {
        for binding in bindings {
            let index = clusters.binary_search_by(|c| c.name.cmp(&binding.cluster)).ok();
            binding.obsolete = index.and_then(|index| self.obsolete.get(index)).is_some_and(|is| *is);
        }
    }

    fn split_obsolete(&self) -> ScheduleRows {
        let mut rows = ScheduleRows {
            current: self.rows.clone(),
            obsolete: vec![None; self.rows.len()],
            unscheduled: self.unscheduled.clone(),
        };
        if !self.same_policy {
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
fn unscheduled_state(binding: &StoredBinding) -> Option<ScheduleState> {
    match (binding.state, binding.previous_state?) {
        (row::BindingState::Unscheduled, row::BindingState::Bound) => Some(ScheduleState::Bound),
        _ => None,
    }
}

/// The row of a remembered binding; `None` where the binding is unscheduled.
fn row_of_binding(binding: Option<&StoredBinding>) -> Option<ScheduleRow> {
    let Some(binding) = binding else {
        return Some(ScheduleRow { state: ScheduleState::Bound, scores: None });
    };
    let state = match binding.state {
        row::BindingState::Unscheduled => return None,
        row::BindingState::Scheduled => ScheduleState::Scheduled,
        row::BindingState::Bound => ScheduleState::Bound,
    };
    Some(ScheduleRow { state, scores: binding.scores() })
}

impl<'p, 'a> PlacementDecision<'p, 'a> {
    pub(super) fn new(
        plane: &'p KubeFleetPlane<'a>,
        subject: &'p PlacementSubject<'a>,
        previous: &PreviousPlan,
    ) -> Self {
        let mut decision = Self::new_as_if_admitted(plane, subject, previous);
        if !subject.admitted {
            decision.is_refused = true;
            let message = "admission refuses the placement".to_owned();
            decision.outcome = Err(SchedulingError { reason: "NotAdmitted", message });
        }
        decision
    }

    /// The decision about the placement if admission accepted it.
    pub(super) fn new_as_if_admitted(
        plane: &'p KubeFleetPlane<'a>,
        subject: &'p PlacementSubject<'a>,
        previous: &PreviousPlan,
    ) -> Self {
        let clusters = plane.input.clusters;
        let before = PreviousRows::new(subject, clusters, previous.find_row(&subject.object.id));
        let namespace = subject.object.id.namespace.as_deref().filter(|_| plane.behaviour.namespace_affinity);
        let request = ScheduleRequest { policy: &subject.policy, namespace, clusters, now: plane.input.now };
        let outcome = match subject.selection_error() {
            None => schedule_placement(&request, before.split_obsolete()),
            Some(failure) => Err(failure.clone()),
        };
        Self { plane, subject, before, outcome, is_refused: false }
    }

    /// The rows after it, by cluster.
    pub(super) fn resulting_rows(&self) -> &[Option<ScheduleRow>] {
        self.outcome.as_ref().map_or(&self.before.rows, |outcome| &outcome.rows)
    }

    pub(super) fn placed_clusters(&self) -> impl Iterator<Item = (&'a Cluster, ScheduleRow)> {
        let rows = self.plane.input.clusters.iter().zip(self.resulting_rows());
        rows.filter_map(|(cluster, row)| Some((cluster, (*row)?)))
    }

    /// The row of the placement itself, or of an object that it selects.
    pub(super) fn build_placement(&self, object: &ObjectRef) -> Placement {
        let placed = self.placed_clusters().map(|(c, _)| Placed { name: c.name.clone(), replicas: None });
        self.build_placement_on(object, placed.collect())
    }

    /// The row, on these clusters.
    fn build_placement_on(&self, object: &ObjectRef, clusters: PlacedClusters) -> Placement {
        let own = &self.subject.object.id;
        let mut placement = Placement::new(NAME, object.clone(), Some(own.clone()));
        placement.clusters = clusters;
        placement.unschedulable = self.unschedulable_reason();
        if object == own && self.is_refused {
            placement.scheduler_state = self.before.scheduler_state.clone();
        } else if object == own {
            self.build_state().write_to(&mut placement);
        }
        placement
    }

    fn unschedulable_reason(&self) -> Option<Unschedulable> {
        let (reason, message) = match &self.outcome {
            Err(failure) => (failure.reason, failure.message.clone()),
            Ok(_) if self.placed_clusters().next().is_some() => return None,
            Ok(_) => (NONE_PICKED, "the scheduling policy picks no cluster".to_owned()),
        };
        Some(Unschedulable { reason: reason.to_owned(), message })
    }

    fn build_state(&self) -> KubeFleetState {
        let policy = match (&self.outcome, &self.before.policy) {
            // The rows are still those of the former policy.
            (Err(_), Some(before)) => before.clone(),
            _ => {
                updates::written_policy(&self.subject.object).cloned().unwrap_or_else(updates::default_policy)
            }
        };
        let mut bindings = self.build_bindings();
        if self.outcome.is_err() {
            self.before.mark_obsolete(self.plane.input.clusters, &mut bindings);
        }
        let spec = updates::spec_to_store(&self.subject.object, &policy);
        KubeFleetState { policy: Some(policy), spec: Some(spec), bindings: Some(bindings), placements: None }
    }

    /// The bindings after the decision: those of the clusters, and those that are being removed and had resources.
    fn build_bindings(&self) -> Vec<StoredBinding> {
        let works = self.plane.work_inputs(self.subject, self.placed_clusters().map(|(cluster, _)| cluster));
        let clusters = self.plane.input.clusters.iter().zip(self.resulting_rows()).enumerate();
        let bindings = clusters.filter_map(|(index, (cluster, row))| {
            if let Some(row) = row {
                let works = works.get(&cluster.name).cloned();
                return Some(StoredBinding { works, ..binding_of_row(cluster, *row) });
            }
            let dropped = self.before.rows.get(index).copied().flatten().map(|row| row.state);
            let before = self.before.unscheduled.get(index).copied().flatten();
            let was_bound = dropped.or(before) == Some(ScheduleState::Bound) && !cluster.deleting;
            was_bound.then(|| StoredBinding {
                previous_state: Some(row::BindingState::Bound),
                ..StoredBinding::new(cluster.name.clone(), row::BindingState::Unscheduled)
            })
        });
        bindings.collect()
    }

    /// The findings about the decision. A placement that admission refuses has findings of its own.
    fn collect_findings(&self) -> Vec<Finding> {
        if !self.subject.admitted {
            return Vec::new();
        }
        let object = &*self.subject.object;
        if self.subject.selection_error().is_some() {
            // The selection reports this.
            return Vec::new();
        }
        let picked: Vec<&Cluster> = self.placed_clusters().map(|(cluster, _)| cluster).collect();
        let mut findings = self.plane.update_runs.check_runs(object, &picked, &self.plane.behaviour);
        findings.extend(self.report_unfulfilled());
        findings
    }

    /// The finding about clusters that the policy does not get.
    fn report_unfulfilled(&self) -> Option<Finding> {
        let object = &*self.subject.object;
        let message = match (&self.outcome, self.unschedulable_reason()) {
            (_, Some(Unschedulable { reason, message })) => format!("{}: {reason}: {message}", object.id),
            (Ok(outcome), None) if !outcome.fulfilled => format!(
                "{}: could not find all the clusters needed as specified by the scheduling policy, found {}",
                object.id,
                self.placed_clusters().count()
            ),
            _ => return None,
        };
        let help = format!("`federate explain {}/{}` shows every cluster", object.id.kind, object.id.name);
        Some(Finding::warning("unschedulable", object, message).with_help(help))
    }
}

fn binding_of_row(cluster: &Cluster, row: ScheduleRow) -> StoredBinding {
    let state = match row.state {
        ScheduleState::Scheduled => row::BindingState::Scheduled,
        ScheduleState::Bound => row::BindingState::Bound,
    };
    StoredBinding {
        affinity_score: row.scores.map(|scores| scores.affinity),
        topology_spread_score: row.scores.map(|scores| scores.topology),
        ..StoredBinding::new(cluster.name.clone(), state)
    }
}

/// Decides about one placement and all that it selects.
pub(super) fn decide_placement<'a>(
    plane: &KubeFleetPlane<'a>,
    subject: &PlacementSubject<'a>,
    previous: &PreviousPlan,
) -> DialectDecisions {
    let decision = PlacementDecision::new(plane, subject, previous);
    let clusters: PlacedClusters =
        decision.placed_clusters().map(|(c, _)| Placed { name: c.name.clone(), replicas: None }).collect();
    let objects = std::iter::once(&subject.object.id).chain(subject.selected_objects());
    let placements = objects.map(|object| {
        work::charge_steps(STEPS_PER_CLUSTER * clusters.len() as u64);
        decision.build_placement_on(object, clusters.clone())
    });
    let mut placements: Vec<Placement> = placements.take_while(|_| !work::is_exceeded()).collect();
    if subject.withheld_reason().is_some() {
        placements.extend(kept_placements(plane, subject, previous));
    }
    DialectDecisions { placements, findings: decision.collect_findings(), ..DialectDecisions::default() }
}

/// The former rows of what a placement sent, as far as it does not say any more that it selects it: nothing is sent, and
/// nothing that was sent is removed.
fn kept_placements<'p>(
    plane: &'p KubeFleetPlane<'_>,
    subject: &'p PlacementSubject<'_>,
    previous: &'p PreviousPlan,
) -> impl Iterator<Item = Placement> + 'p {
    let own = &subject.object.id;
    let rows = previous.rows().iter().filter(|row| row.dialect == NAME && row.object != *own);
    let selected: BTreeSet<&ObjectRef> = subject.selected_objects().iter().collect();
    rows.filter(move |row| !selected.contains(&row.object)).filter_map(move |row| {
        let share = shared_objects::read_shares(row).into_iter().find(|share| share.policy == *own)?;
        let mut kept = Placement::new(NAME, row.object.clone(), Some(own.clone()));
        let clusters = plane.input.clusters;
        let names = share.clusters.into_iter().filter(|name| {
            let found = clusters.binary_search_by(|cluster| cluster.name.cmp(name)).ok();
            found.and_then(|index| clusters.get(index)).is_some_and(|cluster| !cluster.deleting)
        });
        kept.clusters = names.map(|name| Placed { name, replicas: None }).collect();
        Some(kept)
    })
}
