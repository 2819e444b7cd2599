//! Member clusters in a common form, into which each dialect converts its inventory objects, so that each dialect can
//! schedule to the clusters of any inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::object::{Labels, Object, ObjectRef, Origin};
use super::quantity::Quantity;

/// The name of a member cluster. It is shared, because a plan repeats it in every placement.
pub type ClusterName = Arc<str>;

/// A member cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The name.
    pub name: ClusterName,
    /// The inventory object that describes it.
    pub id: ObjectRef,
    /// The location of that object in its source file.
    pub origin: Origin,
    /// The labels.
    pub labels: Labels,
    /// The cloud provider; empty if unknown.
    pub provider: String,
    /// The region; empty if unknown.
    pub region: String,
    /// The zones, in the order of the inventory.
    pub zones: Vec<String>,
    /// The taints.
    pub taints: Vec<Taint>,
    /// The APIs that it serves.
    pub apis: Apis,
    /// Whether it reports that the list of APIs is complete.
    pub apis_complete: bool,
    /// The resources; `None` if unknown.
    pub capacity: Option<Capacity>,
    /// The properties (KubeFleet), such as `kubernetes-fleet.io/node-count`.
    pub properties: BTreeMap<String, String>,
    /// Whether it has joined the federation.
    pub joined: bool,
    /// Whether it reports that it is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The times of its last reports.
    pub liveness: Liveness,
    /// The namespaces, if it reports them.
    pub namespaces: Option<BTreeSet<String>>,
}

impl Cluster {
    /// Creates a cluster from the parts of an inventory object that are the same in every dialect: its identity, its
    /// labels, and whether it is being deleted. The other fields are those of an inventory object without `status`:
    /// joined, ready, serving every API, with unknown location and capacity.
    pub fn of(object: &Object) -> Self {
        Self {
            name: object.id.name.as_str().into(),
            id: object.id.clone(),
            origin: object.origin.clone(),
            labels: object.labels(),
            provider: String::new(),
            region: String::new(),
            zones: Vec::new(),
            taints: Vec::new(),
            apis: Apis::All,
            apis_complete: true,
            capacity: None,
            properties: BTreeMap::new(),
            joined: true,
            ready: true,
            deleting: object.deleting(),
            liveness: Liveness::default(),
            namespaces: None,
        }
    }
}

/// The times of a cluster's last reports, if its inventory object has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// The time of the last report of its agent.
    pub heartbeat: Option<Timestamp>,
    /// The time since which it has not been ready.
    pub unready_since: Option<Timestamp>,
}

/// A cluster taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value, which is often empty.
    pub value: String,
    /// The effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// The APIs that a cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apis {
    /// Unknown, so every API counts as served (an inventory object without `status`).
    All,
    /// Exactly these pairs of API version and kind.
    Listed(BTreeSet<(String, String)>),
}

impl Apis {
    /// Whether objects of this API version and kind can be created in the cluster.
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(set) => set.contains(&(api_version.to_owned(), kind.to_owned())),
        }
    }
}

/// The resources of a cluster, by resource name (`cpu`, `memory`, `pods`, …).
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// The capacity of its nodes, including reserved resources; empty if the cluster does not report it separately.
    pub total: BTreeMap<String, Quantity>,
    /// The resources of its nodes that are available to pods.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The free part of `allocatable`, for each resource there. May be negative.
    pub available: BTreeMap<String, Quantity>,
    /// The node sizes with the number of nodes, smallest first, including sizes without nodes; `None` if the cluster
    /// does not report them.
    pub shapes: Option<Vec<NodeShape>>,
}

/// A number of nodes, each with at least `resources` free.
#[derive(Clone, Debug)]
pub struct NodeShape {
    /// The number of nodes.
    pub count: i64,
    /// The number of nodes at the same index of the cluster's own list, which may be in another order.
    pub listed: i64,
    /// The minimum free resources of each node.
    pub resources: BTreeMap<String, Quantity>,
}
