//! The neutral cluster: what any dialect's inventory object says of a member cluster, in one shape,
//! so that every dialect schedules over every inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::object::{Labels, Object, ObjectRef, Origin};
use super::quantity::Quantity;

/// A member cluster's name. Shared, because a plan repeats it once for every placement.
pub type ClusterName = Arc<str>;

/// A member cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its name.
    pub name: ClusterName,
    /// The inventory object that describes it.
    pub id: ObjectRef,
    /// Where that object was written.
    pub origin: Origin,
    /// Its labels.
    pub labels: Labels,
    /// Cloud provider, empty when not given.
    pub provider: String,
    /// Region, empty when not given.
    pub region: String,
    /// Zones, in the order given.
    pub zones: Vec<String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The APIs it serves.
    pub apis: Apis,
    /// Whether it reports that these are all.
    pub apis_complete: bool,
    /// Free resources; `None` when nothing is known of them.
    pub capacity: Option<Capacity>,
    /// Named properties (Fleet), e.g. `kubernetes-fleet.io/node-count`.
    pub properties: BTreeMap<String, String>,
    /// Whether it has joined the federation.
    pub joined: bool,
    /// Whether it reports to be ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// How fresh that news is.
    pub liveness: Liveness,
    /// The namespaces it has, when it reports them.
    pub namespaces: Option<BTreeSet<String>>,
}

impl Cluster {
    /// What an inventory object says of its cluster in every dialect: who it is, its labels, whether it
    /// is being deleted. The rest is what an inventory without `status` means: joined, ready, serving
    /// every API, nothing known of where it is or of what is free.
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

/// When a cluster was last heard of, where its inventory tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// When its agent last reported.
    pub heartbeat: Option<Timestamp>,
    /// Since when it has not been ready.
    pub unready_since: Option<Timestamp>,
}

/// A cluster taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, often empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// The APIs a cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apis {
    /// Nothing is known, so everything is taken as served (an inventory kept without `status`).
    All,
    /// Exactly these pairs of API version and kind.
    Listed(BTreeSet<(String, String)>),
}

impl Apis {
    /// Whether objects of this API version and kind can be created there.
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(set) => set.contains(&(api_version.to_owned(), kind.to_owned())),
        }
    }
}

/// What a cluster has and has left, by resource name (`cpu`, `memory`, `pods`, …).
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// What its nodes have, what they keep for themselves included; empty when not told apart.
    pub total: BTreeMap<String, Quantity>,
    /// What its nodes offer to pods.
    pub allocatable: BTreeMap<String, Quantity>,
    /// What of that is free: a resource is here when it is in `allocatable`. May be negative.
    pub available: BTreeMap<String, Quantity>,
    /// Counted node sizes, smallest first, those with no nodes included; `None` when the cluster reports none.
    pub shapes: Option<Vec<NodeShape>>,
}

/// `count` nodes, each with at least `resources` free.
#[derive(Clone, Debug)]
pub struct NodeShape {
    /// How many such nodes.
    pub count: i64,
    /// The count at this shape's place in the cluster's own list, which may be in another order.
    pub listed: i64,
    /// The least each of them has free.
    pub resources: BTreeMap<String, Quantity>,
}
