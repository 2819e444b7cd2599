//! What the agent of a member reports, and the resulting status of the `MemberCluster`: heartbeat, health,
//! properties, resources, namespaces.
//!
//! Facts: an agent that cannot join reports nothing else. An agent that cannot reach its own API server still
//! sends heartbeats and properties. Capacity is that of all nodes, cordoned and unready ones included, in cpu
//! and memory only. Available is allocatable minus the container requests of scheduled pods that are not
//! finished, and at least 0.

use std::collections::BTreeMap;

use federate_dialect::ClusterObservation;
use federate_dialect::probe::Healthz;
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::{Capacity, Object};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::ReportedUsage;
use crate::membership::{self, AgentStatus};

mod azure;
mod costs;
mod nodes;

pub use azure::{AzureConfig, AzureProvider, ProviderStart};
pub use costs::Prices;
use nodes::NodeResources;

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
    /// All namespaces.
    pub namespaces: &'o [Value],
    /// The HTTP status of `/readyz`; 0 where the API server cannot be reached.
    pub ready_status: u16,
    /// The version of the API server; empty where the server does not report it.
    pub version: &'o str,
    /// Why the agent cannot join, if it cannot.
    pub join_failure: Option<&'o str>,
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
    /// Its namespaces, each with the Work that owns it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<BTreeMap<String, String>>,
    /// The status of its agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_status: Option<[AgentStatus; 1]>,
}

/// The outcome of one run of the agent.
#[derive(Clone, Debug)]
pub struct AgentRun {
    /// The status on the hub.
    pub status: MemberStatus,
    /// The error for which the agent retries.
    pub error: Option<String>,
    /// When the run ended.
    pub ended: Timestamp,
}

/// The property provider of an agent.
#[derive(Clone, Debug, Default)]
pub enum PropertyProvider {
    /// The built-in one: nodes, cpu and memory.
    #[default]
    BuiltIn,
    /// The provider for Azure.
    Azure(Box<AzureProvider>),
}

/// A member with its agent, from run to run.
#[derive(Clone, Debug, Default)]
pub struct MemberAgent {
    provider: PropertyProvider,
    /// What the agent reports of the cluster.
    reported: MemberStatus,
    /// What the agent reports of itself.
    agent: Option<AgentStatus>,
    status: MemberStatus,
}

/// The status of a member on the hub whose agent has just joined. Clusters of Azure have its property provider, for which
/// prices are not known.
fn member_status(seen: &AgentObservation<'_>) -> MemberStatus {
    let provider = if seen.nodes.iter().any(azure::is_node) {
        let config = AzureConfig { available: true, ..AzureConfig::default() };
        PropertyProvider::Azure(Box::new(AzureProvider::new(config)))
    } else {
        PropertyProvider::BuiltIn
    };
    MemberAgent::new(provider).run_once(seen).status
}

/// The properties of a cluster with these nodes, as its property provider reports them.
pub(crate) fn compute_properties(nodes: &[Object]) -> BTreeMap<String, String> {
    let nodes = clone_bodies(nodes);
    let seen = AgentObservation {
        now: Timestamp::UNIX_EPOCH,
        nodes: &nodes,
        pods: &[],
        namespaces: &[],
        ready_status: 200,
        version: "",
        join_failure: None,
    };
    let properties = member_status(&seen).properties.into_iter();
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
    let observed = AgentObservation {
        now: seen.now,
        nodes: &nodes,
        pods: &pods,
        namespaces: &[],
        ready_status,
        version,
        join_failure: None,
    };
    serde_json::to_value(member_status(&observed)).ok()
}

impl MemberAgent {
    /// Returns a member with a property provider that has not reported yet.
    pub fn new(provider: PropertyProvider) -> Self {
        Self { provider, ..Self::default() }
    }

    /// The property provider.
    pub fn provider_mut(&mut self) -> &mut PropertyProvider {
        &mut self.provider
    }

    /// Runs the agent once, and copies its report to the hub.
    pub fn run_once(&mut self, seen: &AgentObservation<'_>) -> AgentRun {
        if let PropertyProvider::Azure(azure) = &mut self.provider {
            azure.update_state(seen);
        }
        membership::mark_ready_to_join(&mut self.status.conditions, seen.now);
        self.apply_pending(seen.now);
        let (error, ended) = match seen.join_failure {
            Some(why) => (Some(self.fail_to_join(why, seen.now)), seen.now),
            None => self.report_status(seen),
        };
        self.apply_pending(ended);
        AgentRun { status: self.status.clone(), error, ended }
    }

    fn fail_to_join(&mut self, why: &str, now: Timestamp) -> String {
        let condition = Condition::new("Joined", "Unknown", "InternalMemberClusterFailedToJoin", why);
        self.agent.get_or_insert_with(AgentStatus::member_agent).set_condition(condition, now);
        why.to_owned()
    }

    /// Runs an agent that has joined, and returns its error and when it ended.
    fn report_status(&mut self, seen: &AgentObservation<'_>) -> (Option<String>, Timestamp) {
        let agent = self.agent.get_or_insert_with(AgentStatus::member_agent);
        agent.last_received_heartbeat = Some(seen.now);
        let failure = (seen.ready_status != 200)
            .then(|| format!("health probe failed with status code {}", seen.ready_status));
        agent.report_health(failure.as_deref(), seen.now);
        let ended = self.collect_report(seen);
        if let Some(agent) = &mut self.agent {
            agent.mark_joined(ended);
        }
        (failure, ended)
    }

    /// Collects properties and resources, and returns when that ended.
    fn collect_report(&mut self, seen: &AgentObservation<'_>) -> Timestamp {
        let PropertyProvider::Azure(azure) = &mut self.provider else {
            self.collect_built_in(seen, seen.now);
            return seen.now;
        };
        let waited = azure.ensure_started(&mut self.reported.conditions, seen.now);
        let now = seen.now.saturating_add(waited).unwrap_or(Timestamp::MAX);
        if azure.is_started() {
            azure.collect_properties(&mut self.reported, seen, now);
        } else {
            self.collect_built_in(seen, now);
        }
        now
    }

    /// Collects properties and resources without a property provider.
    fn collect_built_in(&mut self, seen: &AgentObservation<'_>, now: Timestamp) {
        let count = PropertyValue { value: seen.nodes.len().to_string(), observation_time: now };
        self.reported.properties = BTreeMap::from([(NODE_COUNT.to_owned(), count)]);
        self.reported.resource_usage = ResourceUsage::from_nodes(seen.nodes, seen.pods, now);
    }

    /// Copies the agent's report to the hub.
    fn apply_pending(&mut self, now: Timestamp) {
        let status = &mut self.status;
        status.properties.clone_from(&self.reported.properties);
        status.resource_usage.clone_from(&self.reported.resource_usage);
        status.namespaces.clone_from(&self.reported.namespaces);
        status.agent_status = self.agent.clone().map(|agent| [agent]);
        membership::aggregate_joined(&mut status.conditions, self.agent.as_ref(), now);
        for condition in &self.reported.conditions {
            condition::set_condition(&mut status.conditions, condition.clone(), now);
        }
    }
}

/// How long the agent waits for its property provider.
const PROVIDER_START_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);
