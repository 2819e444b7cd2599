//! A run of the scheduler: cycles over a placement's bindings until none requests another cycle.
//!
//! Facts: each cycle first removes its finalizer from bindings that are being deleted, and unschedules those
//! whose cluster is gone or leaving. If the policy cannot be evaluated, the cycle ends there. A picked cluster
//! keeps its row: an obsolete row moves to the new snapshot, an unscheduled one gets its state back. Obsolete
//! rows that are not picked again are unscheduled.

use std::cmp::Reverse;

use federate_kubernetes::Cluster;
use jiff::Timestamp;

use super::binding::{ClusterScore, SCHEDULER_FINALIZER};
use super::{BindingState, ClusterDecision, HubBinding, HubPlacement, PolicySnapshotStatus};
use crate::api::PlacementType;
use crate::cluster::check_eligibility;
use crate::schedule::{self, Rejection, ScheduleOutcome, ScheduleRequest, ScheduleRow, ScheduleRows, Scores};

/// The outcome of a run of the scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerRun {
    /// The number of cycles.
    pub cycles: usize,
    /// The bindings, by cluster; one that is being deleted before its successor.
    pub bindings: Vec<HubBinding>,
    /// The status of the latest policy snapshot.
    pub status: PolicySnapshotStatus,
    /// Why the last cycle was aborted, if it was.
    pub aborted: Option<String>,
}

/// The class of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BindingClass {
    /// It is being deleted or unscheduled, so it does not count.
    None,
    Obsolete,
    Current,
}

impl HubPlacement {
    /// Runs the scheduler.
    pub fn run_scheduler(mut self, now: Timestamp) -> SchedulerRun {
        let mut cycles = 0;
        let aborted = loop {
            cycles += 1;
            match self.run_cycle(now) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(why) => break Some(why),
            }
        };
        self.bindings.sort_by(|a, b| (&a.cluster, !a.deleting).cmp(&(&b.cluster, !b.deleting)));
        SchedulerRun { cycles, bindings: self.bindings, status: self.snapshot.status, aborted }
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
            namespace: self.namespace.as_deref().filter(|_| self.behaviour.namespace_affinity),
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
        for binding in self.bindings.iter_mut().filter(|binding| binding.deleting) {
            binding.finalizers.retain(|finalizer| finalizer != SCHEDULER_FINALIZER);
        }
        self.bindings.retain(|binding| !binding.deleting || !binding.finalizers.is_empty());
    }

    /// The scheduled and bound bindings whose cluster is gone or leaving.
    fn dangling_bindings(&self) -> Vec<usize> {
        let mut dangling = Vec::new();
        for (at, binding) in self.bindings.iter().enumerate() {
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
        all.filter(|(_, binding)| self.classify_binding(binding) == class).map(|(at, _)| at).collect()
    }

    fn current_bindings(&self) -> Vec<usize> {
        self.bindings_of_class(BindingClass::Current)
    }

    fn desired_count(&self) -> usize {
        usize::try_from(self.policy.number_of_clusters.unwrap_or(0)).unwrap_or(0)
    }

    /// The rows for the schedule, by cluster.
    fn schedule_rows(&self) -> ScheduleRows {
        let mut rows = ScheduleRows::empty_for(self.clusters.len());
        for binding in &self.bindings {
            let list = match self.classify_binding(binding) {
                BindingClass::None => continue,
                BindingClass::Obsolete => &mut rows.obsolete,
                BindingClass::Current => &mut rows.current,
            };
            let row = self.find_cluster(&binding.cluster).and_then(|(at, _)| list.get_mut(at));
            let state = match binding.state {
                BindingState::Bound => schedule::ScheduleState::Bound,
                BindingState::Scheduled | BindingState::Unscheduled => schedule::ScheduleState::Scheduled,
            };
            if let Some(row) = row {
                let scores =
                    binding.decision.score.map(|s| Scores { topology: s.topology, affinity: s.affinity });
                *row = Some(ScheduleRow { state, scores });
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
        let row = self.bindings.iter_mut().find(|b| !b.deleting && *b.cluster == *decision.cluster_name);
        if let Some(binding) = row {
            let former = (binding.state != BindingState::Unscheduled, binding.name.clone());
            binding.pick_again(&self.snapshot.name, decision);
            return Some(former);
        }
        self.bindings.push(HubBinding::new(&self.name, &self.snapshot.name, decision));
        self.bindings.sort_by(|a, b| a.name.cmp(&b.name));
        None
    }

    /// The decisions about rows that stay, in the order of their states.
    fn kept_decisions(&self, rows: &[usize], order: [BindingState; 2]) -> Vec<ClusterDecision> {
        let kept = order.into_iter().flat_map(|state| self.bindings_in_state(rows, state));
        kept.map(|binding| binding.decision.clone()).collect()
    }

    /// The bindings at these places that are in a state.
    fn bindings_in_state(&self, rows: &[usize], state: BindingState) -> Vec<&HubBinding> {
        let bindings = rows.iter().filter_map(|at| self.bindings.get(*at));
        bindings.filter(|binding| binding.state == state).collect()
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
            let again = self.bindings.get(at).is_some_and(|b| names.iter().any(|n| **n == *b.cluster));
            if !again {
                self.unschedule_binding(at);
            }
        }
        let kept = self.kept_decisions(&kept, [BindingState::Scheduled, BindingState::Bound]);
        let record = picked.into_iter().map(|(at, scores)| {
            let decision = picked_by_policy(&self.cluster_name(at), Some(scores));
            let former = self.record_pick(decision.clone());
            (former, decision)
        });
        let mut record: Vec<_> = record.collect();
        // New rows in the order in which they were picked, then the former rows in theirs.
        record.sort_by(|a, b| a.0.cmp(&b.0));
        let selected = record.into_iter().map(|(_, decision)| decision).chain(kept).collect();
        let mut others: Vec<ClusterDecision> = passed_over
            .into_iter()
            .map(|(at, scores)| not_enough_score(&self.cluster_name(at), scores))
            .collect();
        let refused = outcome.rejected.iter().enumerate();
        others.extend(refused.filter_map(|(at, r)| refused_by(&self.cluster_name(at), r.as_ref()?)));
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
            let cluster = self.bindings.get(*at).and_then(|binding| self.find_cluster(&binding.cluster));
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
        for name in self.policy.cluster_names.clone() {
            match self.find_cluster(&name) {
                None => missing
                    .push(unselected_decision(&name, format!("Specified cluster \"{name}\" is not found"))),
                Some((at, cluster)) => match check_eligibility(cluster, Some(now)) {
                    Some(why) => {
                        let why = why.scheduler_message();
                        let reason =
                            format!("Cluster \"{name}\" is not eligible for resource placement yet: {why}");
                        invalid.push(unselected_decision(&name, reason));
                    }
                    None => selected.push((at, picked_by_policy(&name, None))),
                },
            }
        }
        for at in self.bindings_of_class(BindingClass::Obsolete) {
            let again = self.bindings.get(at).and_then(|b| self.find_cluster(&b.cluster));
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
fn removal_key(binding: &HubBinding) -> (Option<(i64, i64)>, &str) {
    (binding.decision.score.map(|score| (score.topology, score.affinity)), &binding.cluster)
}

fn unselected_decision(cluster: &str, reason: String) -> ClusterDecision {
    ClusterDecision { cluster_name: cluster.to_owned(), selected: false, score: None, reason }
}

fn describe_scores(scores: Scores) -> (ClusterScore, String) {
    let Scores { topology, affinity } = scores;
    let words = format!("(affinity score: {affinity}, topology spread score: {topology})");
    (ClusterScore { affinity, topology }, words)
}

fn picked_by_policy(cluster: &str, scores: Option<Scores>) -> ClusterDecision {
    let (score, words) = scores.map(describe_scores).unzip();
    let words = words.map(|words| format!(" {words}")).unwrap_or_default();
    let reason = format!(
        "Successfully scheduled resources for placement in \"{cluster}\"{words}: picked by scheduling policy"
    );
    ClusterDecision { cluster_name: cluster.to_owned(), selected: true, score, reason }
}

fn not_enough_score(cluster: &str, scores: Scores) -> ClusterDecision {
    let (score, words) = describe_scores(scores);
    let reason = format!("Cluster \"{cluster}\" does not score high enough {words}");
    ClusterDecision { score: Some(score), ..unselected_decision(cluster, reason) }
}

/// The message of the filter that refuses a cluster; `None` where no filter does.
fn refused_by(cluster: &str, rejection: &Rejection) -> Option<ClusterDecision> {
    let why = match rejection {
        Rejection::Score(_) => return None,
        Rejection::Affinity => {
            "cluster does not match with any of the required cluster affinity terms".to_owned()
        }
        Rejection::Ineligible(why) => why.scheduler_message(),
        Rejection::Namespace(namespace) => format!("cluster does not have the namespace \"{namespace}\""),
        Rejection::Taint(taint) => format!(
            "taint &{{Key:{} Value:{} Effect:{}}} cannot be tolerated",
            taint.key, taint.value, taint.effect
        ),
        Rejection::Spread(by) => {
            let first = by.first()?;
            format!(
                "violated doNotSchedule topology spread constraint \"{}\" (max skew {})",
                first.key, first.max_skew
            )
        }
    };
    Some(unselected_decision(cluster, format!("ClusterUnschedulable, {why}")))
}
