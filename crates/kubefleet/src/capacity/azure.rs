//! The property provider for Azure: what it reports where neither costs nor namespaces are collected.

use std::collections::BTreeMap;

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::object::value_at;
use jiff::Timestamp;
use serde_json::Value;

use super::{AgentObservation, AgentReport, NODE_COUNT, PropertyValue, ResourceUsage};

/// Whether a node is a machine of Azure.
pub(super) fn is_node(node: &Value) -> bool {
    let provider = value_at(node, &["spec", "providerID"]).and_then(Value::as_str);
    provider.is_some_and(|provider| provider.starts_with("azure://"))
}

/// The size of the machine of a node; empty if it is not known.
pub fn machine_size(node: &Value) -> &str {
    let size = value_at(node, &["metadata", "labels", "beta.kubernetes.io/instance-type"]);
    size.and_then(Value::as_str).unwrap_or_default()
}

/// The properties of a cluster with so many machines of each size. The version of Kubernetes comes with the time
/// when it was read.
pub fn list_properties(
    machines: &BTreeMap<String, usize>,
    version: Option<(String, Timestamp)>,
    now: Timestamp,
) -> BTreeMap<String, PropertyValue> {
    let count = |count: usize| PropertyValue { value: count.to_string(), observation_time: now };
    let mut properties = BTreeMap::from([(NODE_COUNT.to_owned(), count(machines.values().sum()))]);
    for (size, machines) in machines {
        let size = if size.is_empty() { "undefined" } else { size };
        properties.insert(format!("kubernetes.azure.com/vm-sizes/{size}/count"), count(*machines));
    }
    if let Some((value, observation_time)) = version {
        properties.insert("k8s.io/k8s-version".to_owned(), PropertyValue { value, observation_time });
    }
    properties
}

/// The condition that the provider has started.
pub fn started_condition() -> Condition {
    let message = "The property provider has started successfully";
    Condition::new("ClusterPropertyProviderStarted", "True", "Started", message)
}

/// The condition that the provider has collected the properties.
pub fn collected_condition() -> Condition {
    let message = "The property provider has returned the latest cluster properties";
    Condition::new("ClusterPropertyCollectionSucceeded", "True", "PropertiesCollected", message)
}

/// Collects the report of a provider that has just started.
pub(super) fn collect_report(report: &mut AgentReport, seen: &AgentObservation<'_>) {
    let mut machines = BTreeMap::new();
    for node in seen.nodes {
        *machines.entry(machine_size(node).to_owned()).or_default() += 1;
    }
    let version = (!seen.version.is_empty()).then(|| (seen.version.to_owned(), seen.now));
    report.properties = list_properties(&machines, version, seen.now);
    let usage = ResourceUsage::from_nodes(seen.nodes, seen.pods, seen.now);
    report.resource_usage = ResourceUsage { observation_time: None, ..usage };
    for condition in [started_condition(), collected_condition()] {
        condition::set_condition(&mut report.conditions, condition, seen.now);
    }
}
