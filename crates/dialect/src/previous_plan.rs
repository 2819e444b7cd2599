//! The previous plan, by object: what the schedulers start from. It comes from a file, a branch, a registry or clusters; for the
//! loop, it is the plan that was accepted last. Its rows have the state of their scheduler ([`SchedulerState`](crate::SchedulerState)).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::{Placement, Plan};
use federate_kubernetes::ObjectRef;

/// The previous plan, by object. Clones share its rows.
#[derive(Clone, Debug, Default)]
pub struct PreviousPlan {
    /// Sorted by object, each once.
    rows: Arc<[Placement]>,
    /// Rows that differ from `rows`.
    changed: Arc<ChangedRows>,
    versions: BTreeMap<String, String>,
    shared: Arc<BTreeMap<String, Value>>,
}

/// The rows that differ from those of an earlier plan; `None` for those that are gone. Rows that are
/// [alike](Placement::is_alike) may be shared: then the object in a row is only one of those that have it.
pub type ChangedRows = BTreeMap<RowKey, Option<Arc<Placement>>>;

/// An object of a plan that differs from an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    /// The index of the object's row in the earlier plan.
    Known(usize),
    /// An object that has no row there.
    New(Arc<ObjectRef>),
}

impl PreviousPlan {
    /// Indexes the rows of a plan by object. Of several rows of one object, the last one counts.
    pub fn new(plan: Plan) -> Self {
        let mut rows = plan.placements;
        if !rows.is_sorted_by(|a, b| a.object < b.object) {
            let by_object: BTreeMap<ObjectRef, Placement> =
                rows.into_iter().map(|row| (row.object.clone(), row)).collect();
            rows = by_object.into_values().collect();
        }
        Self {
            rows: rows.into(),
            changed: Arc::default(),
            versions: plan.versions,
            shared: Arc::new(plan.shared),
        }
    }

    /// The same plan with other rows.
    #[must_use]
    pub fn with_changes(&self, changed: Arc<ChangedRows>, shared: Arc<BTreeMap<String, Value>>) -> Self {
        Self { rows: Arc::clone(&self.rows), changed, versions: self.versions.clone(), shared }
    }

    /// The row of an object. The name in a row of [`with_changes`](Self::with_changes) may be that of another object.
    pub fn find_row(&self, object: &ObjectRef) -> Option<&Placement> {
        let index = self.index_of(object);
        if !self.changed.is_empty()
            && let Some(row) = self.changed.get(&row_key(index, object))
        {
            return row.as_deref();
        }
        self.rows.get(index?)
    }

    /// The rows before [`with_changes`](Self::with_changes), sorted by object.
    pub fn rows(&self) -> &[Placement] {
        &self.rows
    }

    /// The index of an object in [`rows`](Self::rows).
    pub fn index_of(&self, object: &ObjectRef) -> Option<usize> {
        self.rows.binary_search_by(|row| row.object.cmp(object)).ok()
    }

    /// The key of an object among rows that differ from these.
    pub fn key_of(&self, object: &ObjectRef) -> RowKey {
        row_key(self.index_of(object), object)
    }

    /// The release whose rules a dialect followed, where the plan names it.
    pub fn version_of(&self, dialect: &str) -> Option<&str> {
        self.versions.get(dialect).map(String::as_str)
    }

    /// Whether another plan has the same shared scheduler state.
    pub fn shares_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) || self.shared == other.shared
    }

    /// The shared scheduler state of several placements, by its digest.
    pub fn find_shared(&self, digest: &str) -> Option<&Value> {
        self.shared.get(digest)
    }
}

fn row_key(index: Option<usize>, object: &ObjectRef) -> RowKey {
    index.map_or_else(|| RowKey::New(Arc::new(object.clone())), RowKey::Known)
}
