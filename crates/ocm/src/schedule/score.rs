//! Prioritizers: scores of the clusters that passed the filters.
//!
//! Facts: a score is a whole number, most from -100 to 100; the total is their weighted sum. Coordinates are compared as
//! the hub compares them: two of an add-on are never equal, and a built-in one with a field of an add-on is another than
//! that without.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::{ClusterName, work};

use crate::api::{AddOnCoordinate, PrioritizerPolicy, ScoreCoordinate};
use crate::schedule::hub::Hub;
use crate::state::Decisions;

/// The steps of a score, which is kept.
const STEPS_PER_SCORE: u64 = 8;

/// The best score.
const MAX_SCORE: i64 = 100;

/// A prioritizer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Prioritizer {
    Balance,
    Steady,
    /// The index of the resource in [`Member::resources`](crate::fleet::Member).
    Allocatable(usize),
    AddOn(AddOnCoordinate),
}

impl Prioritizer {
    fn name(&self) -> String {
        match self {
            Self::Balance => "Balance".to_owned(),
            Self::Steady => "Steady".to_owned(),
            Self::Allocatable(0) => "ResourceAllocatableCPU".to_owned(),
            Self::Allocatable(_) => "ResourceAllocatableMemory".to_owned(),
            Self::AddOn(coordinate) => format!("AddOn/{}/{}", coordinate.resource, coordinate.score),
        }
    }
}

/// The prioritizers of a placement with their weights, none of which is 0.
#[derive(Debug)]
pub(crate) struct Weights(Vec<(Prioritizer, i64)>);

impl Weights {
    /// Reads the weights, or returns the hub's words for a mistake.
    pub(super) fn read(policy: &PrioritizerPolicy) -> Result<Self, String> {
        let mut weights: Vec<(ScoreCoordinate, i64)> = match policy.mode.as_str() {
            "" | "Additive" => ["Balance", "Steady"].map(|name| (built_in(name), 1)).into(),
            "Exact" => Vec::new(),
            other => return Err(format!("incorrect prioritizer policy mode: {other}")),
        };
        for config in &policy.configurations {
            let mut coordinate = config.coordinate.clone();
            if coordinate.kind.is_empty() {
                "BuiltIn".clone_into(&mut coordinate.kind);
            }
            let weight = config.weight.unwrap_or(1);
            work::charge_items(weights.len());
            let is_same = |known: &ScoreCoordinate| known.add_on.is_none() && *known == coordinate;
            match weights.iter_mut().find(|(known, _)| is_same(known)) {
                Some(known) => known.1 = weight,
                None => weights.push((coordinate, weight)),
            }
        }
        let mut prioritizers = Vec::new();
        for (coordinate, weight) in weights.into_iter().filter(|(_, weight)| *weight != 0) {
            prioritizers.push((read_prioritizer(coordinate)?, weight));
        }
        Ok(Self(prioritizers))
    }

    /// Whether it counts how other placements use clusters.
    pub(super) fn has_balance(&self) -> bool {
        self.0.iter().any(|(prioritizer, _)| *prioritizer == Prioritizer::Balance)
    }

    /// Whether clusters of earlier decisions count less, so that no decision lasts.
    pub(crate) fn avoids_earlier(&self) -> bool {
        let steady = self.0.iter().filter(|(prioritizer, _)| *prioritizer == Prioritizer::Steady);
        steady.map(|(_, weight)| weight).sum::<i64>() < 0
    }

    /// The prioritizers with their weights, in words.
    pub(crate) fn describe(&self) -> String {
        let parts = self.0.iter().map(|(prioritizer, weight)| match weight {
            1 => prioritizer.name(),
            weight => format!("{} × {weight}", prioritizer.name()),
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Scores clusters, given by their indexes in the inventory.
    pub(super) fn score(
        &self,
        passed: &[usize],
        context: &ScoreContext<'_>,
        expired: &mut BTreeSet<String>,
    ) -> Vec<PrioritizerScores> {
        let mut columns: Vec<PrioritizerScores> = self
            .0
            .iter()
            .map(|(prioritizer, weight)| PrioritizerScores {
                name: prioritizer.name(),
                weight: *weight,
                scores: context.score(prioritizer, passed, expired),
            })
            .collect();
        columns.sort_by(|a, b| (&a.name, a.weight).cmp(&(&b.name, b.weight)));
        columns
    }
}

fn built_in(name: &str) -> ScoreCoordinate {
    ScoreCoordinate { kind: "BuiltIn".to_owned(), built_in: name.to_owned(), add_on: None }
}

fn read_prioritizer(coordinate: ScoreCoordinate) -> Result<Prioritizer, String> {
    if coordinate.kind == "AddOn" {
        return coordinate
            .add_on
            .map(Prioritizer::AddOn)
            .ok_or_else(|| "addOn should not be empty".to_owned());
    }
    match coordinate.built_in.as_str() {
        "Balance" => Ok(Prioritizer::Balance),
        "Steady" => Ok(Prioritizer::Steady),
        "ResourceAllocatableCPU" => Ok(Prioritizer::Allocatable(0)),
        "ResourceAllocatableMemory" => Ok(Prioritizer::Allocatable(1)),
        other => Err(format!("incorrect builtin prioritizer: {other}")),
    }
}

/// The scores of one prioritizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrioritizerScores {
    /// `Balance`, `AddOn/RESOURCE/SCORE`, …
    pub name: String,
    /// The weight.
    pub weight: i64,
    /// The score of each cluster; `None` where the prioritizer gives none, which counts as 0.
    pub scores: Vec<Option<i64>>,
}

impl PrioritizerScores {
    /// The weighted score of a cluster.
    pub(crate) fn weighted(&self, at: usize) -> i64 {
        self.scores.get(at).copied().flatten().unwrap_or(0).saturating_mul(self.weight)
    }

    /// The same for clusters in another order.
    pub(super) fn reordered(self, order: &[usize]) -> Self {
        let scores = order.iter().map(|at| self.scores.get(*at).copied().flatten()).collect();
        Self { scores, ..self }
    }
}

/// What prioritizers read.
pub(super) struct ScoreContext<'c> {
    pub hub: &'c Hub<'c>,
    /// The placement's earlier decisions.
    pub own: &'c Usage,
    /// All decisions.
    pub usage: &'c Usage,
}

impl ScoreContext<'_> {
    fn score(
        &self,
        prioritizer: &Prioritizer,
        passed: &[usize],
        expired: &mut BTreeSet<String>,
    ) -> Vec<Option<i64>> {
        work::charge_steps(STEPS_PER_SCORE * passed.len() as u64);
        if work::is_exceeded() {
            return Vec::new();
        }
        match prioritizer {
            Prioritizer::Balance => self.score_balance(passed),
            Prioritizer::Steady => {
                let is_own = |cluster: &usize| self.own.has(*cluster);
                passed.iter().map(|cluster| Some(if is_own(cluster) { MAX_SCORE } else { 0 })).collect()
            }
            Prioritizer::Allocatable(resource) => self.score_allocatable(*resource, passed),
            Prioritizer::AddOn(coordinate) => {
                let score = |cluster: &usize| Some(self.score_add_on(coordinate, *cluster, expired));
                passed.iter().map(score).collect()
            }
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as the hub computes it"
    )]
    fn score_balance(&self, passed: &[usize]) -> Vec<Option<i64>> {
        let counts = self.usage.without(self.own);
        let score = |cluster: &usize| match counts.count_in_cluster(*cluster) {
            0 => MAX_SCORE,
            count => 2 * (MAX_SCORE as f64 * (0.5 - count as f64 / counts.max as f64)) as i64,
        };
        passed.iter().map(|cluster| Some(score(cluster))).collect()
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as the hub computes it"
    )]
    #[expect(clippy::float_cmp, reason = "equal amounts are equal numbers")]
    fn score_allocatable(&self, resource: usize, passed: &[usize]) -> Vec<Option<i64>> {
        let amount = |cluster: &usize| *self.hub.fleet.members.get(*cluster)?.resources.get(resource)?;
        let amounts: Vec<Option<f64>> = passed.iter().map(amount).collect();
        let known = || amounts.iter().copied().flatten();
        let (min, max) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        let score = |amount: f64| {
            if max == min {
                return MAX_SCORE;
            }
            (((amount - min) / (max - min) - 0.5) * 2.0 * MAX_SCORE as f64) as i64
        };
        amounts.iter().map(|amount| amount.map(score)).collect()
    }

    fn score_add_on(&self, wanted: &AddOnCoordinate, cluster: usize, expired: &mut BTreeSet<String>) -> i64 {
        let Some(reported) = self.hub.scores.find(cluster, &wanted.resource) else { return 0 };
        if self.hub.now.zip(reported.valid_until).is_some_and(|(now, end)| end < now) {
            let name = self.hub.fleet.members.get(cluster).map_or("", |member| &*member.cluster.name);
            expired.insert(format!("{name}/{}", wanted.resource));
            return 0;
        }
        reported.scores.iter().find(|score| score.name == wanted.score).map_or(0, |score| score.value)
    }
}

/// How often clusters stand in decisions.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// For each cluster of the inventory.
    counts: Vec<i64>,
    /// For names that are not in the inventory.
    others: BTreeMap<ClusterName, i64>,
}

/// How often clusters stand in decisions of other placements.
struct OtherUsage {
    counts: Vec<i64>,
    /// The largest count, over all names.
    max: i64,
}

impl OtherUsage {
    fn count_in_cluster(&self, index: usize) -> i64 {
        self.counts.get(index).copied().unwrap_or(0)
    }
}

impl Usage {
    /// Counts all decisions.
    pub(super) fn count(hub: &Hub<'_>, decisions: &Decisions) -> Self {
        let mut usage = Self::none(hub);
        for (_, names) in decisions.iter() {
            usage.add(hub, names, 1);
        }
        usage
    }

    /// Counts the decisions of one placement.
    pub(super) fn from_placement(hub: &Hub<'_>, names: &[ClusterName]) -> Self {
        let mut usage = Self::none(hub);
        usage.add(hub, names, 1);
        usage
    }

    fn none(hub: &Hub<'_>) -> Self {
        Self { counts: vec![0; hub.fleet.members.len()], others: BTreeMap::new() }
    }

    fn add(&mut self, hub: &Hub<'_>, names: &[ClusterName], times: i64) {
        for (name, index) in names.iter().zip(hub.fleet.indexes(names)) {
            match index {
                Some(index) => self.counts[index] += times,
                None => *self.others.entry(name.clone()).or_default() += times,
            }
        }
    }

    /// Replaces the decisions of a placement.
    pub(super) fn replace(&mut self, hub: &Hub<'_>, old: &[ClusterName], new: &[ClusterName]) {
        self.add(hub, old, -1);
        self.add(hub, new, 1);
    }

    /// Whether a cluster stands in a decision.
    pub(super) fn has(&self, cluster: usize) -> bool {
        self.counts.get(cluster).is_some_and(|count| *count > 0)
    }

    /// The usage without these decisions.
    fn without(&self, own: &Self) -> OtherUsage {
        let counts: Vec<i64> = self.counts.iter().zip(&own.counts).map(|(all, own)| all - own).collect();
        let others = self.others.iter().map(|(name, all)| all - own.others.get(name).unwrap_or(&0));
        let max = counts.iter().copied().chain(others).max().unwrap_or(0);
        OtherUsage { counts, max }
    }
}
