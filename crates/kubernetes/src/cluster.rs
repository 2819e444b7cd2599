//! The common form of a member cluster, which every dialect's inventory object is converted to, so that every
//! dialect can schedule over every inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::display_text::escape_line;
use super::object::{Labels, Object, ObjectRef, Origin};
use super::quantity::Quantity;

/// The longest age of a heartbeat with which a cluster still counts as connected. This is the limit of KubeFleet, the
/// only control plane with heartbeats in its inventory.
pub const MAX_SILENCE: SignedDuration = SignedDuration::from_mins(5);

/// The name of a member cluster. Shared, because a plan contains it once per placement.
pub type ClusterName = Arc<str>;

/// A member cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The name.
    pub name: ClusterName,
    /// The inventory object that describes it.
    pub id: ObjectRef,
    /// The place of that object.
    pub origin: Origin,
    /// The labels.
    pub labels: Labels,
    /// The cloud provider; empty if unknown.
    pub provider: String,
    /// The region; empty if unknown.
    pub region: String,
    /// The zones, in their original order.
    pub zones: Vec<String>,
    /// The taints.
    pub taints: Vec<Taint>,
    /// The APIs that it serves.
    pub apis: Apis,
    /// Whether the cluster reports that this list is complete.
    pub apis_complete: bool,
    /// Free resources; `None` if unknown.
    pub capacity: Option<Capacity>,
    /// Named properties (KubeFleet), such as `kubernetes-fleet.io/node-count`.
    pub properties: BTreeMap<String, String>,
    /// Whether it has joined the federation.
    pub joined: bool,
    /// Whether it reports that it is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When it last reported.
    pub liveness: Liveness,
    /// The condition by which its control plane reports that it is not ready. Not every scheduler reads it: `ready` is
    /// what schedulers decide by.
    pub unready_condition: Option<NotReady>,
    /// The version of Kubernetes that it runs, if known.
    pub kubernetes: Option<String>,
    /// The namespaces that it has, if it reports them.
    pub namespaces: Option<BTreeSet<String>>,
}

impl Cluster {
    /// A cluster with the fields that inventory objects of all dialects share: name, labels, deletion. All
    /// other fields have the values for an inventory without `status`: joined, ready, serving every API, with
    /// unknown location and capacity.
    pub fn from_object(object: &Object) -> Self {
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
            deleting: object.is_deleting(),
            liveness: Liveness::default(),
            unready_condition: None,
            kubernetes: None,
            namespaces: None,
        }
    }

    /// Why the cluster is not ready, if so: by its conditions, by its last heartbeat at the time `now`, or because it has
    /// not joined. What it ran when it last reported may not run any more.
    pub fn not_ready(&self, now: Option<Timestamp>) -> Option<NotReady> {
        if self.unready_condition.is_some() {
            return self.unready_condition.clone();
        }
        let heartbeat = self.liveness.heartbeat;
        let silent = now.zip(heartbeat).is_some_and(|(now, last)| now.duration_since(last) > MAX_SILENCE);
        let (since, why) = match (self.joined, self.ready) {
            (false, _) => (None, "it has not joined the federation"),
            (true, false) => {
                (self.liveness.unready_since, "its inventory object does not say that it is ready")
            }
            (true, true) if silent => {
                (heartbeat.filter(|last| last.as_second() > 0), "its agent has not reported since")
            }
            (true, true) => return None,
        };
        Some(NotReady { since, why: why.to_owned() })
    }
}

/// Why a cluster is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// Since when, if the inventory says so.
    pub since: Option<Timestamp>,
    /// The reason, in words.
    pub why: String,
}

impl NotReady {
    /// Reads the conditions of a cluster: it is not ready if the condition `ready` is not true, or if `Offline` is.
    /// Several conditions of a type count as true if one of them is.
    pub fn from_conditions(conditions: Option<&Value>, ready: &str) -> Option<Self> {
        let conditions = conditions.and_then(Value::as_array)?;
        let mut found = None;
        for condition in conditions.iter().filter(|condition| condition["type"] == ready) {
            if condition["status"] == "True" {
                return None;
            }
            found = found.or(Some(condition));
        }
        let mut all = conditions.iter();
        let condition = found.or_else(|| {
            all.find(|condition| condition["type"] == "Offline" && condition["status"] == "True")
        })?;
        let [kind, status, reason, message, time] =
            ["type", "status", "reason", "message", "lastTransitionTime"]
                .map(|field| condition[field].as_str().unwrap_or_default());
        let why = match (reason, message) {
            ("", "") => format!("{kind} is {status}"),
            (reason, "") => reason.to_owned(),
            ("", message) => message.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        };
        Some(Self { since: time.parse().ok(), why })
    }
}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { since, why } = self;
        // The text comes from an API server.
        let why = escape_line(why);
        match since {
            Some(since) => write!(f, "not ready since {since} ({why})"),
            None => write!(f, "not ready ({why})"),
        }
    }
}

/// When a cluster last reported, if its inventory says so.
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
    /// The key.
    pub key: String,
    /// The value, often empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`; some control planes have effects of their own.
    pub effect: String,
}

/// The APIs a cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apis {
    /// Unknown: every API counts as served (an inventory kept without `status`).
    All,
    /// Exactly these pairs of API version and kind.
    Listed(BTreeSet<(String, String)>),
}

impl Apis {
    /// Whether objects of this API version and kind can be created in the cluster.
    pub fn serves_kind(&self, api_version: &str, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(set) => set.contains(&(api_version.to_owned(), kind.to_owned())),
        }
    }
}

/// The resources of a cluster, by resource name (`cpu`, `memory`, `pods`, …).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capacity {
    /// The capacity of its nodes, including what they reserve; empty if unknown.
    pub total: BTreeMap<String, Quantity>,
    /// The allocatable resources of its nodes.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The free part of that: contains a resource exactly if `allocatable` does. May be negative.
    pub available: BTreeMap<String, Quantity>,
    /// Node counts by size, smallest first, including sizes without nodes; `None` if the cluster reports
    /// none.
    pub shapes: Option<Vec<NodeShape>>,
}

/// `count` nodes, each with at least `resources` free.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeShape {
    /// The number of such nodes.
    pub count: i64,
    /// The count at this position in the cluster's own list, which may be in another order.
    pub listed: i64,
    /// The free resources that each of them has at least.
    pub resources: BTreeMap<String, Quantity>,
}
