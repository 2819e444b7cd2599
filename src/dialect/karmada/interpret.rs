//! What the resource interpreter says of a template: how many replicas it wants, and what each asks
//! for.
//!
//! Facts: only the kinds below have replicas; the API server fills in 1 where a workload names none.

use std::collections::BTreeMap;

use serde_json::Value;

use super::thirdparty;
use crate::k8s::quantity::Quantity;
use crate::k8s::{Object, pods};

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

/// Interprets a template.
pub(super) fn workload(object: &Object) -> Workload {
    let integer = |field| object.at(&["spec", field]).and_then(Value::as_i64);
    let template = || object.at(&["spec", "template", "spec"]).and_then(Requirements::of_pod);
    match (object.id.api_version.as_str(), object.id.kind.as_str()) {
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet") => {
            Workload { replicas: integer("replicas").unwrap_or(1), requirements: template() }
        }
        ("batch/v1", "Job") => {
            let parallelism = integer("parallelism").unwrap_or(1);
            let replicas = integer("completions").map_or(parallelism, |c| c.min(parallelism));
            Workload { replicas, requirements: template() }
        }
        ("v1", "Pod") => {
            Workload { replicas: 1, requirements: object.at(&["spec"]).and_then(Requirements::of_pod) }
        }
        _ => thirdparty::workload(object).unwrap_or_default(),
    }
}
