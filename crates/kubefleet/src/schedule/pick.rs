//! `PickN`: picks the wanted number of clusters, the best first.
//!
//! Facts: surplus rows are removed, scheduled ones before bound ones and the worst first, and that cycle picks
//! no cluster. With the wanted number of rows nothing happens. With spread constraints each cycle picks one
//! cluster. Rows of an earlier policy that the first cycle does not pick again lose their advantage, but not
//! their state.

use std::cmp::Reverse;

use super::eligibility::filter_clusters;
use super::score::AffinityScorer;
use super::spread::Spread;
use super::{Rejection, ScheduleOutcome, ScheduleRequest, ScheduleRow, ScheduleRows, ScheduleState, Scores};
use crate::failure::SchedulingError;
use federate_kubernetes::work;

/// The steps of a cluster that can be picked in each cycle.
const STEPS_PER_CANDIDATE: u64 = 4;

/// A cluster that can be picked, by its index in the fleet.
struct Candidate {
    index: usize,
    scores: Scores,
    /// Whether it has a row of an earlier policy.
    obsolete: bool,
}

pub(super) fn pick_n(
    request: &ScheduleRequest<'_>,
    rows: ScheduleRows,
) -> Result<ScheduleOutcome, SchedulingError> {
    let wanted = usize::try_from(request.policy.number_of_clusters.unwrap_or(0)).unwrap_or(0);
    let present = ScheduleRows::count_rows(&rows.current);
    if wanted <= present {
        let mut kept = rows.current;
        remove_surplus(&mut kept, present - wanted);
        let rejected = vec![None; kept.len()];
        return Ok(ScheduleOutcome { rows: kept, rejected, missing: Vec::new(), fulfilled: true });
    }
    Ok(Cycles::new(request, rows)?.run_cycles(wanted - present))
}

/// Removes `surplus` rows. Clusters are in name order, so equal scores go by name.
fn remove_surplus(rows: &mut [Option<ScheduleRow>], surplus: usize) {
    let mut order: Vec<(ScheduleState, Option<Scores>, usize)> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| row.as_ref().map(|r| (r.state, r.scores, index)))
        .collect();
    order.sort_unstable();
    for (.., index) in order.into_iter().take(surplus) {
        if let Some(row) = rows.get_mut(index) {
            *row = None;
        }
    }
}

/// Runs one cycle, and returns whether another one follows at once.
pub(super) fn run_cycle(
    request: &ScheduleRequest<'_>,
    rows: ScheduleRows,
) -> Result<(ScheduleOutcome, bool), SchedulingError> {
    let wanted = usize::try_from(request.policy.number_of_clusters.unwrap_or(0)).unwrap_or(0);
    let present = ScheduleRows::count_rows(&rows.current);
    if wanted <= present {
        return Ok((pick_n(request, rows)?, false));
    }
    let mut cycles = Cycles::new(request, rows)?;
    let batch = wanted - present;
    let limit = if cycles.single { 1 } else { batch };
    cycles.spread.update_scores();
    let outcome = cycles.run_last_cycle(limit);
    let more = limit < batch && outcome.fulfilled;
    Ok((outcome, more))
}

struct Cycles<'p> {
    rows: ScheduleRows,
    /// The state of each cluster's row once it is picked: a former row gets its state back.
    states: Vec<ScheduleState>,
    /// The filter results that hold in every cycle.
    refused: Vec<Option<Rejection>>,
    /// The clusters that pass the filters and have no row, each with its affinity score.
    open: Vec<(usize, i64)>,
    spread: Spread<'p>,
    /// Whether a cycle picks at most one cluster.
    single: bool,
}

impl<'p> Cycles<'p> {
    fn new(request: &ScheduleRequest<'p>, rows: ScheduleRows) -> Result<Self, SchedulingError> {
        let ScheduleRequest { policy, namespace, clusters, now } = *request;
        let mut refused = filter_clusters(policy, namespace, clusters, now)?;
        let preferences = AffinityScorer::new(policy.preferred_selectors(), clusters)?;
        let mut spread = Spread::new(&policy.topology_spread_constraints, clusters);
        let mut open = Vec::with_capacity(clusters.len());
        let fleet = clusters.iter().zip(&rows.current).zip(&mut refused).enumerate();
        for (index, ((cluster, row), refusal)) in fleet {
            if row.is_some() {
                // A current row stays whatever its cluster is like.
                *refusal = None;
                spread.count_row(index);
            } else if refusal.is_none() {
                open.push((index, preferences.score_cluster(index, cluster)?));
            }
        }
        let single = !policy.topology_spread_constraints.is_empty();
        Ok(Self { states: rows.states_if_picked(), rows, refused, open, spread, single })
    }

    fn run_cycles(mut self, mut batch: usize) -> ScheduleOutcome {
        self.spread.update_scores();
        while self.single && batch > 1 && !work::is_exceeded() {
            work::charge_steps(STEPS_PER_CANDIDATE * self.open.len() as u64);
            let Some(best) = self.list_candidates().min_by_key(rank_candidate) else { break };
            self.pick_cluster(&best);
            self.open.retain(|(index, _)| *index != best.index);
            // Rows that this cycle did not pick again will be unscheduled.
            self.rows.obsolete.clear();
            self.spread.update_scores();
            batch -= 1;
        }
        self.run_last_cycle(batch)
    }

    /// The last cycle, which picks up to `batch` clusters.
    fn run_last_cycle(mut self, batch: usize) -> ScheduleOutcome {
        let mut candidates: Vec<Candidate> = self.list_candidates().collect();
        let many = batch.min(candidates.len());
        if many > 0 && many < candidates.len() {
            candidates.select_nth_unstable_by_key(many - 1, rank_candidate);
        }
        let rest = candidates.split_off(many);
        let mut rejected = std::mem::take(&mut self.refused);
        for (index, _) in &self.open {
            let violations = self.spread.find_violations(*index);
            if let (Some(refusal), false) = (rejected.get_mut(*index), violations.is_empty()) {
                *refusal = Some(Rejection::Spread(violations));
            }
        }
        for other in rest {
            if let Some(refusal) = rejected.get_mut(other.index) {
                *refusal = Some(Rejection::Score(other.scores));
            }
        }
        for picked in &candidates {
            self.pick_cluster(picked);
        }
        ScheduleOutcome { rows: self.rows.current, rejected, missing: Vec::new(), fulfilled: many == batch }
    }

    /// The clusters that can be picked in this cycle.
    fn list_candidates(&self) -> impl Iterator<Item = Candidate> {
        self.open.iter().filter_map(|&(index, affinity)| {
            let topology = self.spread.score_cluster(index)?;
            let obsolete = self.rows.obsolete.get(index).is_some_and(Option::is_some);
            Some(Candidate { index, scores: Scores { topology, affinity }, obsolete })
        })
    }

    /// Makes a row. A former row that is picked again keeps its state.
    fn pick_cluster(&mut self, candidate: &Candidate) {
        let state = self.states.get(candidate.index).copied().unwrap_or(ScheduleState::Scheduled);
        if let Some(row) = self.rows.current.get_mut(candidate.index) {
            *row = Some(ScheduleRow { state, scores: Some(candidate.scores) });
        }
        self.spread.count_row(candidate.index);
    }
}

/// The best first. Clusters are in name order, and of equal ones the last by name is picked.
fn rank_candidate(candidate: &Candidate) -> Reverse<(Scores, bool, usize)> {
    Reverse((candidate.scores, candidate.obsolete, candidate.index))
}

#[cfg(test)]
mod tests;
