//! `WorkloadRebalancer`: a request to schedule some workloads afresh, once.
//!
//! A rebalancer has done its work for an object when the object's memory names it (`rebalanced`), so a
//! rebalancer that stays in git does not shuffle replicas at every run.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use federate_dialect::Memory;
use federate_kubernetes::{Object, ObjectRef};

const REBALANCED: &str = "rebalanced";

/// The rebalancers' names by the object they list.
pub(super) struct Rebalancers<'a> {
    by_object: BTreeMap<ObjectRef, Vec<&'a str>>,
}

impl<'a> Rebalancers<'a> {
    /// Reads those of `others` that are rebalancers.
    pub(super) fn new(others: impl Iterator<Item = &'a Object>) -> Self {
        let mut by_object: BTreeMap<ObjectRef, Vec<&'a str>> = BTreeMap::new();
        for object in others.filter(|o| o.id.kind == "WorkloadRebalancer") {
            let listed = object.at(&["spec", "workloads"]).and_then(Value::as_array);
            for id in listed.into_iter().flatten().filter_map(|w| ObjectRef::deserialize(w).ok()) {
                by_object.entry(id).or_default().push(&object.id.name);
            }
        }
        Self { by_object }
    }

    /// Whether a rebalancer that the object's memory does not know lists it.
    pub(super) fn ask(&self, object: &ObjectRef, memory: &Memory) -> bool {
        let done = |name: &str| {
            let done = memory.get(REBALANCED).and_then(Value::as_array);
            done.is_some_and(|done| done.iter().any(|n| n.as_str() == Some(name)))
        };
        self.by_object.get(object).is_some_and(|names| names.iter().any(|name| !done(name)))
    }

    /// Notes in the object's memory that every rebalancer that lists it has been obeyed.
    pub(super) fn obeyed(&self, object: &ObjectRef, memory: &mut Memory) {
        if let Some(names) = self.by_object.get(object) {
            memory.insert(REBALANCED.to_owned(), Value::from(names.clone()));
        }
    }
}
