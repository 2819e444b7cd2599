//! A plan as its differences from the plan before a scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use federate_dialect::{Placement, Plan};
use federate_kubernetes::ObjectRef;

/// A plan as its differences from another one, the base.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Variation {
    /// The rows that differ; `None` for those that are gone.
    pub(super) rows: Arc<BTreeMap<ObjectRef, Option<Placement>>>,
    /// The templates that no policy places, if they differ.
    pub(super) unmatched: Option<Vec<ObjectRef>>,
    /// The shared memory of several rows.
    pub(super) shared: Arc<BTreeMap<String, Value>>,
}

impl Variation {
    /// No difference.
    pub(super) fn none(base: &Plan) -> Self {
        Self { shared: Arc::new(base.shared.clone()), ..Self::default() }
    }

    /// The differences of a plan.
    pub(super) fn between(base: &Plan, plan: Plan) -> Self {
        let mut rows = BTreeMap::new();
        let mut before = base.placements.iter().peekable();
        for row in plan.placements {
            while let Some(gone) = before.next_if(|old| old.object < row.object) {
                rows.insert(gone.object.clone(), None);
            }
            match before.next_if(|old| old.object == row.object) {
                Some(same) if same.is_alike(&row) => {}
                _ => drop(rows.insert(row.object.clone(), Some(row))),
            }
        }
        rows.extend(before.map(|gone| (gone.object.clone(), None)));
        let unmatched = (plan.unmatched != base.unmatched).then_some(plan.unmatched);
        Self { rows: Arc::new(rows), unmatched, shared: Arc::new(plan.shared) }
    }

    /// The row of an object.
    pub(super) fn row<'p>(&'p self, base: &'p Plan, object: &ObjectRef) -> Option<&'p Placement> {
        match self.rows.get(object) {
            Some(row) => row.as_ref(),
            None => row(base, object),
        }
    }

    /// All rows, in no particular order.
    pub(super) fn all<'p>(&'p self, base: &'p Plan) -> impl Iterator<Item = &'p Placement> {
        let kept = base.placements.iter().filter(|row| !self.rows.contains_key(&row.object));
        kept.chain(self.rows.values().flatten())
    }

    /// The objects whose rows may differ from those of another variation of the same plan.
    pub(super) fn differing<'p>(&'p self, other: &'p Self) -> BTreeSet<&'p ObjectRef> {
        let differs = |object: &&ObjectRef| self.rows.get(*object) != other.rows.get(*object);
        self.rows.keys().chain(other.rows.keys()).filter(differs).collect()
    }

    /// The number of objects whose clusters or replicas differ from those before.
    pub(super) fn moved(&self, base: &Plan, before: &Self) -> usize {
        let differs = |object: &&&ObjectRef| match (before.row(base, object), self.row(base, object)) {
            (Some(old), Some(new)) => old.clusters != new.clusters,
            (None, Some(new)) => !new.clusters.is_empty(),
            (_, None) => false,
        };
        self.differing(before).iter().filter(differs).count()
    }
}

/// The row of an object in a plan.
pub(super) fn row<'p>(plan: &'p Plan, object: &ObjectRef) -> Option<&'p Placement> {
    let at = plan.placements.binary_search_by(|row| row.object.cmp(object)).ok()?;
    plan.placements.get(at)
}
