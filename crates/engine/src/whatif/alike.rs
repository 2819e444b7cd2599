//! Rows that are alike, kept once, and subjects whose decisions are equal but for the name of their object, so that one is
//! decided for all.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use rayon::prelude::*;

use crate::Engine;
use federate_dialect::{ControlPlane, Decided, Placement, Subject};
use federate_kubernetes::{Finding, ObjectRef};

/// Rows, of which those that are alike are one.
#[derive(Debug, Default)]
pub(super) struct SharedRows(HashMap<u64, Vec<Arc<Placement>>>);

impl SharedRows {
    /// The row that is like this one.
    pub(super) fn share(&mut self, row: &Placement) -> Arc<Placement> {
        let mut hasher = DefaultHasher::new();
        row.clusters[..].hash(&mut hasher);
        row.policy.as_ref().map(|policy| &policy.name).hash(&mut hasher);
        let like = self.0.entry(hasher.finish()).or_default();
        if let Some(known) = like.iter().find(|known| known.is_alike(row)) {
            return Arc::clone(known);
        }
        let new = Arc::new(row.clone());
        like.push(Arc::clone(&new));
        new
    }
}

/// The address of a shared row, by which it is known as long as it exists; 0 for no row.
pub(super) fn address(row: Option<&Arc<Placement>>) -> usize {
    row.map_or(0, |row| Arc::as_ptr(row).addr())
}

/// Numbers keys: equal ones have the same number.
pub(super) fn numbered(keys: Vec<Option<String>>) -> Vec<Option<usize>> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut number = |key: String| {
        let next = numbers.len();
        *numbers.entry(key).or_insert(next)
    };
    keys.into_iter().map(|key| key.map(&mut number)).collect()
}

/// A subject, with the number of its key and the address of its previous row.
pub(super) struct Group<'s> {
    subject: &'s Subject,
    numbers: Option<(usize, usize)>,
}

impl<'s> Group<'s> {
    pub(super) fn of(subject: &'s Subject, alike: Option<usize>, previous: usize) -> Self {
        Self { subject, numbers: alike.map(|alike| (alike, previous)) }
    }
}

/// A decision about a subject, and about all that are alike.
pub(super) struct GroupDecision {
    subject: ObjectRef,
    /// The placements.
    pub(super) rows: Vec<Arc<Placement>>,
    /// All but the placements.
    pub(super) rest: Decided,
    /// Whether there are errors among the findings.
    pub(super) has_errors: bool,
}

impl GroupDecision {
    fn new(subject: ObjectRef, mut decided: Decided) -> Self {
        let rows = std::mem::take(&mut decided.placements).into_iter().map(Arc::new).collect();
        let has_errors = decided.findings.iter().any(Finding::is_error);
        Self { subject, rows, rest: decided, has_errors }
    }

    /// The object of one of the rows in the decision about the subject `own`.
    pub(super) fn object<'a>(&'a self, row: &'a Placement, own: &'a ObjectRef) -> &'a ObjectRef {
        if row.object == self.subject { own } else { &row.object }
    }

    /// The decision about the subject `own`.
    pub(super) fn of(&self, own: &ObjectRef) -> Decided {
        let mut decided = self.rest.clone();
        let row = |row: &Arc<Placement>| {
            let object = self.object(row, own).clone();
            Placement { object, ..row.as_ref().clone() }
        };
        decided.placements = self.rows.iter().map(row).collect();
        for finding in &mut decided.findings {
            if finding.object.as_ref() == Some(&self.subject) {
                finding.object = Some(own.clone());
            }
        }
        decided
    }
}

/// Decides about each subject, in the same order.
pub(super) fn decide(
    engine: &Engine<'_>,
    plane: &dyn ControlPlane,
    all: &[Group<'_>],
) -> Vec<Arc<GroupDecision>> {
    let mut leaders: Vec<&Subject> = Vec::new();
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
    let decision = |subject: &&Subject| {
        Arc::new(GroupDecision::new(subject.object.clone(), engine.decided(plane, subject)))
    };
    let decided: Vec<Arc<GroupDecision>> = leaders.par_iter().map(decision).collect();
    leader_of.into_iter().filter_map(|at| decided.get(at).cloned()).collect()
}
