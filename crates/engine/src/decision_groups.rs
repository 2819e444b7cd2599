//! Rows that are alike, kept once, and subjects whose decisions are equal but for the name of their object, so that one is
//! decided for all.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use rayon::prelude::*;

use crate::Engine;
use crate::work_limit::{LimitedResults, decision_cost, map_charged};
use federate_dialect::{DecisionSubject, DialectDecisions, PlacedClusters, Placement, PolicyPlanner};
use federate_kubernetes::{Finding, ObjectRef, work};

/// The steps of keeping a row.
const STEPS_PER_ROW: u64 = 20;

/// Rows, of which those that are alike are one.
#[derive(Debug, Default)]
pub struct SharedRows {
    /// The rows, by the hash of their clusters and the name of their policy.
    rows: HashMap<(u64, Option<String>), Vec<Arc<Placement>>>,
    /// The hashes of lists of clusters, by their address. The lists are kept, so that their addresses stay taken.
    hashes: HashMap<usize, (PlacedClusters, u64)>,
}

impl SharedRows {
    /// The row that is like this one.
    pub fn share_row(&mut self, row: &Placement) -> Arc<Placement> {
        let key = (self.hash_clusters(&row.clusters), row.policy.as_ref().map(|policy| policy.name.clone()));
        let like = self.rows.entry(key).or_default();
        if let Some(known) = like.iter().find(|known| known.is_alike(row)) {
            return Arc::clone(known);
        }
        work::charge_steps(STEPS_PER_ROW);
        let new = Arc::new(row.clone());
        like.push(Arc::clone(&new));
        new
    }

    fn hash_clusters(&mut self, clusters: &PlacedClusters) -> u64 {
        let (_, hash) = self.hashes.entry(clusters.list_address()).or_insert_with(|| {
            work::charge_items(8 + clusters.len());
            let mut hasher = DefaultHasher::new();
            clusters[..].hash(&mut hasher);
            (clusters.clone(), hasher.finish())
        });
        *hash
    }
}

/// The address of a shared row, by which it is known as long as it exists; 0 for no row.
pub fn row_address(row: Option<&Arc<Placement>>) -> usize {
    row.map_or(0, |row| Arc::as_ptr(row).addr())
}

/// Numbers keys: equal ones have the same number.
pub fn number_keys(keys: Vec<Option<String>>) -> Vec<Option<usize>> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    keys.into_iter()
        .map(|key| {
            key.map(|key| {
                let next = numbers.len();
                *numbers.entry(key).or_insert(next)
            })
        })
        .collect()
}

/// A subject, with the number of its key and the address of its previous row.
pub struct GroupedSubject<'s> {
    subject: &'s DecisionSubject,
    numbers: Option<(usize, usize)>,
}

impl<'s> GroupedSubject<'s> {
    /// A subject whose key has the number `alike`, with the address of its previous row.
    pub fn new(subject: &'s DecisionSubject, alike: Option<usize>, previous: usize) -> Self {
        Self { subject, numbers: alike.map(|alike| (alike, previous)) }
    }
}

/// A decision about a subject, and about all that are alike.
pub struct GroupDecision {
    subject: ObjectRef,
    /// The placements.
    pub rows: Vec<Arc<Placement>>,
    /// All but the placements.
    pub rest: DialectDecisions,
    /// Whether there are errors among the findings.
    pub has_errors: bool,
}

impl GroupDecision {
    fn new(subject: ObjectRef, mut decided: DialectDecisions) -> Self {
        let rows = std::mem::take(&mut decided.placements).into_iter().map(Arc::new).collect();
        let has_errors = decided.findings.iter().any(Finding::is_error);
        Self { subject, rows, rest: decided, has_errors }
    }

    /// The object of one of the rows in the decision about the subject `own`.
    pub fn row_object<'a>(&'a self, row: &'a Placement, own: &'a ObjectRef) -> &'a ObjectRef {
        if row.object == self.subject { own } else { &row.object }
    }

    /// The decision about the subject `own`.
    pub fn for_subject(&self, own: &ObjectRef) -> DialectDecisions {
        let mut decided = self.rest.clone();
        decided.placements = self
            .rows
            .iter()
            .map(|row| {
                let object = self.row_object(row, own).clone();
                Placement { object, ..row.as_ref().clone() }
            })
            .collect();
        for finding in &mut decided.findings {
            if finding.object.as_ref() == Some(&self.subject) {
                finding.object = Some(own.clone());
            }
        }
        decided
    }
}

/// One decision for each group of subjects that are alike and have no previous row.
pub struct DecisionGroups {
    /// The number of the group of each subject.
    numbers: Vec<Option<usize>>,
    decisions: Vec<GroupDecision>,
    /// The object before which deciding was stopped, because it took too much work.
    pub stopped_at: Option<ObjectRef>,
}

impl DecisionGroups {
    /// Groups the subjects that `is_undecided` selects, and decides about each group.
    pub fn new(
        engine: &Engine<'_>,
        planner: &dyn PolicyPlanner,
        subjects: &[DecisionSubject],
        is_undecided: impl Fn(&DecisionSubject) -> bool + Sync,
    ) -> Self {
        let numbers = number_keys(
            subjects
                .par_iter()
                .map(|subject| {
                    let is_first = engine.previous.find_row(&subject.object).is_none();
                    (is_first && is_undecided(subject))
                        .then(|| planner.keys().decision_key(&subject.object))
                        .flatten()
                })
                .collect(),
        );
        let mut leaders: Vec<&DecisionSubject> = Vec::new();
        for (subject, number) in subjects.iter().zip(&numbers) {
            if *number == Some(leaders.len()) {
                leaders.push(subject);
            }
        }
        let LimitedResults { results, stopped_at } = engine.limit.run_items(
            &leaders,
            |_, subject| {
                let decided = engine.decide_subject(planner, subject);
                let cost = decision_cost(&decided);
                (GroupDecision::new(subject.object.clone(), decided), cost)
            },
            |(_, cost)| *cost,
        );
        let stopped_at = stopped_at.and_then(|at| leaders.get(at)).map(|subject| subject.object.clone());
        let decisions = results.into_iter().map(|(decision, _)| decision).collect();
        Self { numbers, decisions, stopped_at }
    }

    /// The decision of the group of the subject at an index. A finding shows the template that it is about, so
    /// a decision with findings holds for one subject only.
    pub fn get(&self, at: usize) -> Option<&GroupDecision> {
        let number = self.numbers.get(at).copied().flatten()?;
        self.decisions.get(number).filter(|decision| decision.rest.findings.is_empty())
    }
}

/// Decides about each subject, in the same order.
pub fn decide_groups(
    engine: &Engine<'_>,
    planner: &dyn PolicyPlanner,
    all: &[GroupedSubject<'_>],
) -> Vec<Arc<GroupDecision>> {
    let mut leaders: Vec<&DecisionSubject> = Vec::new();
    let mut of_group: HashMap<(usize, usize), usize> = HashMap::new();
    let mut leader_of = Vec::with_capacity(all.len());
    for group in all {
        let next = leaders.len();
        let leader = group.numbers.map_or(next, |numbers| *of_group.entry(numbers).or_insert(next));
        if leader == next {
            leaders.push(group.subject);
        }
        leader_of.push(leader);
    }
    let decided = map_charged(&leaders, |subject| {
        let decided = engine.decide_subject(planner, subject);
        work::charge_steps(decision_cost(&decided));
        Arc::new(GroupDecision::new(subject.object.clone(), decided))
    });
    leader_of.into_iter().filter_map(|at| decided.get(at).cloned()).collect()
}
