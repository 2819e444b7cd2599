//! What the resource interpreter says of a template: replicas, pod requirements, how to write the
//! replicas for one cluster, and which other objects it needs.

use std::collections::BTreeMap;

use crate::k8s::Object;
use crate::k8s::quantity::Quantity;

/// A template as the scheduler sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Workload {
    /// Wanted replicas; 0 for what has none.
    pub replicas: i64,
    /// What one replica asks for; `None` when it asks for nothing and claims no nodes.
    pub requirements: Option<Requirements>,
}

impl Workload {
    /// Whether replicas are to be divided at all.
    pub(super) fn is_workload(&self) -> bool {
        self.replicas > 0 || self.requirements.is_some()
    }
}

/// What one replica asks for: positive requests only, by resource name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requirements {
    /// By resource name (`cpu`, `memory`, …).
    pub requests: BTreeMap<String, Quantity>,
}
