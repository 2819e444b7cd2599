//! Cpu and memory of nodes and pods.

use std::collections::BTreeMap;

use federate_kubernetes::formatted::FormattedQuantity;
use federate_kubernetes::object::at;
use serde_json::Value;

/// The resources that count.
pub(super) const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Amounts of cpu and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(pub(super) [FormattedQuantity; 2]);

impl Amounts {
    /// Reads a list of resources. Missing ones are 0.
    pub(super) fn read(list: Option<&Value>) -> Self {
        let of = |name| FormattedQuantity::from_json(list?.get(name)?);
        Self(RESOURCES.map(|name| of(name).unwrap_or_default()))
    }

    /// The amounts of a node below a key of its status.
    pub(super) fn of_node(node: &Value, key: &str) -> Self {
        Self::read(at(node, &["status", key]))
    }

    /// The sum over nodes.
    pub(super) fn of_nodes(nodes: &[Value], key: &str) -> Self {
        let mut sum = Self::default();
        for node in nodes {
            sum.add(&Self::of_node(node, key));
        }
        sum
    }

    /// The requests of scheduled pods that are not finished.
    pub(super) fn requested(pods: &[Value]) -> Self {
        let mut sum = Self::default();
        for pod in pods.iter().filter(|pod| runs(pod)) {
            let containers = at(pod, &["spec", "containers"]).and_then(Value::as_array);
            for container in containers.into_iter().flatten() {
                sum.add(&Self::read(at(container, &["resources", "requests"])));
            }
        }
        sum
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            sum.add(more);
        }
    }

    pub(super) fn sub(&mut self, other: &Self) {
        for (sum, less) in self.0.iter_mut().zip(other.0) {
            sum.sub(less);
        }
    }

    /// The difference, at least 0.
    pub(super) fn without(&self, other: &Self) -> Self {
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
    pub(super) fn printed(&self) -> BTreeMap<&'static str, String> {
        RESOURCES.into_iter().zip(self.0.map(|amount| amount.to_string())).collect()
    }
}

/// Whether a pod uses resources of a node.
fn runs(pod: &Value) -> bool {
    let text = |path: &[&str]| at(pod, path).and_then(Value::as_str).unwrap_or_default();
    !text(&["spec", "nodeName"]).is_empty() && !matches!(text(&["status", "phase"]), "Succeeded" | "Failed")
}
