//! Reads Karmada's `Cluster` into the neutral cluster, with the defaults that its API server fills in.
//!
//! Facts: `spec.zone` becomes `spec.zones` when that is empty; without `spec.resourceModels` there
//! are nine default grades; the first grade's minimum counts as 0. One condition is
//! read: whether the list of served APIs is complete.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::capacity::{EndpointAnswer, ObservedMember, cluster_status};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Apis, Capacity, Cluster, Finding, NodeShape, NotReady, Object, Taint, schema};

use super::api::{
    AllocatableModeling, ApiEnablement, KarmadaClusterSpec, KarmadaClusterStatus, ResourceModel,
    ResourceRange, ResourceSummary,
};

/// The taints of clusters whose condition `Ready` is `False` or `Unknown`.
const UNREADY_TAINTS: [&str; 2] = ["cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable"];

/// A grade of nodes.
#[derive(Clone, Debug)]
pub(super) struct NodeGrade {
    pub(super) grade: u64,
    /// The least that a node of it has free, by resource.
    pub(super) minimum: BTreeMap<String, Quantity>,
}

/// The grades of a `Cluster`, in ascending order.
pub(super) fn read_grades(object: &Object) -> Vec<NodeGrade> {
    let spec: KarmadaClusterSpec = read_section(object, "spec").unwrap_or_default();
    let models = normalize_models(spec.resource_models).into_iter();
    models.map(|model| NodeGrade { grade: model.grade, minimum: read_minimums(&model) }).collect()
}

/// Reads a `Cluster`; see [`Dialect::cluster`](federate_dialect::Dialect::cluster) for `strict`.
pub(super) fn read_cluster(object: &Object, strict: bool) -> Result<Cluster, Finding> {
    let spec: KarmadaClusterSpec = read_section(object, "spec")?;
    let reported = object.value_at(&["status"]).is_some_and(|s| !s.is_null());
    let status: KarmadaClusterStatus = read_section(object, "status")?;
    let zones = if spec.zones.is_empty() && !spec.zone.is_empty() { vec![spec.zone] } else { spec.zones };
    let models = normalize_models(spec.resource_models);
    Ok(Cluster {
        provider: spec.provider,
        region: spec.region,
        zones,
        taints: spec
            .taints
            .into_iter()
            .map(|t| Taint { key: t.key, value: t.value, effect: t.effect })
            .collect(),
        apis_complete: status
            .conditions
            .iter()
            .any(|c| c.r#type == "CompleteAPIEnablements" && c.status == "True"),
        apis: if reported || strict { apis_from_enablements(status.api_enablements) } else { Apis::All },
        kubernetes: object
            .value_at(&["status", "kubernetesVersion"])
            .and_then(Value::as_str)
            .map(str::to_owned),
        capacity: status.resource_summary.map(|s| capacity_from_summary(s, &models)),
        unready_condition: unready_condition(object),
        ..Cluster::from_object(object)
    })
}

/// The condition `Ready` that is not true or, without the condition, a taint with which Karmada marks a cluster that it
/// does not reach. Schedulers only look at the taint.
fn unready_condition(object: &Object) -> Option<NotReady> {
    let conditions = object.value_at(&["status", "conditions"]);
    let reported =
        conditions.and_then(Value::as_array).is_some_and(|all| all.iter().any(|c| c["type"] == "Ready"));
    if reported {
        return NotReady::from_conditions(conditions, "Ready");
    }
    let taints = object.value_at(&["spec", "taints"])?.as_array()?;
    let taint =
        taints.iter().find(|taint| taint["key"].as_str().is_some_and(|key| UNREADY_TAINTS.contains(&key)))?;
    let since = taint["timeAdded"].as_str().and_then(|time| time.parse().ok());
    Some(NotReady { since, why: format!("it has the taint {}", taint["key"].as_str().unwrap_or_default()) })
}

/// The free resources that the control plane would write into the `Cluster`'s status, from what is in the member.
pub(super) fn compute_capacity(object: &Object, nodes: &[Object], pods: &[Object]) -> Option<Capacity> {
    let readyz = EndpointAnswer::Status(200);
    let discovery = BTreeMap::new();
    let seen = ObservedMember { readyz, healthz: readyz, version: None, discovery: &discovery, nodes, pods };
    let summary = cluster_status(object, &seen).resource_summary?;
    let summary: ResourceSummary = serde_json::from_value(serde_json::to_value(summary).ok()?).ok()?;
    let spec: KarmadaClusterSpec = read_section(object, "spec").ok()?;
    Some(capacity_from_summary(summary, &normalize_models(spec.resource_models)))
}

fn read_section<T: Default + DeserializeOwned>(object: &Object, key: &str) -> Result<T, Finding> {
    schema::read_field(object, key, "invalid-cluster")
}

fn apis_from_enablements(enablements: Vec<ApiEnablement>) -> Apis {
    Apis::Listed(
        enablements
            .into_iter()
            .flat_map(|e| e.resources.into_iter().map(move |r| (e.group_version.clone(), r.kind)))
            .collect(),
    )
}

fn capacity_from_summary(summary: ResourceSummary, models: &[ResourceModel]) -> Capacity {
    let allocatable = read_amounts(&summary.allocatable);
    let used = [read_amounts(&summary.allocated), read_amounts(&summary.allocating)];
    let mut available = allocatable.clone();
    for (name, amount) in &mut available {
        for taken in used.iter().filter_map(|u| u.get(name)) {
            *amount = *amount - *taken;
        }
    }
    let counts = summary.allocatable_modelings;
    let shapes = (!counts.is_empty()).then(|| build_node_shapes(models, &counts));
    Capacity { allocatable, available, shapes, ..Capacity::default() }
}

fn read_amounts(list: &BTreeMap<String, Value>) -> BTreeMap<String, Quantity> {
    list.iter().filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value)?))).collect()
}

/// The nodes of each grade: `count` nodes with the grade's minimum of every resource.
fn build_node_shapes(models: &[ResourceModel], counts: &[AllocatableModeling]) -> Vec<NodeShape> {
    models
        .iter()
        .enumerate()
        .map(|(at, model)| NodeShape {
            count: counts.iter().rfind(|m| m.grade == model.grade).map_or(0, |m| m.count.max(0)),
            listed: counts.get(at).map_or(0, |m| m.count.max(0)),
            resources: read_minimums(model),
        })
        .collect()
}

fn read_minimums(model: &ResourceModel) -> BTreeMap<String, Quantity> {
    let ranges = model.ranges.iter();
    ranges.filter_map(|r| Some((r.name.clone(), Quantity::from_json(&r.min)?))).collect()
}

/// The grades in ascending order, the first with minimum 0; the nine default grades if none is given.
fn normalize_models(mut models: Vec<ResourceModel>) -> Vec<ResourceModel> {
    if models.is_empty() {
        return default_models();
    }
    models.sort_by_key(|m| m.grade);
    if let Some(first) = models.first_mut() {
        for range in &mut first.ranges {
            range.min = Value::from(0);
        }
    }
    models
}

fn default_models() -> Vec<ResourceModel> {
    const GRADES: [(u64, &str, &str); 9] = [
        (0, "0", "0"),
        (1, "1", "4Gi"),
        (2, "2", "16Gi"),
        (3, "4", "32Gi"),
        (4, "8", "64Gi"),
        (5, "16", "128Gi"),
        (6, "32", "256Gi"),
        (7, "64", "512Gi"),
        (8, "128", "1024Gi"),
    ];
    GRADES
        .map(|(grade, cpu, memory)| ResourceModel {
            grade,
            ranges: [("cpu", cpu), ("memory", memory)]
                .map(|(name, min)| ResourceRange { name: name.to_owned(), min: Value::from(min) })
                .to_vec(),
        })
        .to_vec()
}
