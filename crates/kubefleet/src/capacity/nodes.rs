//! Cpu and memory of nodes and pods.

use std::collections::BTreeMap;

use federate_kubernetes::formatted_quantity::FormattedQuantity;
use federate_kubernetes::object::value_at;
use serde_json::Value;

/// The resources that count.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Amounts of cpu and memory, in that order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeResources(pub [FormattedQuantity; 2]);

impl NodeResources {
    /// Reads a list of resources. Missing ones are 0.
    fn from_list(list: Option<&Value>) -> Self {
        Self(RESOURCES.map(|name| {
            let amount = list.and_then(|list| list.get(name)).and_then(FormattedQuantity::from_json);
            amount.unwrap_or_default()
        }))
    }

    /// The amounts of a node below a key of its status.
    pub fn from_node(node: &Value, key: &str) -> Self {
        Self::from_list(value_at(node, &["status", key]))
    }

    /// The sum over nodes.
    pub(super) fn sum_nodes(nodes: &[Value], key: &str) -> Self {
        let mut sum = Self::default();
        for node in nodes {
            sum.add(&Self::from_node(node, key));
        }
        sum
    }

    /// The requests of scheduled pods that are not finished.
    pub fn sum_requests(pods: &[Value]) -> Self {
        let mut sum = Self::default();
        for pod in pods.iter().filter(|pod| uses_node(pod)) {
            let containers = value_at(pod, &["spec", "containers"]).and_then(Value::as_array);
            for container in containers.into_iter().flatten() {
                sum.add(&Self::from_list(value_at(container, &["resources", "requests"])));
            }
        }
        sum
    }

    /// Adds amounts.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            sum.add(more);
        }
    }

    /// Takes amounts away.
    pub fn sub(&mut self, other: &Self) {
        for (sum, less) in self.0.iter_mut().zip(other.0) {
            sum.sub(less);
        }
    }

    /// The difference, at least 0.
    #[must_use]
    pub fn saturating_sub(&self, other: &Self) -> Self {
        let mut left = *self;
        for (left, less) in left.0.iter_mut().zip(other.0) {
            if left.amount > less.amount {
                left.sub(less);
            } else {
                *left = FormattedQuantity::default();
            }
        }
        left
    }

    /// The amounts by resource, as text.
    pub fn format_amounts(&self) -> BTreeMap<&'static str, String> {
        RESOURCES.into_iter().zip(self.0.map(|amount| amount.to_string())).collect()
    }
}

/// Whether a pod uses resources of a node.
fn uses_node(pod: &Value) -> bool {
    let node = value_at(pod, &["spec", "nodeName"]).and_then(Value::as_str).unwrap_or_default();
    let phase = value_at(pod, &["status", "phase"]).and_then(Value::as_str).unwrap_or_default();
    !node.is_empty() && !matches!(phase, "Succeeded" | "Failed")
}
