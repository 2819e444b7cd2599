//! The resources of a member, from its nodes and pods.
//!
//! Facts: nodes that accept no new pods do not count, but their pods do, and so do unscheduled pods. So the
//! available amount may be negative.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::json::{array_at, string_at};
use federate_kubernetes::Object;
use federate_kubernetes::object::value_at;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::LabelSelector;

/// Amounts by resource name.
type Amounts = BTreeMap<String, Quantity>;

/// The resources of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberResources {
    /// The number of nodes that count.
    pub schedulable_nodes: usize,
    /// The allocatable resources of these nodes.
    pub allocatable: Amounts,
    /// The allocatable resources minus the requests of all pods.
    pub available: Amounts,
}

impl MemberResources {
    /// The resources as they are written in the status.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"schedulableNodes": self.schedulable_nodes});
        for (key, amounts) in [("allocatable", &self.allocatable), ("available", &self.available)] {
            if !amounts.is_empty() {
                let amounts: Map<String, Value> =
                    amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
                value[key] = amounts.into();
            }
        }
        value
    }
}

/// Computes the resources of a member from all its nodes and pods. Nodes that match one of the selectors are
/// left out.
pub fn compute_resources(nodes: &[Object], pods: &[Object], left_out: &[LabelSelector]) -> MemberResources {
    let mut found = MemberResources::default();
    for node in nodes.iter().filter(|node| is_node_counted(node, left_out)) {
        found.schedulable_nodes += 1;
        for (name, amount) in read_amounts(node.value_at(&["status", "allocatable"])) {
            if name != "pods" {
                add_amount(&mut found.allocatable, name, amount);
            }
        }
    }
    found.available = found.allocatable.clone();
    for pod in pods {
        if matches!(pod.text_at(&["status", "phase"]), "Succeeded" | "Failed") {
            continue;
        }
        for (name, amount) in pod.value_at(&["spec"]).map(pod_requests).unwrap_or_default() {
            if let Some(free) = found.available.get_mut(&name) {
                *free = *free - amount;
            }
        }
    }
    found
}

/// Whether a node accepts new pods and is not left out. A node without labels is never left out.
fn is_node_counted(node: &Object, left_out: &[LabelSelector]) -> bool {
    let unschedulable = node.value_at(&["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or(false);
    let tainted = array_at(&node.body, &["spec", "taints"])
        .iter()
        .any(|taint| matches!(string_at(taint, &["effect"]), "NoSchedule" | "NoExecute"));
    let ready = array_at(&node.body, &["status", "conditions"])
        .iter()
        .filter(|condition| string_at(condition, &["type"]) == "Ready")
        .all(|condition| string_at(condition, &["status"]) == "True");
    let labelled = node.value_at(&["metadata", "labels"]).is_some_and(Value::is_object);
    let filtered = labelled && left_out.iter().any(|selector| selector.matches(&node.labels()));
    !unschedulable && !tainted && ready && !filtered
}

/// The requests of a pod: the sum of its containers, or its largest init container if that is more, plus its
/// overhead. The limit of a container counts where there is no request; that of an init container does not.
fn pod_requests(spec: &Value) -> Amounts {
    let mut total = Amounts::new();
    for container in array_at(spec, &["containers"]) {
        let mut wanted = read_amounts(value_at(container, &["resources", "limits"]));
        wanted.extend(read_amounts(value_at(container, &["resources", "requests"])));
        for (name, amount) in wanted {
            add_amount(&mut total, name, amount);
        }
    }
    for container in array_at(spec, &["initContainers"]) {
        for (name, amount) in read_amounts(value_at(container, &["resources", "requests"])) {
            let most = total.entry(name).or_default();
            *most = (*most).max(amount);
        }
    }
    for (name, amount) in read_amounts(spec.get("overhead")) {
        add_amount(&mut total, name, amount);
    }
    total
}

fn add_amount(total: &mut Amounts, name: String, amount: Quantity) {
    let sum = total.entry(name).or_default();
    *sum = *sum + amount;
}

fn read_amounts(map: Option<&Value>) -> Amounts {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value)?))).collect()
}
