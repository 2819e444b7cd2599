//! What a control plane sees when it looks at a member cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use federate_kubernetes::Object;

use crate::probe::Healthz;

/// The state of a member cluster, from which its control plane computes the status of its inventory object.
#[derive(Clone, Debug)]
pub struct ClusterObservation {
    /// When it was observed.
    pub now: Timestamp,
    /// The answer to `GET /readyz`.
    pub readyz: Healthz,
    /// The answer to `GET /healthz`.
    pub healthz: Healthz,
    /// The version of Kubernetes, if the cluster reports it.
    pub version: Option<String>,
    /// The resources of each group and version, or why their discovery fails.
    pub discovery: BTreeMap<String, Result<Vec<Value>, String>>,
    /// All nodes.
    pub nodes: Vec<Object>,
    /// All pods, with at least their name, node, phase, and what their containers request.
    pub pods: Vec<Object>,
}

/// A kind of objects that a snapshot records besides the inventory and the previous plan.
#[derive(Clone, Copy, Debug)]
pub struct RecordedKind {
    /// The group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Which objects count where a repo has some, too.
    pub source: RecordSource,
}

/// Where the objects of a kind come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordSource {
    /// From the repo. Those of a snapshot count if the repo has none of the kind.
    Repo,
    /// From the control plane, which measures them. Those of a snapshot take the place of those of the repo.
    ControlPlane,
}

/// Kinds of an API group on the control plane's API server.
#[derive(Clone, Copy, Debug)]
pub struct HubKinds {
    /// The group.
    pub group: &'static str,
    /// The kinds; empty for all kinds of the group.
    pub kinds: &'static [&'static str],
}
