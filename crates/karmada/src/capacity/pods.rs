//! The requests of pods, as the summary of a cluster counts them.
//!
//! Facts: containers add up, each rounded up. An init container counts only for what it requests beyond
//! everything that was counted before it, other pods included. Overhead is added.

use std::collections::BTreeMap;

use federate_kubernetes::Object;
use federate_kubernetes::formatted_quantity::{FormattedQuantity, QuantityFormat};
use federate_kubernetes::object::value_at;
use federate_kubernetes::pods::{is_counted_resource, parse_amounts};
use federate_kubernetes::quantity::Quantity;
use serde_json::Value;

/// The sum of the requests of pods, and their number.
#[derive(Clone, Debug, Default)]
pub(super) struct PodRequests {
    amounts: BTreeMap<String, Quantity>,
    pods: i64,
}

/// Whether a pod has been given a node.
pub(super) fn has_node(pod: &Object) -> bool {
    !pod.text_at(&["spec", "nodeName"]).is_empty()
}

/// Whether a pod takes resources of its node.
pub(super) fn takes_resources(pod: &Object) -> bool {
    has_node(pod) && !matches!(pod.text_at(&["status", "phase"]), "Succeeded" | "Failed")
}

/// The sum of requests, as it is printed.
pub(super) fn asked_by(pods: &[Object], counts: impl Fn(&Object) -> bool) -> BTreeMap<String, String> {
    let mut requests = PodRequests::default();
    pods.iter().filter(|pod| counts(pod)).for_each(|pod| requests.add_pod(pod));
    requests.format_amounts()
}

impl PodRequests {
    /// Adds a pod.
    pub(super) fn add_pod(&mut self, pod: &Object) {
        self.pods += 1;
        for container in list_containers(pod, "containers") {
            self.add_requests(value_at(container, &["resources", "requests"]));
        }
        for container in list_containers(pod, "initContainers") {
            for (name, amount) in round_amounts(value_at(container, &["resources", "requests"])) {
                let most = self.amounts.entry(name).or_default();
                *most = (*most).max(amount);
            }
        }
        self.add_requests(pod.value_at(&["spec", "overhead"]));
    }

    fn add_requests(&mut self, list: Option<&Value>) {
        for (name, amount) in round_amounts(list) {
            let sum = self.amounts.entry(name).or_default();
            *sum = *sum + amount;
        }
    }

    /// The requested amount of a resource.
    pub(super) fn requested_amount(&self, name: &str) -> Quantity {
        if name == "pods" {
            return Quantity::from_int(self.pods);
        }
        self.amounts.get(name).copied().unwrap_or_default()
    }

    pub(super) fn pods(&self) -> i64 {
        self.pods
    }

    fn format_amounts(&self) -> BTreeMap<String, String> {
        let mut amounts = self.amounts.clone();
        amounts.insert("pods".to_owned(), Quantity::from_int(self.pods));
        amounts.retain(|_, amount| *amount > Quantity::default());
        amounts
            .into_iter()
            .map(|(name, amount)| {
                let written = FormattedQuantity { amount, format: format_of(&name) };
                (name, written.to_string())
            })
            .collect()
    }
}

fn list_containers<'p>(pod: &'p Object, field: &str) -> &'p [Value] {
    pod.value_at(&["spec", field]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The format in which amounts of a resource are written.
pub(crate) fn format_of(resource: &str) -> QuantityFormat {
    if matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-") {
        QuantityFormat::BinarySi
    } else {
        QuantityFormat::DecimalSi
    }
}

/// The amounts of resources that count, rounded up.
fn round_amounts(list: Option<&Value>) -> impl Iterator<Item = (String, Quantity)> {
    parse_amounts(list).into_iter().filter(|(name, _)| is_counted_resource(name))
}
