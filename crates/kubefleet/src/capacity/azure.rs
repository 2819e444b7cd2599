//! The property provider for Azure.
//!
//! Facts: the agent starts the provider once, with its first collection. If the provider does not start, the
//! agent always collects by itself. The provider watches nodes and keeps sums. As configured, it adds the
//! number of nodes of each size, the Kubernetes version (kept for 15 minutes), the certificate authority, costs
//! and namespaces.

use std::collections::BTreeMap;

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::object::value_at;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::costs::{Costs, Prices};
use super::nodes::NodeResources;
use super::{
    AgentObservation, MemberStatus, NODE_COUNT, PROVIDER_START_TIMEOUT, PropertyValue, ResourceUsage,
};

/// How long the Kubernetes version is kept.
const MAX_VERSION_AGE: SignedDuration = SignedDuration::from_mins(15);

/// How many namespaces are tracked.
const MAX_NAMESPACES: usize = 200;

/// How the start of the provider ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProviderStart {
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
pub struct AzureConfig {
    /// How the start ends.
    pub starting: ProviderStart,
    /// Prices, where costs are collected.
    pub prices: Option<Prices>,
    /// Whether the available resources are collected.
    pub available: bool,
    /// Whether namespaces are collected.
    pub namespace_collection: bool,
    /// The certificate authority, where it is known.
    pub certificate_authority: Option<String>,
}

/// The provider with its state.
#[derive(Clone, Debug, Default)]
pub struct AzureProvider {
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
        let size = value_at(node, &["metadata", "labels", "beta.kubernetes.io/instance-type"]);
        Self {
            size: size.and_then(Value::as_str).unwrap_or_default().to_owned(),
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

/// Whether a node is a machine of Azure.
pub(super) fn is_node(node: &Value) -> bool {
    let provider = value_at(node, &["spec", "providerID"]).and_then(Value::as_str);
    provider.is_some_and(|provider| provider.starts_with("azure://"))
}

fn object_name(object: &Value) -> &str {
    value_at(object, &["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
}

impl AzureProvider {
    /// A provider that has not been started.
    pub fn new(config: AzureConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Sets new prices.
    pub fn set_prices(&mut self, prices: Prices) {
        if self.config.prices.is_some() {
            self.config.prices = Some(prices);
        }
    }

    /// Updates the state from the watches.
    pub(super) fn update_state(&mut self, seen: &AgentObservation<'_>) {
        if self.nodes.replace_nodes(seen.nodes) {
            self.compute_costs(seen.now);
        }
        if self.config.namespace_collection {
            self.watch_namespaces(seen.namespaces);
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
    pub(super) fn ensure_started(
        &mut self,
        conditions: &mut Vec<Condition>,
        now: Timestamp,
    ) -> SignedDuration {
        if self.tried {
            return SignedDuration::ZERO;
        }
        self.tried = true;
        let (waited, status, reason, message) = match &self.config.starting {
            ProviderStart::Starts => {
                self.started = Some(now);
                let message = "The property provider has started successfully";
                (SignedDuration::ZERO, "True", "Started", message.to_owned())
            }
            ProviderStart::Slow => {
                let message = "The property provider does not start up in time";
                (PROVIDER_START_TIMEOUT, "False", "TimedOut", message.to_owned())
            }
            ProviderStart::Fails(why) => {
                let message = format!("Failed to start the property provider: {why}");
                (SignedDuration::ZERO, "False", "FailedToStart", message)
            }
        };
        let now = now.saturating_add(waited).unwrap_or(now);
        condition::set_condition(
            conditions,
            Condition::new("ClusterPropertyProviderStarted", status, reason, message),
            now,
        );
        waited
    }

    pub(super) fn is_started(&self) -> bool {
        self.started.is_some()
    }

    /// Collects the report.
    pub(super) fn collect_properties(
        &mut self,
        status: &mut MemberStatus,
        seen: &AgentObservation<'_>,
        now: Timestamp,
    ) {
        let message = "The property provider has returned the latest cluster properties";
        let collected =
            Condition::new("ClusterPropertyCollectionSucceeded", "True", "PropertiesCollected", message);
        condition::set_condition(&mut status.conditions, collected, now);
        let mut properties = BTreeMap::new();
        add_property(&mut properties, NODE_COUNT, self.nodes.by_name.len().to_string(), now);
        for (size, count) in self.nodes.count_by_size() {
            let size = if size.is_empty() { "undefined" } else { &size };
            add_property(
                &mut properties,
                &format!("kubernetes.azure.com/vm-sizes/{size}/count"),
                count.to_string(),
                now,
            );
        }
        if let Some((version, since)) = self.cached_version(seen.version, now) {
            add_property(&mut properties, "k8s.io/k8s-version", version, since);
        }
        if let (Some(authority), Some(since)) = (&self.config.certificate_authority, self.started) {
            add_property(
                &mut properties,
                "k8s.io/cluster-certificate-authority-data",
                authority.clone(),
                since,
            );
        }
        if let Some(costs) = self.current_costs(now) {
            condition::set_condition(&mut status.conditions, costs.to_condition(), now);
            if let Some([core, gigabyte]) = costs.format_rates() {
                add_property(&mut properties, "kubernetes.azure.com/per-cpu-core-cost", core, now);
                add_property(&mut properties, "kubernetes.azure.com/per-gb-memory-cost", gigabyte, now);
            }
        }
        status.properties = properties;
        status.resource_usage = ResourceUsage {
            capacity: Some(self.nodes.capacity.format_amounts()),
            allocatable: Some(self.nodes.allocatable.format_amounts()),
            available: self.config.available.then(|| {
                let requested = NodeResources::sum_requests(seen.pods);
                self.nodes.allocatable.saturating_sub(&requested).format_amounts()
            }),
            observation_time: None,
        };
        if self.config.namespace_collection {
            condition::set_condition(&mut status.conditions, self.namespace_condition(), now);
            status.namespaces = Some(self.namespaces.clone());
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

fn add_property(
    properties: &mut BTreeMap<String, PropertyValue>,
    name: &str,
    value: String,
    observation_time: Timestamp,
) {
    properties.insert(name.to_owned(), PropertyValue { value, observation_time });
}

/// The name of the Work that owns a namespace; empty if none does.
fn owning_work(namespace: &Value) -> &str {
    let owners = value_at(namespace, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    let mut works = owners.into_iter().flatten().filter(|owner| owner["kind"] == "AppliedWork");
    works.find_map(|owner| owner.get("name")?.as_str()).unwrap_or_default()
}
