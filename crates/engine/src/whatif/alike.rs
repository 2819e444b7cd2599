//! Subjects whose decisions are equal but for the name of their object, so that one is decided for all.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;

use crate::Engine;
use federate_dialect::{ControlPlane, Decided, Placement, Subject};

/// Rows that are alike have the same number. No row has a number, too.
#[derive(Debug, Default)]
pub(super) struct Classes {
    by_hash: HashMap<u64, Vec<(Placement, usize)>>,
    first: usize,
    known: usize,
}

impl Classes {
    const NONE: usize = 0;

    /// The number of a row's class, if it is known.
    pub(super) fn find(&self, row: Option<&Placement>) -> Option<usize> {
        let Some(row) = row else { return Some(Self::NONE) };
        let like = self.by_hash.get(&hash(row))?;
        like.iter().find(|(known, _)| known.is_alike(row)).map(|(_, number)| *number)
    }

    /// The number of a row's class.
    pub(super) fn number(&mut self, row: Option<&Placement>) -> usize {
        if let Some(number) = self.find(row) {
            return number;
        }
        self.known += 1;
        let number = self.first + self.known;
        if let Some(row) = row {
            self.by_hash.entry(hash(row)).or_default().push((row.clone(), number));
        }
        number
    }

    /// Further classes, whose numbers follow.
    pub(super) fn next(&self) -> Self {
        Self { by_hash: HashMap::new(), first: self.first + self.known, known: 0 }
    }
}

fn hash(row: &Placement) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.clusters[..].hash(&mut hasher);
    row.policy.as_ref().map(|policy| &policy.name).hash(&mut hasher);
    hasher.finish()
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

/// A subject, with the numbers of its key and of the class of its previous row.
pub(super) struct Group<'s> {
    subject: &'s Subject,
    numbers: Option<(usize, usize)>,
}

impl<'s> Group<'s> {
    pub(super) fn of(subject: &'s Subject, alike: Option<usize>, class: usize) -> Self {
        Self { subject, numbers: alike.map(|alike| (alike, class)) }
    }
}

/// Decides about each subject, in the same order.
pub(super) fn decide(engine: &Engine<'_>, plane: &dyn ControlPlane, all: &[Group<'_>]) -> Vec<Decided> {
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
    let decided: Vec<Decided> = leaders.par_iter().map(|subject| engine.decided(plane, subject)).collect();
    let renamed = |(group, at): (&Group<'_>, &usize)| {
        let mut decided = decided.get(*at).cloned().unwrap_or_default();
        let (own, leader) = (&group.subject.object, leaders.get(*at).map(|leader| &leader.object));
        for row in decided.placements.iter_mut().filter(|row| Some(&row.object) == leader) {
            row.object = own.clone();
        }
        for finding in decided.findings.iter_mut().filter(|finding| finding.object.as_ref() == leader) {
            finding.object = Some(own.clone());
        }
        decided
    };
    all.iter().zip(&leader_of).map(renamed).collect()
}
