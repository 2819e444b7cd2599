//! A template as the scheduler sees it: its replicas, and what each one requests.
//!
//! Facts: requests that are not positive do not count.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::version::ZeroReplicas;
use federate_apiserver_model::normalization;
use federate_kubernetes::pods;
use federate_kubernetes::quantity::Quantity;

/// A template as the scheduler sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Workload {
    /// The replicas; 0 for an object that has none.
    pub replicas: i64,
    /// The requirements of one replica; `None` without requests and node claims.
    pub requirements: Option<Requirements>,
}

impl Workload {
    /// Reads a script's answer, `{"replicas": n, "requirements": {...}}`.
    pub(super) fn from_answer(answer: &Value) -> Self {
        let requirements = answer["requirements"].as_object().map(|requirements| {
            let requests = requirements.get("resourceRequest").and_then(Value::as_object);
            requests.map(Requirements::from_amounts).unwrap_or_default()
        });
        Self { replicas: answer["replicas"].as_i64().unwrap_or(0), requirements }
    }

    /// The workload as a release takes one with 0 replicas.
    pub(super) fn normalize_replicas(self, zero: ZeroReplicas) -> Self {
        if self.replicas <= 0 && zero == ZeroReplicas::Everywhere { Self::default() } else { self }
    }

    /// Whether the object has replicas to divide.
    pub(super) fn is_workload(&self) -> bool {
        self.replicas > 0 || self.requirements.is_some()
    }
}

/// The requirements of one replica: positive requests only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requirements {
    /// By resource name (`cpu`, `memory`, …).
    pub requests: BTreeMap<String, Quantity>,
}

impl Requirements {
    /// Reads amounts by resource name.
    pub(super) fn from_amounts(amounts: &Map<String, Value>) -> Self {
        let amounts = amounts.iter().filter_map(|(name, amount)| {
            let amount = Quantity::from_json(amount).filter(|amount| amount.value() > 0)?;
            Some((name.clone(), amount))
        });
        Self { requests: amounts.collect() }
    }

    /// Writes them as the API does, without node claims.
    pub(super) fn to_json(&self) -> Value {
        let requests: Map<String, Value> = self
            .requests
            .iter()
            .map(|(name, amount)| {
                (name.clone(), Value::from(normalization::format_amount(amount.as_nanos(), false)))
            })
            .collect();
        if requests.is_empty() { json!({}) } else { json!({"resourceRequest": requests}) }
    }

    /// Reads a pod spec; `None` without requests and node claims.
    pub(super) fn from_pod(spec: &Value) -> Option<Self> {
        let requests = pods::compute_requests(spec);
        (pods::claims_nodes(spec) || !requests.is_empty()).then_some(Self { requests })
    }
}
