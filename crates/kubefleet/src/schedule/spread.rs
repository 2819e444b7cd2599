//! Topology spread constraints: how picking a cluster changes the skew between domains.
//!
//! Facts: all clusters of the fleet have domains, even those that cannot be picked. Only rows of the current
//! policy count. A cluster without the label never violates a constraint and adds nothing to its score.
//! `DoNotSchedule` constraints come before `ScheduleAnyway` ones.

use std::collections::BTreeMap;

use super::super::api::{TopologySpreadConstraint, WhenUnsatisfiable};
use federate_kubernetes::Cluster;

/// The penalty for violating a `ScheduleAnyway` constraint.
const PENALTY: i64 = 1000;

/// A constraint that one more row would violate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadViolation {
    /// The label whose values are the domains.
    pub key: String,
    /// The greatest skew that it permits.
    pub max_skew: i64,
    /// The index of the constraint in the policy.
    pub at: usize,
}

/// The constraints of a policy over one fleet.
pub(super) struct Spread<'p> {
    constraints: Vec<SkewConstraint<'p>>,
}

struct SkewConstraint<'p> {
    /// Its index in the policy.
    at: usize,
    key: &'p str,
    max_skew: i64,
    strict: bool,
    /// The domain of each cluster.
    domains: Vec<Option<usize>>,
    /// The rows in each domain.
    counts: Vec<i64>,
    /// The score of each domain; `None` where one more row violates a constraint.
    scores: Vec<Option<i64>>,
}

impl<'p> Spread<'p> {
    pub(super) fn new(constraints: &'p [TopologySpreadConstraint], clusters: &[Cluster]) -> Self {
        let (strict, preferred): (Vec<_>, Vec<_>) = constraints
            .iter()
            .enumerate()
            .partition(|(_, c)| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        let ordered = strict.into_iter().chain(preferred);
        Self { constraints: ordered.map(|(at, c)| SkewConstraint::new(at, c, clusters)).collect() }
    }

    /// Counts a row on the cluster at `index`.
    pub(super) fn count_row(&mut self, index: usize) {
        for constraint in &mut self.constraints {
            let domain = constraint.domains.get(index).copied().flatten();
            if let Some(count) = domain.and_then(|d| constraint.counts.get_mut(d)) {
                *count += 1;
            }
        }
    }

    /// Recomputes the scores from the counts.
    pub(super) fn update_scores(&mut self) {
        self.constraints.iter_mut().for_each(SkewConstraint::update_scores);
    }

    /// The score of the cluster at `index`; `None` if it would violate a constraint.
    pub(super) fn score_cluster(&self, index: usize) -> Option<i64> {
        self.constraints.iter().map(|constraint| constraint.score_cluster(index)).sum()
    }

    /// The constraints that the cluster at `index` would violate.
    pub(super) fn find_violations(&self, index: usize) -> Vec<SpreadViolation> {
        let violated = self.constraints.iter().filter(|constraint| constraint.score_cluster(index).is_none());
        violated.map(SkewConstraint::to_violation).collect()
    }
}

impl<'p> SkewConstraint<'p> {
    fn new(at: usize, constraint: &'p TopologySpreadConstraint, clusters: &[Cluster]) -> Self {
        let mut numbers = BTreeMap::new();
        let key = constraint.topology_key.as_str();
        let domains = clusters
            .iter()
            .map(|c| {
                let next = numbers.len();
                Some(*numbers.entry(c.labels.get(key)?.as_str()).or_insert(next))
            })
            .collect();
        Self {
            at,
            key,
            max_skew: constraint.max_skew.0,
            strict: constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule,
            domains,
            counts: vec![0; numbers.len()],
            scores: Vec::new(),
        }
    }

    /// The score of the cluster at `index`; `None` if it would violate the constraint.
    fn score_cluster(&self, index: usize) -> Option<i64> {
        match self.domains.get(index).copied().flatten() {
            Some(domain) => self.scores.get(domain).copied().flatten(),
            None => Some(0),
        }
    }

    /// The violation of this constraint.
    fn to_violation(&self) -> SpreadViolation {
        SpreadViolation { key: self.key.to_owned(), max_skew: self.max_skew, at: self.at }
    }

    fn update_scores(&mut self) {
        let extremes = CountExtremes::from_counts(&self.counts);
        self.scores.clear();
        self.scores.extend(self.counts.iter().map(
            |count| match extremes.skew_change(*count, self.max_skew) {
                (change, false) => Some(-change),
                (_, true) => (!self.strict).then_some(-PENALTY),
            },
        ));
    }
}

/// The least, second least and greatest count. With one domain all three are equal.
#[derive(Debug, PartialEq, Eq)]
struct CountExtremes {
    least: i64,
    second: i64,
    greatest: i64,
}

impl CountExtremes {
    fn from_counts(counts: &[i64]) -> Self {
        let (mut least, mut second, mut greatest) = (i64::MAX, i64::MAX, 0);
        for &count in counts {
            if count < least {
                (least, second) = (count, least);
            } else {
                second = second.min(count);
            }
            greatest = greatest.max(count);
        }
        Self { least, second: if counts.len() > 1 { second } else { least }, greatest }
    }

    /// The change of the skew by one more row in a domain with `count`, and whether the skew is then too large.
    fn skew_change(&self, count: i64, max_skew: i64) -> (i64, bool) {
        let change = if self.least == self.greatest {
            1
        } else if count == self.least && self.least != self.second {
            -1
        } else {
            i64::from(count == self.greatest)
        };
        (change, self.greatest - self.least + change > max_skew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_domain_grows_for_ever() {
        let one = CountExtremes::from_counts(&[7]);
        assert_eq!(one, CountExtremes { least: 7, second: 7, greatest: 7 });
        assert_eq!(one.skew_change(7, 1), (1, false));
    }

    #[test]
    fn an_empty_domain_draws_and_a_full_one_repels() {
        let two = CountExtremes::from_counts(&[0, 1]);
        assert_eq!(two, CountExtremes { least: 0, second: 1, greatest: 1 });
        assert_eq!(two.skew_change(0, 1), (-1, false));
        assert_eq!(two.skew_change(1, 1), (1, true));
        let three = CountExtremes::from_counts(&[0, 2, 0]);
        assert_eq!(
            three,
            CountExtremes { least: 0, second: 0, greatest: 2 },
            "two empty domains: filling one leaves the skew"
        );
        assert_eq!((three.skew_change(0, 1), three.skew_change(0, 2)), ((0, true), (0, false)));
    }
}
