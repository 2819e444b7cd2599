//! The previous plan, by object: the memory of the schedulers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::{Placement, Plan};
use federate_kubernetes::ObjectRef;

/// The previous plan, by object. Clones share its rows.
#[derive(Clone, Debug, Default)]
pub struct Previous {
    rows: Arc<BTreeMap<ObjectRef, Placement>>,
    /// Rows that differ from `rows`; `None` for those that are gone.
    changed: Arc<BTreeMap<ObjectRef, Option<Placement>>>,
    versions: BTreeMap<String, String>,
    shared: Arc<BTreeMap<String, Value>>,
}

impl Previous {
    /// Indexes the rows of a plan by object.
    pub fn new(plan: Plan) -> Self {
        let rows = plan.placements.into_iter().map(|row| (row.object.clone(), row)).collect();
        Self {
            rows: Arc::new(rows),
            changed: Arc::default(),
            versions: plan.versions,
            shared: Arc::new(plan.shared),
        }
    }

    /// The same plan with other rows; `None` for an object that has no row.
    #[must_use]
    pub fn with(
        &self,
        changed: Arc<BTreeMap<ObjectRef, Option<Placement>>>,
        shared: Arc<BTreeMap<String, Value>>,
    ) -> Self {
        Self { rows: Arc::clone(&self.rows), changed, versions: self.versions.clone(), shared }
    }

    /// The row of an object.
    pub fn of(&self, object: &ObjectRef) -> Option<&Placement> {
        match self.changed.get(object) {
            Some(row) => row.as_ref(),
            None => self.rows.get(object),
        }
    }

    /// The release whose rules a dialect followed, where the plan names it.
    pub fn version(&self, dialect: &str) -> Option<&str> {
        self.versions.get(dialect).map(String::as_str)
    }

    /// Whether another plan has the same shared memory.
    pub fn shares_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) || self.shared == other.shared
    }

    /// The shared memory of several placements, by its digest.
    pub fn shared(&self, digest: &str) -> Option<&Value> {
        self.shared.get(digest)
    }
}
