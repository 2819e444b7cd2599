//! What the scheduler needs to know of a template: how many replicas it wants, and what each asks for.
//!
//! Facts: requests that are not positive count as none.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use federate_apiserver::normalize;
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
    /// That of a script's answer, `{"replicas": n, "requirements": {...}}`.
    pub(super) fn of_answer(answer: &Value) -> Self {
        let requirements = answer["requirements"].as_object().map(|requirements| {
            let requests = requirements.get("resourceRequest").and_then(Value::as_object);
            requests.map(Requirements::of_amounts).unwrap_or_default()
        });
        Self { replicas: answer["replicas"].as_i64().unwrap_or(0), requirements }
    }

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
    /// Those of amounts by resource name.
    pub(super) fn of_amounts(amounts: &Map<String, Value>) -> Self {
        let amounts = amounts.iter().filter_map(|(name, amount)| {
            let amount = Quantity::from_json(amount).filter(|amount| amount.value() > 0)?;
            Some((name.clone(), amount))
        });
        Self { requests: amounts.collect() }
    }

    /// As the API writes them, without what they say of nodes.
    pub(super) fn to_json(&self) -> Value {
        let amount = |(name, amount): (&String, &Quantity)| {
            (name.clone(), Value::from(normalize::amount(amount.nanos(), false)))
        };
        let requests: Map<String, Value> = self.requests.iter().map(amount).collect();
        if requests.is_empty() { json!({}) } else { json!({"resourceRequest": requests}) }
    }

    /// Those of a pod spec; `None` when it asks for nothing and claims no nodes.
    pub(super) fn of_pod(spec: &Value) -> Option<Self> {
        let requests = pods::requests(spec);
        (pods::claims_nodes(spec) || !requests.is_empty()).then_some(Self { requests })
    }
}
