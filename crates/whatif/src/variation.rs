//! A plan as its differences from the plan before a scenario.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::Baseline;
use federate_dialect::{ChangedRows, Placement, Plan, RowKey};
use federate_engine::decision_groups::row_address;
use federate_kubernetes::ObjectRef;

/// A plan as its differences from another one, the base. Rows that are alike may be shared; then the object in a row is
/// only one of those that have it.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanVariation {
    /// The rows that differ.
    pub(super) rows: Arc<ChangedRows>,
    /// The templates that no policy places, if they differ.
    pub(super) unmatched: Option<Vec<ObjectRef>>,
    /// The shared scheduler state of several rows.
    pub(super) shared: Arc<BTreeMap<String, Value>>,
}

/// The rows of an object in two plans.
pub(super) type RowPair<'p> = [Option<&'p Arc<Placement>>; 2];

impl PlanVariation {
    /// No difference.
    pub(super) fn without_changes(base: &Plan) -> Self {
        Self { shared: Arc::new(base.shared.clone()), ..Self::default() }
    }

    /// The differences of a plan.
    pub(super) fn from_plan(base: &Baseline<'_>, plan: Plan) -> Self {
        let mut rows = ChangedRows::new();
        let mut before = base.plan_rows().iter().enumerate().peekable();
        for row in plan.placements {
            while let Some((gone, _)) = before.next_if(|(_, old)| old.object < row.object) {
                rows.insert(RowKey::Known(gone), None);
            }
            let same = before.next_if(|(_, old)| old.object == row.object);
            if same.is_none_or(|(_, same)| !same.is_alike(&row)) {
                let new = || RowKey::New(Arc::new(row.object.clone()));
                let key = same.map_or_else(new, |(at, _)| RowKey::Known(at));
                rows.insert(key, Some(Arc::new(row)));
            }
        }
        rows.extend(before.map(|(gone, _)| (RowKey::Known(gone), None)));
        let unmatched = (plan.unmatched != base.plan.unmatched).then_some(plan.unmatched);
        Self { rows: Arc::new(rows), unmatched, shared: Arc::new(plan.shared) }
    }

    /// The row of an object.
    pub(super) fn find_row<'p>(&'p self, base: &'p Baseline<'_>, key: &RowKey) -> Option<&'p Arc<Placement>> {
        match self.rows.get(key) {
            Some(row) => row.as_ref(),
            None => base.find_row(key),
        }
    }

    /// All rows with their objects.
    pub(super) fn all_rows<'p>(
        &'p self,
        base: &'p Baseline<'_>,
    ) -> impl Iterator<Item = (RowKey, &'p Arc<Placement>)> {
        let known = (0..base.plan_rows().len()).map(RowKey::Known);
        let new = self.rows.range(RowKey::Known(base.plan_rows().len())..).map(|(key, _)| key.clone());
        known.chain(new).filter_map(|key| self.find_row(base, &key).map(|row| (key, row)))
    }

    /// The objects whose rows may differ from those of another variation of the same plan.
    pub(super) fn differing_rows(&self, other: &Self) -> Vec<RowKey> {
        if Arc::ptr_eq(&self.rows, &other.rows) {
            return Vec::new();
        }
        let mut all: Vec<RowKey> = self
            .rows
            .keys()
            .chain(other.rows.keys())
            .filter(|key| {
                let row = |rows: &ChangedRows| rows.get(key).map(|row| row_address(row.as_ref()));
                row(&self.rows) != row(&other.rows)
            })
            .cloned()
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// The number of objects, of those whose rows may differ, whose clusters or replicas differ from those before.
    pub(super) fn count_moved(&self, base: &Baseline<'_>, before: &Self, differing: &[RowKey]) -> usize {
        let mut moves = OncePerPair::default();
        differing
            .iter()
            .filter(|key| {
                let pair = [before.find_row(base, key), self.find_row(base, key)];
                *moves.get_or_compute(pair, (), || match pair {
                    [Some(old), Some(new)] => old.clusters != new.clusters,
                    [None, Some(new)] => !new.clusters.is_empty(),
                    [_, None] => false,
                })
            })
            .count()
    }
}

/// What follows from two rows, computed once for all objects that share them. `K` is what else it follows from.
pub(super) struct OncePerPair<T, K = ()>(HashMap<(usize, usize, K), T>);

impl<T, K> Default for OncePerPair<T, K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T, K: std::hash::Hash + Eq> OncePerPair<T, K> {
    /// The result for two rows, computed if it is the first time.
    pub(super) fn get_or_compute(
        &mut self,
        pair: RowPair<'_>,
        key: K,
        compute: impl FnOnce() -> T,
    ) -> &mut T {
        let [old, new] = pair.map(row_address);
        self.0.entry((old, new, key)).or_insert_with(compute)
    }

    /// All results, in no particular order.
    pub(super) fn into_all(self) -> impl Iterator<Item = ((usize, usize, K), T)> {
        self.0.into_iter()
    }
}
