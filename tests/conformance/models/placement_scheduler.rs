//! A run of KubeFleet's scheduler: cycles over a placement's bindings until none requests another cycle.
//!
//! Facts: each cycle first removes its finalizer from bindings that are being deleted, and unschedules those
//! whose cluster is gone or leaving. If the policy cannot be evaluated, the cycle ends there. A picked cluster
//! keeps its row: an obsolete row moves to the new snapshot, an unscheduled one gets its state back. Obsolete
//! rows that are not picked again are unscheduled.

use std::cmp::Reverse;

use federate_dialect::Dialect as _;
use federate_kubefleet::KubeFleet;
use federate_kubefleet::hub::{self, BindingState, HubBinding};
use federate_kubefleet::schedule::{
    self, PlacementPolicy, PlacementType, Rejection, ScheduleOutcome, ScheduleRequest, ScheduleRow,
    ScheduleRows, ScheduleState, Scores,
};
use federate_kubernetes::{Cluster, Object, ObjectRef};
use federate_repo::Config;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use snapshot::{ClusterDecision, ClusterScore, PolicySnapshot, PolicySnapshotStatus};

mod reasons;
mod snapshot;

/// The finalizer by which the scheduler keeps a binding until it has seen its deletion.
const SCHEDULER_FINALIZER: &str = "kubernetes-fleet.io/scheduler-crb-cleanup";

/// A placement with everything that the scheduler reads on the hub.
#[derive(Clone, Debug)]
pub(crate) struct HubPlacement {
    name: String,
    /// The latest policy snapshot.
    snapshot: PolicySnapshot,
    policy: PlacementPolicy,
    /// The fleet, sorted by name.
    clusters: Vec<Cluster>,
    /// By name.
    bindings: Vec<ScheduledBinding>,
}

/// A binding with what only the scheduler reads of it.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledBinding {
    pub(crate) row: HubBinding,
    /// Why it was picked.
    pub(crate) decision: ClusterDecision,
    pub(crate) finalizers: Vec<String>,
}

/// The outcome of a run of the scheduler.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerRun {
    /// The number of cycles.
    pub(crate) cycles: usize,
    /// The bindings, by cluster; one that is being deleted before its successor.
    pub(crate) bindings: Vec<ScheduledBinding>,
    /// The status of the latest policy snapshot.
    pub(crate) status: PolicySnapshotStatus,
}

/// The class of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BindingClass {
    /// It is being deleted or unscheduled, so it does not count.
    None,
    Obsolete,
    Current,
}

impl ScheduledBinding {
    /// Reads what only the scheduler reads of a binding.
    fn new(row: HubBinding, objects: &[Object]) -> Self {
        let object = objects.iter().find(|o| o.id.kind == "ClusterResourceBinding" && o.id.name == row.name);
        let object = object.expect("the binding");
        let decision = object.value_at(&["spec", "clusterDecision"]).unwrap_or(&Value::Null);
        let decision = Option::deserialize(decision).expect("a decision").unwrap_or_default();
        let finalizers = object.value_at(&["metadata", "finalizers"]).unwrap_or(&Value::Null);
        let finalizers = Option::deserialize(finalizers).expect("finalizers").unwrap_or_default();
        Self { row, decision, finalizers }
    }

    /// Returns a binding for a cluster that has just been picked.
    fn for_pick(placement: &str, snapshot: &str, decision: ClusterDecision) -> Self {
        let row = HubBinding {
            name: format!("{placement}-{}", decision.cluster_name),
            cluster: decision.cluster_name.as_str().into(),
            state: BindingState::Scheduled,
            previous_state: None,
            deleting: false,
            generation: 1,
            policy_snapshot: snapshot.to_owned(),
            resource_snapshot: String::new(),
            scores: decision.score.map(ClusterScore::to_scores),
            conditions: Vec::new(),
        };
        Self { row, decision, finalizers: vec![SCHEDULER_FINALIZER.to_owned()] }
    }

    fn unschedule(&mut self) {
        self.row.previous_state = Some(self.row.state);
        self.row.state = BindingState::Unscheduled;
        self.row.generation += 1;
    }

    /// Moves the row to a policy snapshot. An unscheduled row gets its former state back, and keeps the annotation with
    /// it.
    fn pick_again(&mut self, snapshot: &str, decision: ClusterDecision) {
        if self.row.state == BindingState::Unscheduled {
            self.row.state = self.row.previous_state.unwrap_or_default();
        }
        snapshot.clone_into(&mut self.row.policy_snapshot);
        self.row.scores = decision.score.map(ClusterScore::to_scores);
        self.decision = decision;
        self.row.generation += 1;
    }
}

impl HubPlacement {
    /// The state of a placement, among the objects of a hub.
    pub(crate) fn from_objects(placement: &ObjectRef, objects: &[Object]) -> Self {
        let snapshot = snapshot::find_latest(placement, objects);
        let clusters = objects.iter().filter(|object| object.id.kind == "MemberCluster").map(|object| {
            KubeFleet.read_cluster(object, true, &Config::default()).expect("a cluster that can be read")
        });
        let mut clusters: Vec<Cluster> = clusters.collect();
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        let rows = hub::read_bindings(placement, objects).expect("bindings that can be read");
        let bindings = rows.into_iter().map(|row| ScheduledBinding::new(row, objects));
        Self {
            name: placement.name.clone(),
            policy: snapshot.read_policy(),
            snapshot,
            clusters,
            bindings: bindings.collect(),
        }
    }

    /// Runs the scheduler.
    pub(crate) fn run_scheduler(mut self, now: Timestamp) -> SchedulerRun {
        let mut cycles = 1;
        // A policy that cannot be evaluated ends the run.
        while self.run_cycle(now).unwrap_or(false) {
            cycles += 1;
        }
        self.bindings
            .sort_by(|a, b| (&a.row.cluster, !a.row.deleting).cmp(&(&b.row.cluster, !b.row.deleting)));
        SchedulerRun { cycles, bindings: self.bindings, status: self.snapshot.status }
    }

    /// Runs one cycle, and returns whether another one follows at once.
    fn run_cycle(&mut self, now: Timestamp) -> Result<bool, String> {
        self.release_deleted();
        for at in self.dangling_bindings() {
            self.unschedule_binding(at);
        }
        let rows = self.schedule_rows();
        let request = ScheduleRequest {
            policy: &self.policy,
            namespace: None,
            clusters: &self.clusters,
            now: Some(now),
        };
        let obsolete: Vec<bool> = rows.obsolete.iter().map(Option::is_some).collect();
        let before: Vec<bool> = rows.current.iter().map(Option::is_some).collect();
        let outcome = schedule::run_cycle(&request, rows);
        let (outcome, more) = outcome.map_err(|failure| failure.message)?;
        match self.policy.placement_type {
            PlacementType::PickFixed if self.policy.cluster_names.is_empty() => {}
            PlacementType::PickFixed => self.pick_fixed(&outcome, &before, now),
            PlacementType::PickN if self.desired_count() <= self.current_bindings().len() => {
                self.downscale_bindings(&outcome, now);
            }
            PlacementType::PickN | PlacementType::PickAll => {
                self.pick_clusters(&outcome, &before, &obsolete, now);
            }
        }
        Ok(more)
    }

    /// Removes the scheduler's finalizer from bindings that are being deleted.
    fn release_deleted(&mut self) {
        for binding in self.bindings.iter_mut().filter(|binding| binding.row.deleting) {
            binding.finalizers.retain(|finalizer| finalizer != SCHEDULER_FINALIZER);
        }
        self.bindings.retain(|binding| !binding.row.deleting || !binding.finalizers.is_empty());
    }

    /// The scheduled and bound bindings whose cluster is gone or leaving.
    fn dangling_bindings(&self) -> Vec<usize> {
        let mut dangling = Vec::new();
        for (at, ScheduledBinding { row: binding, .. }) in self.bindings.iter().enumerate() {
            let is_counted = !binding.deleting && binding.state != BindingState::Unscheduled;
            if is_counted && self.find_cluster(&binding.cluster).is_none_or(|(_, cluster)| cluster.deleting) {
                dangling.push(at);
            }
        }
        dangling
    }

    fn find_cluster(&self, name: &str) -> Option<(usize, &Cluster)> {
        let at = self.clusters.binary_search_by(|cluster| (*cluster.name).cmp(name)).ok()?;
        Some((at, self.clusters.get(at)?))
    }

    fn classify_binding(&self, binding: &HubBinding) -> BindingClass {
        if binding.deleting || binding.state == BindingState::Unscheduled {
            BindingClass::None
        } else if binding.policy_snapshot == self.snapshot.name {
            BindingClass::Current
        } else {
            BindingClass::Obsolete
        }
    }

    fn bindings_of_class(&self, class: BindingClass) -> Vec<usize> {
        let all = self.bindings.iter().enumerate();
        all.filter(|(_, binding)| self.classify_binding(&binding.row) == class).map(|(at, _)| at).collect()
    }

    fn current_bindings(&self) -> Vec<usize> {
        self.bindings_of_class(BindingClass::Current)
    }

    fn desired_count(&self) -> usize {
        usize::try_from(self.policy.number_of_clusters.unwrap_or(0)).unwrap_or(0)
    }

    /// The rows for the schedule, by cluster.
    fn schedule_rows(&self) -> ScheduleRows {
        let none = vec![None; self.clusters.len()];
        let mut rows = ScheduleRows { current: none.clone(), obsolete: none, ..ScheduleRows::default() };
        for ScheduledBinding { row: binding, .. } in &self.bindings {
            let list = match self.classify_binding(binding) {
                BindingClass::None => continue,
                BindingClass::Obsolete => &mut rows.obsolete,
                BindingClass::Current => &mut rows.current,
            };
            let row = self.find_cluster(&binding.cluster).and_then(|(at, _)| list.get_mut(at));
            let state = match binding.state {
                BindingState::Bound => ScheduleState::Bound,
                BindingState::Scheduled | BindingState::Unscheduled => ScheduleState::Scheduled,
            };
            if let Some(row) = row {
                *row = Some(ScheduleRow { state, scores: binding.scores });
            }
        }
        rows
    }

    fn unschedule_binding(&mut self, at: usize) {
        if let Some(binding) = self.bindings.get_mut(at) {
            binding.unschedule();
        }
    }

    /// Records that a cluster is picked. Returns its former row, if any: whether it was in use, and its name.
    fn record_pick(&mut self, decision: ClusterDecision) -> Option<(bool, String)> {
        let row =
            self.bindings.iter_mut().find(|b| !b.row.deleting && *b.row.cluster == *decision.cluster_name);
        if let Some(binding) = row {
            let former = (binding.row.state != BindingState::Unscheduled, binding.row.name.clone());
            binding.pick_again(&self.snapshot.name, decision);
            return Some(former);
        }
        self.bindings.push(ScheduledBinding::for_pick(&self.name, &self.snapshot.name, decision));
        self.bindings.sort_by(|a, b| a.row.name.cmp(&b.row.name));
        None
    }

    /// The decisions about rows that stay, in the order of their states.
    fn kept_decisions(&self, rows: &[usize], order: [BindingState; 2]) -> Vec<ClusterDecision> {
        let kept = order.into_iter().flat_map(|state| self.bindings_in_state(rows, state));
        kept.map(|binding| binding.decision.clone()).collect()
    }

    /// The bindings at these places that are in a state.
    fn bindings_in_state(&self, rows: &[usize], state: BindingState) -> Vec<&ScheduledBinding> {
        let bindings = rows.iter().filter_map(|at| self.bindings.get(*at));
        bindings.filter(|binding| binding.row.state == state).collect()
    }

    /// Adds clusters, for `PickAll` and `PickN`.
    fn pick_clusters(
        &mut self,
        outcome: &ScheduleOutcome,
        before: &[bool],
        obsolete: &[bool],
        now: Timestamp,
    ) {
        let kept = self.current_bindings();
        let by_score = self.policy.placement_type == PlacementType::PickN;
        let mut picked = Vec::new();
        let mut passed_over = Vec::new();
        for (at, row) in outcome.rows.iter().enumerate() {
            match (row, outcome.rejected.get(at)) {
                (Some(row), _) if before.get(at) != Some(&true) => {
                    picked.push((at, row.scores.unwrap_or_default()));
                }
                (None, Some(Some(Rejection::Score(scores)))) => passed_over.push((at, *scores)),
                _ => {}
            }
        }
        if by_score {
            sort_by_rank(&mut picked, obsolete);
        }
        sort_by_rank(&mut passed_over, obsolete);
        let for_obsolete = self.bindings_of_class(BindingClass::Obsolete);
        let names: Vec<String> = picked.iter().map(|(at, _)| self.cluster_name(*at)).collect();
        for at in for_obsolete {
            let again = self.bindings.get(at).is_some_and(|b| names.iter().any(|n| **n == *b.row.cluster));
            if !again {
                self.unschedule_binding(at);
            }
        }
        let kept = self.kept_decisions(&kept, [BindingState::Scheduled, BindingState::Bound]);
        let record = picked.into_iter().map(|(at, scores)| {
            let decision = reasons::picked_by_policy(&self.cluster_name(at), Some(scores));
            let former = self.record_pick(decision.clone());
            (former, decision)
        });
        let mut record: Vec<_> = record.collect();
        // New rows in the order in which they were picked, then the former rows in theirs.
        record.sort_by(|a, b| a.0.cmp(&b.0));
        let selected = record.into_iter().map(|(_, decision)| decision).chain(kept).collect();
        let mut others: Vec<ClusterDecision> = passed_over
            .into_iter()
            .map(|(at, scores)| reasons::not_enough_score(&self.cluster_name(at), scores))
            .collect();
        let refused = outcome.rejected.iter().enumerate();
        others.extend(refused.filter_map(|(at, r)| reasons::refused_by(&self.cluster_name(at), r.as_ref()?)));
        self.snapshot.report_decisions(&self.policy, selected, others, now);
    }

    fn cluster_name(&self, at: usize) -> String {
        self.clusters.get(at).map(|cluster| cluster.name.to_string()).unwrap_or_default()
    }

    /// Removes obsolete and surplus rows, for `PickN` with enough clusters.
    fn downscale_bindings(&mut self, outcome: &ScheduleOutcome, now: Timestamp) {
        let obsolete = self.bindings_of_class(BindingClass::Obsolete);
        let rows = self.current_bindings();
        let surplus = rows.len() - self.desired_count();
        let order = if surplus == 0 && obsolete.is_empty() {
            // Nothing changes, which the scheduler reports in another order.
            [BindingState::Bound, BindingState::Scheduled]
        } else {
            [BindingState::Scheduled, BindingState::Bound]
        };
        for at in obsolete {
            self.unschedule_binding(at);
        }
        let (stay, go): (Vec<usize>, Vec<usize>) = rows.into_iter().partition(|at| {
            let cluster = self.bindings.get(*at).and_then(|binding| self.find_cluster(&binding.row.cluster));
            cluster.and_then(|(at, _)| outcome.rows.get(at)).is_some_and(Option::is_some)
        });
        let mut selected = Vec::new();
        for state in order {
            let mut kept = self.bindings_in_state(&stay, state);
            if !self.bindings_in_state(&go, state).is_empty() {
                // The scheduler sorts rows to remove some of them, the worst first.
                kept.sort_by(|a, b| removal_key(a).cmp(&removal_key(b)));
            }
            selected.extend(kept.into_iter().map(|binding| binding.decision.clone()));
        }
        for at in go {
            self.unschedule_binding(at);
        }
        self.snapshot.report_decisions(&self.policy, selected, Vec::new(), now);
    }

    /// Picks the named clusters if they are eligible, for `PickFixed`.
    fn pick_fixed(&mut self, outcome: &ScheduleOutcome, before: &[bool], now: Timestamp) {
        let (mut selected, mut invalid, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for name in &self.policy.cluster_names {
            let at = self.find_cluster(name).map(|(at, _)| at);
            match at.map(|at| (at, outcome.rejected.get(at).and_then(Option::as_ref))) {
                None => missing.push(reasons::cluster_not_found(name)),
                Some((_, Some(rejection))) => invalid.push(reasons::not_eligible(name, rejection)),
                Some((at, None)) => selected.push((at, reasons::picked_by_policy(name, None))),
            }
        }
        for at in self.bindings_of_class(BindingClass::Obsolete) {
            let again = self.bindings.get(at).and_then(|b| self.find_cluster(&b.row.cluster));
            if !again.is_some_and(|(at, _)| outcome.rows.get(at).is_some_and(Option::is_some)) {
                self.unschedule_binding(at);
            }
        }
        for (at, decision) in &selected {
            if !before.get(*at).copied().unwrap_or(false) {
                self.record_pick(decision.clone());
            }
        }
        let selected = selected.into_iter().map(|(_, decision)| decision).collect();
        self.snapshot.report_decisions(&self.policy, selected, [invalid, missing].concat(), now);
    }
}

/// Sorts clusters by their scores, the best first. Of equal ones, those with an obsolete row come first, then those
/// with the greater index.
fn sort_by_rank(clusters: &mut [(usize, Scores)], obsolete: &[bool]) {
    clusters.sort_by_key(|(at, scores)| Reverse((*scores, obsolete.get(*at) == Some(&true), *at)));
}

/// The key by which rows are sorted to remove some.
fn removal_key(binding: &ScheduledBinding) -> (Option<(i64, i64)>, &str) {
    (binding.row.scores.map(|scores| (scores.topology, scores.affinity)), &binding.row.cluster)
}
