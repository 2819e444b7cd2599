//! What the scheduler needs to know of a template: how many replicas it wants, and what each asks for.
//!
//! Facts: requests that are not positive count as none.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_kubernetes::pods;
use federate_kubernetes::quantity::Quantity;

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

impl Requirements {
    /// Those of a pod spec; `None` when it asks for nothing and claims no nodes.
    pub(super) fn of_pod(spec: &Value) -> Option<Self> {
        let requests = pods::requests(spec);
        (pods::claims_nodes(spec) || !requests.is_empty()).then_some(Self { requests })
    }
}
