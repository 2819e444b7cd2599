//! Decisions that are kept from one plan to the next, because nothing that they look at has changed.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{Decided, Previous};
use federate_kubernetes::ObjectRef;

/// Decisions about single templates, by control plane and subject. They hold as long as policies, inventory and
/// everything else but templates and the previous plan stay the same; whoever keeps them says what changed.
#[derive(Debug, Default)]
pub struct Decisions(BTreeMap<(&'static str, ObjectRef), Decided>);

impl Decisions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets what was decided about templates that changed.
    pub fn forget(&mut self, templates: &BTreeSet<ObjectRef>) {
        self.0.retain(|(_, subject), _| !templates.contains(subject));
    }

    /// Forgets the decisions whose rows differ between two previous plans.
    pub fn remember(&mut self, before: &Previous, now: &Previous) {
        if !before.shares_with(now) {
            return self.0.clear();
        }
        let same = |object: &ObjectRef| before.of(object) == now.of(object);
        self.0.retain(|(_, subject), decided| {
            same(subject) && decided.placements.iter().all(|placement| same(&placement.object))
        });
    }

    pub(crate) fn get(&self, dialect: &'static str, subject: &ObjectRef) -> Option<&Decided> {
        self.0.get(&(dialect, subject.clone()))
    }

    pub(crate) fn keep(&mut self, dialect: &'static str, subject: ObjectRef, decided: Decided) {
        self.0.insert((dialect, subject), decided);
    }
}
