//! The agent of a KubeFleet member from run to run, with the property provider for Azure.
//!
//! Facts: an agent that cannot join reports nothing else. The agent starts its property provider once, with its first
//! collection. If the provider does not start, the agent always collects by itself. The provider watches nodes and keeps
//! sums. As configured, it adds the certificate authority, costs and namespaces. It keeps the Kubernetes version for 15
//! minutes.

use std::collections::BTreeMap;

use federate_kubefleet::capacity::azure;
use federate_kubefleet::capacity::{
    AgentObservation, AgentReport, MemberStatus, NodeResources, PropertyValue, ResourceUsage,
};
use federate_kubefleet::membership::{self, AgentStatus};
use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::object::value_at;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use costs::{Costs, Prices};

pub(crate) mod costs;

/// How long the agent waits for its property provider.
const PROVIDER_START_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);

/// How long the Kubernetes version is kept.
const MAX_VERSION_AGE: SignedDuration = SignedDuration::from_mins(15);

/// How many namespaces are tracked.
const MAX_NAMESPACES: usize = 200;

/// The outcome of one run of the agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentRun {
    /// The status on the hub.
    pub(crate) status: MemberStatus,
    /// The error for which the agent retries.
    pub(crate) error: Option<String>,
    /// When the run ended.
    pub(crate) ended: Timestamp,
}

/// A member with its agent, from run to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberAgent {
    /// The property provider, unless it is the built-in one.
    pub(crate) provider: Option<AzureProvider>,
    /// Its namespaces on the hub, each with the Work that owns it, if one does.
    pub(crate) namespaces: Option<BTreeMap<String, String>>,
    /// What the agent reports of the cluster.
    reported: AgentReport,
    /// What the agent reports of itself.
    agent: Option<AgentStatus>,
    status: MemberStatus,
}

impl MemberAgent {
    /// Returns a member with a property provider that has not reported yet.
    pub(crate) fn new(provider: Option<AzureProvider>) -> Self {
        Self { provider, ..Self::default() }
    }

    /// Runs the agent once, and copies its report to the hub. `join_failure` is why the agent cannot join.
    pub(crate) fn run_once(
        &mut self,
        seen: &AgentObservation<'_>,
        namespaces: &[Value],
        join_failure: Option<&str>,
    ) -> AgentRun {
        if let Some(azure) = &mut self.provider {
            azure.update_state(seen, namespaces);
        }
        membership::mark_ready_to_join(&mut self.status.conditions, seen.now);
        self.status.copy_report(self.agent.as_ref(), &self.reported, seen.now);
        let (error, ended) = match join_failure {
            Some(why) => (Some(self.fail_to_join(why, seen.now)), seen.now),
            None => self.report_status(seen),
        };
        self.status.copy_report(self.agent.as_ref(), &self.reported, ended);
        AgentRun { status: self.status.clone(), error, ended }
    }

    fn fail_to_join(&mut self, why: &str, now: Timestamp) -> String {
        let condition = Condition::new("Joined", "Unknown", "InternalMemberClusterFailedToJoin", why);
        self.agent.get_or_insert_with(AgentStatus::member_agent).set_condition(condition, now);
        why.to_owned()
    }

    /// Runs an agent that has joined, and returns its error and when it ended.
    fn report_status(&mut self, seen: &AgentObservation<'_>) -> (Option<String>, Timestamp) {
        let failure = self
            .agent
            .get_or_insert_with(AgentStatus::member_agent)
            .send_heartbeat(seen.ready_status, seen.now);
        let ended = self.collect_report(seen);
        if let Some(agent) = &mut self.agent {
            agent.mark_joined(ended);
        }
        (failure, ended)
    }

    /// Collects properties and resources, and returns when that ended.
    fn collect_report(&mut self, seen: &AgentObservation<'_>) -> Timestamp {
        let Some(azure) = &mut self.provider else {
            self.reported.collect_built_in(seen, seen.now);
            return seen.now;
        };
        let waited = azure.ensure_started(&mut self.reported.conditions, seen.now);
        let now = seen.now.saturating_add(waited).expect("a time");
        if azure.started.is_some() {
            azure.collect_properties(&mut self.reported, seen, now);
            self.namespaces = azure.config.namespace_collection.then(|| azure.namespaces.clone());
        } else {
            self.reported.collect_built_in(seen, now);
        }
        now
    }
}

/// How the start of the provider ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProviderStart {
    /// It starts.
    #[default]
    Starts,
    /// It takes longer than the agent waits.
    Slow,
    /// It fails.
    Fails(String),
}

/// The configuration of the provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct AzureConfig {
    /// How the start ends.
    pub(crate) starting: ProviderStart,
    /// Prices, where costs are collected.
    pub(crate) prices: Option<Prices>,
    /// Whether the available resources are collected.
    pub(crate) available: bool,
    /// Whether namespaces are collected.
    pub(crate) namespace_collection: bool,
    /// The certificate authority, where it is known.
    pub(crate) certificate_authority: Option<String>,
}

/// The provider with its state.
#[derive(Clone, Debug, Default)]
pub(crate) struct AzureProvider {
    config: AzureConfig,
    started: Option<Timestamp>,
    tried: bool,
    nodes: Nodes,
    costs: Option<Costs>,
    version: Option<(String, Timestamp)>,
    namespaces: BTreeMap<String, String>,
    more_namespaces: bool,
}

/// The nodes that are watched.
#[derive(Clone, Debug, Default)]
struct Nodes {
    by_name: BTreeMap<String, Node>,
    capacity: NodeResources,
    allocatable: NodeResources,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    size: String,
    capacity: NodeResources,
    allocatable: NodeResources,
}

impl Node {
    fn from_json(node: &Value) -> Self {
        Self {
            size: azure::machine_size(node).to_owned(),
            capacity: NodeResources::from_node(node, "capacity"),
            allocatable: NodeResources::from_node(node, "allocatable"),
        }
    }
}

impl Nodes {
    /// Updates the nodes, and returns whether anything changed that costs depend on.
    fn replace_nodes(&mut self, nodes: &[Value]) -> bool {
        let mut changed = false;
        let mut here = Vec::new();
        for (name, node) in nodes.iter().map(|node| (object_name(node), Node::from_json(node))) {
            let known = self.by_name.entry(name.to_owned());
            let is_new = matches!(known, std::collections::btree_map::Entry::Vacant(_));
            let before = known.or_default();
            changed |= is_new || before.size != node.size || before.capacity != node.capacity;
            if before.capacity != node.capacity {
                self.capacity.sub(&before.capacity);
                self.capacity.add(&node.capacity);
            }
            if before.allocatable != node.allocatable {
                self.allocatable.sub(&before.allocatable);
                self.allocatable.add(&node.allocatable);
            }
            *before = node;
            here.push(name);
        }
        let (capacity, allocatable) = (&mut self.capacity, &mut self.allocatable);
        self.by_name.retain(|name, node| {
            let stays = here.contains(&name.as_str());
            if !stays {
                capacity.sub(&node.capacity);
                allocatable.sub(&node.allocatable);
                changed = true;
            }
            stays
        });
        changed
    }

    /// The number of nodes of each size.
    fn count_by_size(&self) -> BTreeMap<String, usize> {
        let mut sizes = BTreeMap::new();
        for node in self.by_name.values() {
            *sizes.entry(node.size.clone()).or_default() += 1;
        }
        sizes
    }
}

fn object_name(object: &Value) -> &str {
    value_at(object, &["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
}

impl AzureProvider {
    /// A provider that has not been started.
    pub(crate) fn new(config: AzureConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Sets new prices.
    pub(crate) fn set_prices(&mut self, prices: Prices) {
        if self.config.prices.is_some() {
            self.config.prices = Some(prices);
        }
    }

    /// Updates the state from the watches.
    fn update_state(&mut self, seen: &AgentObservation<'_>, namespaces: &[Value]) {
        if self.nodes.replace_nodes(seen.nodes) {
            self.compute_costs(seen.now);
        }
        if self.config.namespace_collection {
            self.watch_namespaces(namespaces);
        }
    }

    fn compute_costs(&mut self, now: Timestamp) {
        self.costs =
            self.config.prices.as_ref().map(|prices| {
                Costs::from_prices(prices, &self.nodes.count_by_size(), &self.nodes.capacity, now)
            });
    }

    fn watch_namespaces(&mut self, namespaces: &[Value]) {
        let present = namespaces
            .iter()
            .filter(|namespace| value_at(namespace, &["metadata", "deletionTimestamp"]).is_none());
        let present: Vec<&Value> = present.collect();
        self.namespaces.retain(|known, _| present.iter().any(|namespace| object_name(namespace) == known));
        self.more_namespaces = false;
        for namespace in present {
            let known = self.namespaces.contains_key(object_name(namespace));
            if known || self.namespaces.len() < MAX_NAMESPACES {
                self.namespaces.insert(object_name(namespace).to_owned(), owning_work(namespace).to_owned());
            } else {
                self.more_namespaces = true;
            }
        }
    }

    /// Starts the provider unless it has been tried before, and returns how long that took.
    fn ensure_started(&mut self, conditions: &mut Vec<Condition>, now: Timestamp) -> SignedDuration {
        if self.tried {
            return SignedDuration::ZERO;
        }
        self.tried = true;
        let (waited, reason, message) = match &self.config.starting {
            ProviderStart::Starts => {
                self.started = Some(now);
                condition::set_condition(conditions, azure::started_condition(), now);
                return SignedDuration::ZERO;
            }
            ProviderStart::Slow => {
                let message = "The property provider does not start up in time".to_owned();
                (PROVIDER_START_TIMEOUT, "TimedOut", message)
            }
            ProviderStart::Fails(why) => (
                SignedDuration::ZERO,
                "FailedToStart",
                format!("Failed to start the property provider: {why}"),
            ),
        };
        let failed = Condition::new("ClusterPropertyProviderStarted", "False", reason, message);
        condition::set_condition(conditions, failed, now.saturating_add(waited).expect("a time"));
        waited
    }

    /// Collects the report.
    fn collect_properties(&mut self, report: &mut AgentReport, seen: &AgentObservation<'_>, now: Timestamp) {
        condition::set_condition(&mut report.conditions, azure::collected_condition(), now);
        let version = self.cached_version(seen.version, now);
        let mut properties = azure::list_properties(&self.nodes.count_by_size(), version, now);
        if let (Some(authority), Some(since)) = (&self.config.certificate_authority, self.started) {
            let authority = PropertyValue { value: authority.clone(), observation_time: since };
            properties.insert("k8s.io/cluster-certificate-authority-data".to_owned(), authority);
        }
        if let Some(costs) = self.current_costs(now) {
            condition::set_condition(&mut report.conditions, costs.to_condition(), now);
            let rates = costs.format_rates().into_iter().flatten();
            for (name, value) in ["per-cpu-core-cost", "per-gb-memory-cost"].into_iter().zip(rates) {
                let rate = PropertyValue { value, observation_time: now };
                properties.insert(format!("kubernetes.azure.com/{name}"), rate);
            }
        }
        report.properties = properties;
        report.resource_usage = ResourceUsage {
            capacity: Some(self.nodes.capacity.format_amounts()),
            allocatable: Some(self.nodes.allocatable.format_amounts()),
            available: self.config.available.then(|| {
                let requested = NodeResources::sum_requests(seen.pods);
                self.nodes.allocatable.saturating_sub(&requested).format_amounts()
            }),
            observation_time: None,
        };
        if self.config.namespace_collection {
            condition::set_condition(&mut report.conditions, self.namespace_condition(), now);
        }
    }

    /// The Kubernetes version, and when it was read.
    fn cached_version(&mut self, seen: &str, now: Timestamp) -> Option<(String, Timestamp)> {
        if let Some((known, since)) = &self.version
            && now.duration_since(*since) < MAX_VERSION_AGE
        {
            return Some((known.clone(), *since));
        }
        self.version = (!seen.is_empty()).then(|| (seen.to_owned(), now));
        self.version.clone()
    }

    fn current_costs(&mut self, now: Timestamp) -> Option<&Costs> {
        let prices = self.config.prices.as_ref()?;
        if self.costs.as_ref().is_none_or(|costs| prices.updated > costs.computed) {
            self.compute_costs(now);
        }
        self.costs.as_ref()
    }

    fn namespace_condition(&self) -> Condition {
        let (reason, status, message) = if self.more_namespaces {
            let message = "Namespaces have been collected in a degraded mode since the number of namespaces reaches \
                           the track limit";
            ("Degraded", "False", message)
        } else {
            ("Succeeded", "True", "All namespaces have been collected successfully")
        };
        Condition::new("NamespaceCollectionSucceeded", status, reason, message)
    }
}

/// The name of the Work that owns a namespace; empty if none does.
fn owning_work(namespace: &Value) -> &str {
    let owners = value_at(namespace, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    let mut works = owners.into_iter().flatten().filter(|owner| owner["kind"] == "AppliedWork");
    works.find_map(|owner| owner.get("name")?.as_str()).unwrap_or_default()
}
