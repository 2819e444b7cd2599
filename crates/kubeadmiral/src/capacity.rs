//! The status of a `FederatedCluster`, as `KubeAdmiral`'s cluster controller collects it from the member.
//!
//! Facts: all joined clusters are probed in a fixed period. Readiness changes only when a change has been
//! observed for a while. Resources and API types are written as soon as a probe succeeds, whatever the
//! readiness is. A probe never sets a taint.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use federate_dialect::ClusterObservation;
use federate_dialect::probe::{ClusterCondition, Healthz};
use federate_kubernetes::Object;

mod apis;
mod resources;

pub use apis::{DiscoveredApi, Discovery};
pub use resources::{MemberResources, compute_resources};

const OFFLINE: &str = "Offline";
const READY: &str = "Ready";

/// The controller's flags for the collection of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusFlags {
    /// The period of probes.
    pub period: SignedDuration,
    /// How long a changed readiness must be observed before it is written.
    pub threshold: SignedDuration,
}

impl Default for StatusFlags {
    fn default() -> Self {
        Self { period: SignedDuration::from_secs(30), threshold: SignedDuration::from_secs(100) }
    }
}

/// The result of a probe of a member.
#[derive(Clone, Debug)]
pub struct MemberProbe {
    /// When the probe began.
    pub started: Timestamp,
    /// When the probe ended. Waiting for nodes and pods takes time.
    pub ended: Timestamp,
    /// The answer of `/healthz`.
    pub healthz: Healthz,
    /// The resources, from nodes and pods; `None` if they could not be listed in time.
    pub resources: Option<MemberResources>,
    /// The API types.
    pub discovery: Discovery,
}

/// The state that the running controller keeps of a cluster: the readiness that it observed last, and since
/// when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusHistory {
    /// The statuses of `Offline` and `Ready`.
    observed: [String; 2],
    since: Option<Timestamp>,
}

/// Whether a cluster with these conditions is probed.
pub fn is_due(cluster: &Object, flags: StatusFlags, now: Timestamp) -> bool {
    let conditions = ClusterCondition::read_all(&cluster.body);
    let last = conditions.iter().find(|c| c.kind == READY).and_then(|c| c.last_probe_time);
    last.is_none_or(|last| now > last + flags.period)
}

/// Computes the cluster's status after a probe, and the state that the controller keeps.
pub fn cluster_status(
    cluster: &Object,
    memory: Option<&StatusHistory>,
    seen: &MemberProbe,
    flags: StatusFlags,
) -> (Value, StatusHistory) {
    let mut status = match cluster.value_at(&["status"]) {
        Some(Value::Object(status)) => status.clone(),
        _ => Map::new(),
    };
    let before = ClusterCondition::read_all(&cluster.body);
    let found = probe_conditions(&before, seen, &mut status);
    let (keeps, memory) = apply_threshold(&before, memory, &found, seen, flags);
    if !keeps {
        let mut all = before;
        for condition in found {
            match all.iter_mut().find(|c| c.kind == condition.kind) {
                Some(old) => *old = condition,
                None => all.push(condition),
            }
        }
        status.insert("conditions".to_owned(), all.iter().map(ClusterCondition::to_value).collect());
    }
    (Value::Object(status), memory)
}

/// The status of a joined cluster, computed from what federate observes in it.
pub(crate) fn observed_status(cluster: &Object, seen: &ClusterObservation) -> Value {
    let probe = MemberProbe {
        started: seen.now,
        ended: seen.now,
        healthz: seen.healthz.clone(),
        resources: Some(compute_resources(&seen.nodes, &seen.pods, &[])),
        discovery: Discovery::from_lists(&seen.discovery),
    };
    let mut empty = cluster.clone();
    if let Some(body) = empty.body.as_object_mut() {
        body.shift_remove("status");
    }
    let (mut status, _) = cluster_status(&empty, None, &probe, StatusFlags::default());
    let joined = ClusterCondition {
        kind: "Joined".to_owned(),
        status: "True".to_owned(),
        reason: "ClusterJoined".to_owned(),
        message: "Cluster has joined the federation".to_owned(),
        last_probe_time: Some(seen.now),
        last_transition_time: Some(seen.now),
    };
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.insert(0, joined.to_value());
    }
    status
}

/// The two conditions of this probe alone. Writes resources and API types to the status.
fn probe_conditions(
    before: &[ClusterCondition],
    seen: &MemberProbe,
    status: &mut Map<String, Value>,
) -> [ClusterCondition; 2] {
    let mut offline = ("False", "ClusterReachable", "Cluster is reachable".to_owned());
    let ready = if seen.healthz.describe_failure().is_some() {
        offline = ("True", "ClusterNotReachable", "Cluster is not reachable".to_owned());
        ("Unknown", offline.1, offline.2.clone())
    } else if !seen.healthz.is_ok() {
        ("False", "HealthzNotOK", "/healthz responded without ok".to_owned())
    } else if let Some((reason, message)) = collect_status(seen, status) {
        ("False", reason, message)
    } else {
        ("True", "ClusterReady", "Cluster is ready".to_owned())
    };
    [(OFFLINE, offline), (READY, ready)].map(|(kind, (status, reason, message))| {
        let old = before.iter().find(|c| c.kind == kind && c.status == status);
        ClusterCondition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_probe_time: Some(seen.started),
            last_transition_time: old.and_then(|c| c.last_transition_time).or(Some(seen.started)),
        }
    })
}

/// Writes resources and API types to the status. Returns why some are missing.
fn collect_status(seen: &MemberProbe, status: &mut Map<String, Value>) -> Option<(&'static str, String)> {
    let Some(resources) = &seen.resources else {
        let why = "Failed to collect cluster resources: timeout waiting for node and pod informer sync";
        return Some(("ClusterResourceCollectionFailed", why.to_owned()));
    };
    status.insert("resources".to_owned(), resources.to_value());
    if let Some(why) = seen.discovery.describe_failure() {
        let why = format!("Failed to discover cluster API resources: {why}");
        return Some(("ClusterAPIDiscoveryFailed", why));
    }
    status.insert("apiResourceTypes".to_owned(), seen.discovery.to_api_resource_types());
    None
}

/// Whether the conditions stay although the probe differs, and the state that is kept.
fn apply_threshold(
    before: &[ClusterCondition],
    memory: Option<&StatusHistory>,
    found: &[ClusterCondition; 2],
    seen: &MemberProbe,
    flags: StatusFlags,
) -> (bool, StatusHistory) {
    let current =
        StatusHistory { observed: found.each_ref().map(|c| c.status.clone()), since: Some(seen.ended) };
    let written = [OFFLINE, READY].map(|kind| before.iter().find(|c| c.kind == kind));
    let [Some(offline), Some(ready)] = written else { return (false, current) };
    let written = [offline.status.clone(), ready.status.clone()];
    let Some(memory) = memory else { return (true, StatusHistory { observed: written, since: None }) };
    let memory = if memory.observed == current.observed { memory.clone() } else { current };
    let early = memory.since.is_some_and(|since| seen.ended < since + flags.threshold);
    (memory.observed != written && early, memory)
}
