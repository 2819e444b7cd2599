//! `PickN`: as many clusters as wanted, the best first.
//!
//! Facts: too many rows are cut, those not released yet before others and the worst first; nothing is
//! scheduled in that cycle. With as many as wanted, nothing happens at all. With spread constraints
//! clusters are picked one a cycle, and whatever the first cycle does not pick again of an earlier
//! policy's rows loses its advantage, but not its state.

use std::cmp::Reverse;

use super::score::Preferences;
use super::screen::screen;
use super::spread::Spread;
use super::{Failure, Outcome, Rejection, Request, Row, Rows, Scores, State};

/// A cluster that can be picked, by its place in the fleet.
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
    Cycles::new(request, rows)?.run(wanted - present)
}

/// Takes `surplus` rows away: clusters stand in name order, so equal scores go by name.
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

struct Cycles<'p> {
    rows: Rows,
    /// What refuses a cluster in every cycle.
    refused: Vec<Option<Rejection>>,
    /// The affinity score of every cluster that nothing refuses.
    affinity: Vec<i64>,
    spread: Spread<'p>,
    /// How many a cycle may pick.
    limit: usize,
}

impl<'p> Cycles<'p> {
    fn new(request: &Request<'p>, rows: Rows) -> Result<Self, Failure> {
        let Request { policy, namespace, clusters, now } = *request;
        let refused = screen(policy, namespace, clusters, now)?;
        let preferences = Preferences::new(policy.preferred(), clusters)?;
        let score = |(index, cluster)| match refused.get(index) {
            Some(None) => preferences.score(index, cluster),
            _ => Ok(0),
        };
        let affinity = clusters.iter().enumerate().map(score).collect::<Result<_, _>>()?;
        let mut spread = Spread::new(&policy.topology_spread_constraints, clusters);
        let held = rows.current.iter().enumerate().filter(|(_, row)| row.is_some());
        held.for_each(|(index, _)| spread.count(index));
        let limit = if policy.topology_spread_constraints.is_empty() { usize::MAX } else { 1 };
        Ok(Self { rows, refused, affinity, spread, limit })
    }

    fn run(mut self, mut batch: usize) -> Result<Outcome, Failure> {
        let former = self.rows.obsolete.clone();
        loop {
            self.spread.settle();
            let (mut candidates, violating) = self.candidates();
            let many = batch.min(self.limit).min(candidates.len());
            if many < candidates.len() && many > 0 {
                candidates.select_nth_unstable_by_key(many - 1, rank);
            }
            let rest = candidates.split_off(many);
            for picked in candidates {
                let state = former.get(picked.index).copied().flatten().map_or(State::Scheduled, |r| r.state);
                if let Some(row) = self.rows.current.get_mut(picked.index) {
                    *row = Some(Row { state, scores: Some(picked.scores) });
                }
                self.spread.count(picked.index);
            }
            self.rows.obsolete.fill(None);
            batch -= many;
            if batch == 0 || many < self.limit {
                return Ok(self.outcome(rest, violating, batch == 0));
            }
        }
    }

    /// The clusters that can be picked, and those that a constraint refuses.
    fn candidates(&self) -> (Vec<Candidate>, Vec<(usize, &'p str)>) {
        let (mut candidates, mut violating) = (Vec::with_capacity(self.affinity.len()), Vec::new());
        let clusters = self.refused.iter().zip(&self.rows.current).zip(&self.affinity).enumerate();
        for (index, ((refused, row), &affinity)) in clusters {
            if refused.is_some() || row.is_some() {
                continue;
            }
            match self.spread.score(index) {
                Ok(topology) => {
                    let obsolete = self.rows.obsolete.get(index).is_some_and(Option::is_some);
                    candidates.push(Candidate { index, scores: Scores { topology, affinity }, obsolete });
                }
                Err(key) => violating.push((index, key)),
            }
        }
        (candidates, violating)
    }

    fn outcome(self, rest: Vec<Candidate>, violating: Vec<(usize, &str)>, fulfilled: bool) -> Outcome {
        let mut rejected = self.refused;
        for (refusal, row) in rejected.iter_mut().zip(&self.rows.current) {
            // A row of the current policy stays, whatever its cluster is like by now.
            if row.is_some() {
                *refusal = None;
            }
        }
        let others = rest.into_iter().map(|c| (c.index, Rejection::Score(c.scores)));
        let violating = violating.into_iter().map(|(index, key)| (index, Rejection::Spread(key.to_owned())));
        for (index, why) in others.chain(violating) {
            if let Some(refusal) = rejected.get_mut(index) {
                *refusal = Some(why);
            }
        }
        Outcome { rows: self.rows.current, rejected, missing: Vec::new(), fulfilled }
    }
}

/// The best first: clusters stand in name order, and of equal ones the last by name is picked.
fn rank(candidate: &Candidate) -> Reverse<(Scores, bool, usize)> {
    Reverse((candidate.scores, candidate.obsolete, candidate.index))
}

#[cfg(test)]
mod tests;
