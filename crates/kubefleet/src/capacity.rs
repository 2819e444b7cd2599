//! What the agent of a member reports, and the resulting status of the `MemberCluster`: health, properties, resources.
//!
//! Facts: an agent that cannot reach its own API server still sends heartbeats and properties. Capacity is that of
//! all nodes, cordoned and unready ones included, in cpu and memory only. Available is allocatable minus the
//! container requests of scheduled pods that are not finished, and at least 0.

use std::collections::BTreeMap;

use federate_dialect::ClusterObservation;
use federate_dialect::probe::Healthz;
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{Capacity, Object};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::ReportedUsage;
use crate::membership::{self, AgentStatus};

pub mod azure;
mod nodes;

pub use nodes::NodeResources;

/// The property with the number of nodes.
pub(crate) const NODE_COUNT: &str = "kubernetes-fleet.io/node-count";

/// The state of a cluster, as its agent sees it.
#[derive(Clone, Copy, Debug)]
pub struct AgentObservation<'o> {
    /// When the agent looks.
    pub now: Timestamp,
    /// All nodes.
    pub nodes: &'o [Value],
    /// All pods.
    pub pods: &'o [Value],
    /// The HTTP status of `/readyz`; 0 where the API server cannot be reached.
    pub ready_status: u16,
    /// The version of the API server; empty where the server does not report it.
    pub version: &'o str,
}

/// A property of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PropertyValue {
    /// Its value.
    pub value: String,
    /// When it was observed.
    pub observation_time: Timestamp,
}

/// The resources of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// The capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<&'static str, String>>,
    /// The allocatable resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<BTreeMap<&'static str, String>>,
    /// The available resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<BTreeMap<&'static str, String>>,
    /// When they were observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_time: Option<Timestamp>,
}

impl ResourceUsage {
    /// The resources of these nodes, of which the pods use some.
    fn from_nodes(nodes: &[Value], pods: &[Value], now: Timestamp) -> Self {
        let allocatable = NodeResources::sum_nodes(nodes, "allocatable");
        let available = allocatable.saturating_sub(&NodeResources::sum_requests(pods));
        Self {
            capacity: Some(NodeResources::sum_nodes(nodes, "capacity").format_amounts()),
            allocatable: Some(allocatable.format_amounts()),
            available: Some(available.format_amounts()),
            observation_time: Some(now),
        }
    }
}

/// What an agent reports of its cluster.
#[derive(Clone, Debug, Default)]
pub struct AgentReport {
    /// What its property provider says.
    pub conditions: Vec<Condition>,
    /// Properties by name.
    pub properties: BTreeMap<String, PropertyValue>,
    /// Its resources.
    pub resource_usage: ResourceUsage,
}

impl AgentReport {
    /// Replaces properties and resources by what the agent collects without a property provider.
    pub fn collect_built_in(&mut self, seen: &AgentObservation<'_>, now: Timestamp) {
        let count = PropertyValue { value: seen.nodes.len().to_string(), observation_time: now };
        self.properties = BTreeMap::from([(NODE_COUNT.to_owned(), count)]);
        self.resource_usage = ResourceUsage::from_nodes(seen.nodes, seen.pods, now);
    }
}

/// The status of a `MemberCluster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Whether it has joined, and what its property provider says.
    pub conditions: Vec<Condition>,
    /// Properties by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, PropertyValue>,
    /// Its resources.
    pub resource_usage: ResourceUsage,
    /// The status of its agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_status: Option<[AgentStatus; 1]>,
}

impl MemberStatus {
    /// Copies what an agent reports of itself and of its cluster.
    pub fn copy_report(&mut self, agent: Option<&AgentStatus>, report: &AgentReport, now: Timestamp) {
        self.properties.clone_from(&report.properties);
        self.resource_usage.clone_from(&report.resource_usage);
        self.agent_status = agent.cloned().map(|agent| [agent]);
        membership::aggregate_joined(&mut self.conditions, agent, now);
        for condition in &report.conditions {
            condition::set_condition(&mut self.conditions, condition.clone(), now);
        }
    }
}

/// The status of a member on the hub whose agent has just joined. Clusters of Azure have its property provider, for which
/// prices are not known.
fn compute_joined_status(seen: &AgentObservation<'_>) -> MemberStatus {
    let mut agent = AgentStatus::member_agent();
    agent.send_heartbeat(seen.ready_status, seen.now);
    agent.mark_joined(seen.now);
    let mut report = AgentReport::default();
    if seen.nodes.iter().any(azure::is_node) {
        azure::collect_report(&mut report, seen);
    } else {
        report.collect_built_in(seen, seen.now);
    }
    let mut status = MemberStatus::default();
    membership::mark_ready_to_join(&mut status.conditions, seen.now);
    status.copy_report(Some(&agent), &report, seen.now);
    status
}

/// The properties of a cluster with these nodes, as its property provider reports them.
pub(crate) fn compute_properties(nodes: &[Object]) -> BTreeMap<String, String> {
    let nodes = clone_bodies(nodes);
    let seen = AgentObservation {
        now: Timestamp::UNIX_EPOCH,
        nodes: &nodes,
        pods: &[],
        ready_status: 200,
        version: "",
    };
    let properties = compute_joined_status(&seen).properties.into_iter();
    properties.map(|(name, property)| (name, property.value)).collect()
}

/// The resources of a cluster with these nodes and pods, as the built-in property provider reports them.
pub(crate) fn compute_capacity(nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
    let (nodes, pods) = (clone_bodies(nodes), clone_bodies(pods));
    let usage = ResourceUsage::from_nodes(&nodes, &pods, Timestamp::UNIX_EPOCH);
    Some(crate::cluster::read_capacity(ReportedUsage::deserialize(&serde_json::to_value(usage).ok()?).ok()?))
}

fn clone_bodies(objects: &[Object]) -> Vec<Value> {
    objects.iter().map(|object| object.body.clone()).collect()
}

/// The status of a member in what federate observes of it: that of an agent that has just joined.
pub(crate) fn compute_status(seen: &ClusterObservation) -> Option<Value> {
    let (nodes, pods) = (clone_bodies(&seen.nodes), clone_bodies(&seen.pods));
    let ready_status = match &seen.readyz {
        Healthz::Unreachable(_) => 0,
        Healthz::Answered { code, .. } => *code,
    };
    let version = seen.version.as_deref().unwrap_or_default();
    let observed = AgentObservation { now: seen.now, nodes: &nodes, pods: &pods, ready_status, version };
    serde_json::to_value(compute_joined_status(&observed)).ok()
}
