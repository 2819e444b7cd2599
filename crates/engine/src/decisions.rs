//! Decisions that are reused in the next plan because none of their inputs has changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use federate_dialect::{DialectDecisions, PreviousPlan};
use federate_kubernetes::ObjectRef;

/// Decisions about single templates, by control plane and subject. They are valid as long as policies, inventory
/// and all other inputs except templates and the previous plan stay the same. The caller reports changed
/// templates (`forget_templates`) and a new previous plan (`forget_replanned`).
#[derive(Debug, Default)]
pub struct DecisionCache(BTreeMap<&'static str, HashMap<ObjectRef, DialectDecisions>>);

impl DecisionCache {
    /// The number of decisions.
    pub fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }

    /// Whether there are no decisions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the decisions about changed templates.
    pub fn forget_templates(&mut self, templates: &BTreeSet<ObjectRef>) {
        for decisions in self.0.values_mut() {
            for template in templates {
                decisions.remove(template);
            }
        }
    }

    /// Removes the decisions about objects whose rows differ between the two previous plans.
    pub fn forget_replanned(&mut self, before: &PreviousPlan, now: &PreviousPlan) {
        if !before.shares_with(now) {
            return self.0.clear();
        }
        for decisions in self.0.values_mut() {
            decisions.retain(|subject, decided| {
                let placed = decided.placements.iter().map(|placement| &placement.object);
                placed.chain([subject]).all(|object| before.find_row(object) == now.find_row(object))
            });
        }
    }

    pub(crate) fn get(&self, dialect: &'static str, subject: &ObjectRef) -> Option<&DialectDecisions> {
        self.0.get(dialect)?.get(subject)
    }

    pub(crate) fn keep_decision(
        &mut self,
        dialect: &'static str,
        subject: ObjectRef,
        decided: DialectDecisions,
    ) {
        self.0.entry(dialect).or_default().insert(subject, decided);
    }
}
