//! The property provider for Azure.
//!
//! Facts: the agent starts the provider once, with its first collection. If the provider does not start, the
//! agent always collects by itself. The provider watches nodes and keeps sums. As configured, it adds the
//! number of nodes of each size, the Kubernetes version (kept for 15 minutes), the certificate authority, costs
//! and namespaces.

use std::collections::BTreeMap;

use federate_kubernetes::condition::{self, Condition};
use federate_kubernetes::object::at;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::costs::{Costs, Prices};
use super::nodes::Amounts;
use super::{MemberStatus, NODE_COUNT, Observed, PATIENCE, PropertyValue, ResourceUsage};

/// How long the Kubernetes version is kept.
const VERSION_AGE: SignedDuration = SignedDuration::from_mins(15);

/// How many namespaces are tracked.
const MAX_NAMESPACES: usize = 200;

/// How the start of the provider ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Start {
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
pub struct Config {
    /// How the start ends.
    pub starting: Start,
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
pub struct Azure {
    config: Config,
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
    capacity: Amounts,
    allocatable: Amounts,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    size: String,
    capacity: Amounts,
    allocatable: Amounts,
}

impl Node {
    fn read(node: &Value) -> Self {
        let size = at(node, &["metadata", "labels", "beta.kubernetes.io/instance-type"]);
        Self {
            size: size.and_then(Value::as_str).unwrap_or_default().to_owned(),
            capacity: Amounts::of_node(node, "capacity"),
            allocatable: Amounts::of_node(node, "allocatable"),
        }
    }
}

impl Nodes {
    /// Updates the nodes, and returns whether anything changed that costs depend on.
    fn watch(&mut self, nodes: &[Value]) -> bool {
        let mut changed = false;
        let mut here = Vec::new();
        for (name, node) in nodes.iter().map(|node| (name(node), Node::read(node))) {
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
    fn sizes(&self) -> BTreeMap<String, usize> {
        let mut sizes = BTreeMap::new();
        for node in self.by_name.values() {
            *sizes.entry(node.size.clone()).or_default() += 1;
        }
        sizes
    }
}

/// Whether a node is a machine of Azure.
pub(super) fn is_node(node: &Value) -> bool {
    let provider = at(node, &["spec", "providerID"]).and_then(Value::as_str);
    provider.is_some_and(|provider| provider.starts_with("azure://"))
}

fn name(object: &Value) -> &str {
    at(object, &["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
}

impl Azure {
    /// A provider that has not been started.
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Sets new prices.
    pub fn set_prices(&mut self, prices: Prices) {
        if self.config.prices.is_some() {
            self.config.prices = Some(prices);
        }
    }

    /// Updates the state from the watches.
    pub(super) fn watch(&mut self, seen: &Observed<'_>) {
        if self.nodes.watch(seen.nodes) {
            self.compute_costs(seen.now);
        }
        if self.config.namespace_collection {
            self.watch_namespaces(seen.namespaces);
        }
    }

    fn compute_costs(&mut self, now: Timestamp) {
        let compute = |prices| Costs::compute(prices, &self.nodes.sizes(), &self.nodes.capacity, now);
        self.costs = self.config.prices.as_ref().map(compute);
    }

    fn watch_namespaces(&mut self, namespaces: &[Value]) {
        let here = || namespaces.iter().filter(|n| at(n, &["metadata", "deletionTimestamp"]).is_none());
        self.namespaces.retain(|known, _| here().any(|namespace| name(namespace) == known));
        self.more_namespaces = false;
        for namespace in here() {
            let known = self.namespaces.contains_key(name(namespace));
            if known || self.namespaces.len() < MAX_NAMESPACES {
                self.namespaces.insert(name(namespace).to_owned(), owner(namespace).to_owned());
            } else {
                self.more_namespaces = true;
            }
        }
    }

    /// Starts the provider unless it has been tried before, and returns how long that took.
    pub(super) fn start(&mut self, conditions: &mut Vec<Condition>, now: Timestamp) -> SignedDuration {
        if self.tried {
            return SignedDuration::ZERO;
        }
        self.tried = true;
        let (waited, status, reason, message) = match &self.config.starting {
            Start::Starts => {
                self.started = Some(now);
                let message = "The property provider has started successfully";
                (SignedDuration::ZERO, "True", "Started", message.to_owned())
            }
            Start::Slow => {
                let message = "The property provider does not start up in time";
                (PATIENCE, "False", "TimedOut", message.to_owned())
            }
            Start::Fails(why) => {
                let message = format!("Failed to start the property provider: {why}");
                (SignedDuration::ZERO, "False", "FailedToStart", message)
            }
        };
        let now = now.saturating_add(waited).unwrap_or(now);
        condition::set(
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
    pub(super) fn collect(&mut self, status: &mut MemberStatus, seen: &Observed<'_>, now: Timestamp) {
        let message = "The property provider has returned the latest cluster properties";
        let collected =
            Condition::new("ClusterPropertyCollectionSucceeded", "True", "PropertiesCollected", message);
        condition::set(&mut status.conditions, collected, now);
        let mut properties = BTreeMap::new();
        let mut property = |name: &str, value: String, observation_time: Timestamp| {
            properties.insert(name.to_owned(), PropertyValue { value, observation_time });
        };
        property(NODE_COUNT, self.nodes.by_name.len().to_string(), now);
        for (size, count) in self.nodes.sizes() {
            let size = if size.is_empty() { "undefined" } else { &size };
            property(&format!("kubernetes.azure.com/vm-sizes/{size}/count"), count.to_string(), now);
        }
        if let Some((version, since)) = self.version(seen.version, now) {
            property("k8s.io/k8s-version", version, since);
        }
        if let (Some(authority), Some(since)) = (&self.config.certificate_authority, self.started) {
            property("k8s.io/cluster-certificate-authority-data", authority.clone(), since);
        }
        if let Some(costs) = self.costs(now) {
            condition::set(&mut status.conditions, costs.condition(), now);
            if let Some([core, gigabyte]) = costs.printed() {
                property("kubernetes.azure.com/per-cpu-core-cost", core, now);
                property("kubernetes.azure.com/per-gb-memory-cost", gigabyte, now);
            }
        }
        status.properties = properties;
        let available = || self.nodes.allocatable.without(&Amounts::requested(seen.pods)).printed();
        status.resource_usage = ResourceUsage {
            capacity: Some(self.nodes.capacity.printed()),
            allocatable: Some(self.nodes.allocatable.printed()),
            available: self.config.available.then(available),
            observation_time: None,
        };
        if self.config.namespace_collection {
            condition::set(&mut status.conditions, self.namespaces_collected(), now);
            status.namespaces = Some(self.namespaces.clone());
        }
    }

    /// The Kubernetes version, and when it was read.
    fn version(&mut self, seen: &str, now: Timestamp) -> Option<(String, Timestamp)> {
        let fresh = |(_, since): &&(String, Timestamp)| now.duration_since(*since) < VERSION_AGE;
        if let Some(known) = self.version.as_ref().filter(fresh) {
            return Some(known.clone());
        }
        self.version = (!seen.is_empty()).then(|| (seen.to_owned(), now));
        self.version.clone()
    }

    fn costs(&mut self, now: Timestamp) -> Option<&Costs> {
        let prices = self.config.prices.as_ref()?;
        if self.costs.as_ref().is_none_or(|costs| costs.outdated(prices)) {
            self.compute_costs(now);
        }
        self.costs.as_ref()
    }

    fn namespaces_collected(&self) -> Condition {
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

/// The name of the Work that owns a namespace, if one does.
fn owner(namespace: &Value) -> &str {
    let owners = at(namespace, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    let mut works = owners.into_iter().flatten().filter(|owner| owner["kind"] == "AppliedWork");
    works.find_map(|owner| owner.get("name")?.as_str()).unwrap_or_default()
}
