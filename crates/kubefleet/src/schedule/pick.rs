//! `PickN`: picks the wanted number of clusters, the best first.
//!
//! Facts: surplus rows are removed, scheduled ones before bound ones and the worst first, and that cycle picks
//! no cluster. With the wanted number of rows nothing happens. With spread constraints each cycle picks one
//! cluster. Rows of an earlier policy that the first cycle does not pick again lose their advantage, but not
//! their state.

use std::cmp::Reverse;

use super::eligibility::eligibility;
use super::score::Preferences;
use super::spread::Spread;
use super::{Outcome, Rejection, Request, Row, Rows, Scores, State};
use crate::failure::Failure;

/// A cluster that can be picked, by its index in the fleet.
struct Candidate {
    index: usize,
    scores: Scores,
    /// Whether it has a row of an earlier policy.
    obsolete: bool,
}

pub(super) fn pick_n(request: &Request<'_>, rows: Rows) -> Result<Outcome, Failure> {
    let wanted = usize::try_from(request.policy.number_of_clusters.unwrap_or(0)).unwrap_or(0);
    let present = Rows::count(&rows.current);
    if wanted <= present {
        let mut kept = rows.current;
        cut(&mut kept, present - wanted);
        let rejected = vec![None; kept.len()];
        return Ok(Outcome { rows: kept, rejected, missing: Vec::new(), fulfilled: true });
    }
    Ok(Cycles::new(request, rows)?.run(wanted - present))
}

/// Removes `surplus` rows. Clusters are in name order, so equal scores go by name.
fn cut(rows: &mut [Option<Row>], surplus: usize) {
    let mut order: Vec<(State, Option<Scores>, usize)> = rows
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
pub(super) fn cycle(request: &Request<'_>, rows: Rows) -> Result<(Outcome, bool), Failure> {
    let wanted = usize::try_from(request.policy.number_of_clusters.unwrap_or(0)).unwrap_or(0);
    let present = Rows::count(&rows.current);
    if wanted <= present {
        return Ok((pick_n(request, rows)?, false));
    }
    let mut cycles = Cycles::new(request, rows)?;
    let batch = wanted - present;
    let limit = if cycles.single { 1 } else { batch };
    cycles.spread.update_scores();
    let outcome = cycles.finish(limit);
    let more = limit < batch && outcome.fulfilled;
    Ok((outcome, more))
}

struct Cycles<'p> {
    rows: Rows,
    /// The state of each cluster's row once it is picked: a former row gets its state back.
    states: Vec<State>,
    /// The filter results that hold in every cycle.
    refused: Vec<Option<Rejection>>,
    /// The clusters that pass the filters and have no row, each with its affinity score.
    open: Vec<(usize, i64)>,
    spread: Spread<'p>,
    /// Whether a cycle picks at most one cluster.
    single: bool,
}

impl<'p> Cycles<'p> {
    fn new(request: &Request<'p>, rows: Rows) -> Result<Self, Failure> {
        let Request { policy, namespace, clusters, now } = *request;
        let mut refused = eligibility(policy, namespace, clusters, now)?;
        let preferences = Preferences::new(policy.preferred(), clusters)?;
        let mut spread = Spread::new(&policy.topology_spread_constraints, clusters);
        let mut open = Vec::with_capacity(clusters.len());
        let fleet = clusters.iter().zip(&rows.current).zip(&mut refused).enumerate();
        for (index, ((cluster, row), refusal)) in fleet {
            if row.is_some() {
                // A current row stays whatever its cluster is like.
                *refusal = None;
                spread.count(index);
            } else if refusal.is_none() {
                open.push((index, preferences.score(index, cluster)?));
            }
        }
        let single = !policy.topology_spread_constraints.is_empty();
        Ok(Self { states: rows.states_if_picked(), rows, refused, open, spread, single })
    }

    fn run(mut self, mut batch: usize) -> Outcome {
        self.spread.update_scores();
        while self.single && batch > 1 {
            let Some(best) = self.candidates().min_by_key(rank) else { break };
            self.pick(&best);
            self.open.retain(|(index, _)| *index != best.index);
            // Rows that this cycle did not pick again will be unscheduled.
            self.rows.obsolete.clear();
            self.spread.update_scores();
            batch -= 1;
        }
        self.finish(batch)
    }

    /// The last cycle, which picks up to `batch` clusters.
    fn finish(mut self, batch: usize) -> Outcome {
        let mut candidates: Vec<Candidate> = self.candidates().collect();
        let many = batch.min(candidates.len());
        if many > 0 && many < candidates.len() {
            candidates.select_nth_unstable_by_key(many - 1, rank);
        }
        let rest = candidates.split_off(many);
        let mut rejected = std::mem::take(&mut self.refused);
        for (index, _) in &self.open {
            if let (Some(refusal), Err(constraint)) = (rejected.get_mut(*index), self.spread.score(*index)) {
                *refusal = Some(Rejection::Spread(constraint.violated()));
            }
        }
        for other in rest {
            if let Some(refusal) = rejected.get_mut(other.index) {
                *refusal = Some(Rejection::Score(other.scores));
            }
        }
        for picked in &candidates {
            self.pick(picked);
        }
        Outcome { rows: self.rows.current, rejected, missing: Vec::new(), fulfilled: many == batch }
    }

    /// The clusters that can be picked in this cycle.
    fn candidates(&self) -> impl Iterator<Item = Candidate> {
        self.open.iter().filter_map(|&(index, affinity)| {
            let topology = self.spread.score(index).ok()?;
            let obsolete = self.rows.obsolete.get(index).is_some_and(Option::is_some);
            Some(Candidate { index, scores: Scores { topology, affinity }, obsolete })
        })
    }

    /// Makes a row. A former row that is picked again keeps its state.
    fn pick(&mut self, candidate: &Candidate) {
        let state = self.states.get(candidate.index).copied().unwrap_or(State::Scheduled);
        if let Some(row) = self.rows.current.get_mut(candidate.index) {
            *row = Some(Row { state, scores: Some(candidate.scores) });
        }
        self.spread.count(candidate.index);
    }
}

/// The best first. Clusters are in name order, and of equal ones the last by name is picked.
fn rank(candidate: &Candidate) -> Reverse<(Scores, bool, usize)> {
    Reverse((candidate.scores, candidate.obsolete, candidate.index))
}

#[cfg(test)]
mod tests;
