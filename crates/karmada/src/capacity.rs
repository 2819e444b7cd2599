//! The status of a `Cluster` as Karmada computes it from the objects of the member: health, version, APIs,
//! resources, and the number of nodes of each grade.
//!
//! Facts: a cluster that is unreachable or unhealthy gets new conditions only; the rest of its status stays.
//! Sums include every node, whatever its state. Finished pods count only while they have no node.

use std::collections::BTreeMap;

use federate_dialect::ClusterObservation;
use federate_dialect::probe::Healthz;
use federate_kubernetes::{Condition, Object};
use serde::Serialize;
use serde_json::Value;

mod modeling;
mod pods;
pub mod readiness;
pub mod taints;

use federate_kubernetes::formatted_quantity::FormattedQuantity;

pub(crate) use pods::format_of;

/// An answer of a member's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointAnswer {
    /// No answer: it cannot be reached.
    None,
    /// An HTTP status.
    Status(u16),
}

/// The observed state of a member.
#[derive(Clone, Copy, Debug)]
pub struct ObservedMember<'o> {
    /// The answer of `/readyz`.
    pub readyz: EndpointAnswer,
    /// The answer of `/healthz`, which is asked where there is no `/readyz`.
    pub healthz: EndpointAnswer,
    /// The version of Kubernetes, where it is known.
    pub version: Option<&'o str>,
    /// The resources of each group and version; `None` where their discovery fails.
    pub discovery: &'o BTreeMap<String, Option<Vec<Value>>>,
    /// All nodes.
    pub nodes: &'o [Object],
    /// All pods.
    pub pods: &'o [Object],
}

/// The status of a `Cluster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectedClusterStatus {
    /// The version of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// The APIs that it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_enablements: Option<Vec<CollectedApiEnablement>>,
    /// `CompleteAPIEnablements` and `Ready`.
    pub conditions: Vec<Condition>,
    /// Its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
    /// Its resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_summary: Option<CollectedResourceSummary>,
}

/// The kinds of a group and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectedApiEnablement {
    /// `apps/v1`, …
    pub group_version: String,
    /// By name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<CollectedApiResource>,
}

/// A kind that is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CollectedApiResource {
    /// `deployments`, …
    pub name: String,
    /// `Deployment`, …
    pub kind: String,
}

/// The number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    /// All nodes.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_num: usize,
    /// The ready ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_num: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The resources of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CollectedResourceSummary {
    /// What nodes offer to pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, String>,
    /// The requests of pods that have no node yet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocating: BTreeMap<String, String>,
    /// The requests of running pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: BTreeMap<String, String>,
    /// How many nodes there are of each grade.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocatable_modelings: Vec<CollectedModeling>,
}

/// The nodes of a grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CollectedModeling {
    /// The grade.
    pub grade: u64,
    /// How many.
    pub count: i64,
}

/// The status of a cluster that is observed for the first time.
pub fn cluster_status(cluster: &Object, seen: &ObservedMember<'_>) -> CollectedClusterStatus {
    let answer = if seen.readyz == EndpointAnswer::Status(404) { seen.healthz } else { seen.readyz };
    let health = match answer {
        EndpointAnswer::None | EndpointAnswer::Status(400..) => readiness::MemberHealth::Unreachable,
        EndpointAnswer::Status(200) => readiness::MemberHealth::Healthy,
        EndpointAnswer::Status(_) => readiness::MemberHealth::Unhealthy,
    };
    let ready = readiness::ready_condition(health);
    if health != readiness::MemberHealth::Healthy {
        return CollectedClusterStatus { conditions: vec![ready], ..CollectedClusterStatus::default() };
    }
    let (enablements, complete) = collect_api_enablements(seen.discovery);
    let summary = CollectedResourceSummary {
        allocatable: sum_allocatable(seen.nodes),
        allocating: pods::asked_by(seen.pods, |pod| !pods::has_node(pod)),
        allocated: pods::asked_by(seen.pods, pods::takes_resources),
        allocatable_modelings: modeling::count_nodes_by_grade(cluster, seen.nodes, seen.pods),
    };
    CollectedClusterStatus {
        kubernetes_version: seen.version.map(str::to_owned),
        api_enablements: Some(enablements).filter(|all| !all.is_empty()),
        conditions: vec![complete, ready],
        node_summary: Some(NodeSummary {
            total_num: seen.nodes.len(),
            ready_num: seen.nodes.iter().filter(|node| is_ready(node)).count(),
        }),
        resource_summary: Some(summary),
    }
}

impl From<&Healthz> for EndpointAnswer {
    fn from(answer: &Healthz) -> Self {
        match answer {
            Healthz::Unreachable(_) => Self::None,
            Healthz::Answered { code, .. } => Self::Status(*code),
        }
    }
}

/// The status of a cluster by what federate observes of it.
pub(crate) fn status_from_observation(cluster: &Object, seen: &ClusterObservation) -> Option<Value> {
    let discovery = seen.discovery.iter().map(|(version, found)| (version.clone(), found.clone().ok()));
    let discovery = discovery.collect();
    let observed = ObservedMember {
        readyz: (&seen.readyz).into(),
        healthz: (&seen.healthz).into(),
        version: seen.version.as_deref(),
        discovery: &discovery,
        nodes: &seen.nodes,
        pods: &seen.pods,
    };
    let mut status = cluster_status(cluster, &observed);
    for condition in &mut status.conditions {
        condition.last_transition_time = Some(seen.now);
    }
    serde_json::to_value(status).ok()
}

/// The APIs that are served, and whether the list is complete.
fn collect_api_enablements(
    discovery: &BTreeMap<String, Option<Vec<Value>>>,
) -> (Vec<CollectedApiEnablement>, Condition) {
    let mut kept = Vec::new();
    for (group_version, resources) in discovery {
        let Some(resources) = resources else { continue };
        let mut resources: Vec<CollectedApiResource> = resources
            .iter()
            .map(|resource| CollectedApiResource {
                name: resource["name"].as_str().unwrap_or_default().to_owned(),
                kind: resource["kind"].as_str().unwrap_or_default().to_owned(),
            })
            .filter(|resource| !resource.name.contains('/'))
            .collect();
        resources.sort();
        kept.push(CollectedApiEnablement { group_version: group_version.clone(), resources });
    }
    let (status, reason, message) = if kept.is_empty() {
        ("False", "Empty", "collected empty APIEnablements from the cluster".to_owned())
    } else if kept.len() < discovery.len() {
        let message = format!("might collect partial APIEnablements({}) from the cluster", kept.len());
        ("False", "Partial", message)
    } else {
        ("True", "Complete", "collected complete APIEnablements from the cluster".to_owned())
    };
    (kept, Condition::new("CompleteAPIEnablements", status, reason, message))
}

/// Whether the first condition of that type says that a node is ready.
fn is_ready(node: &Object) -> bool {
    let conditions = node.value_at(&["status", "conditions"]).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.is_some_and(|condition| condition["status"] == "True")
}

fn sum_allocatable(nodes: &[Object]) -> BTreeMap<String, String> {
    let mut sums: BTreeMap<String, FormattedQuantity> = BTreeMap::new();
    for node in nodes {
        let offered = node.value_at(&["status", "allocatable"]).and_then(Value::as_object);
        for (name, amount) in offered.into_iter().flatten() {
            if let Some(amount) = FormattedQuantity::from_json(amount) {
                sums.entry(name.clone()).or_default().add(amount);
            }
        }
    }
    sums.into_iter().map(|(name, sum)| (name, sum.to_string())).collect()
}
