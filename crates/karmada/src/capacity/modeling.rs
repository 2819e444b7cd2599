//! Counts the nodes of each grade.
//!
//! Facts: a node has the highest grade whose minimum it has free of every resource that the first grade names.
//! An overbooked node has no grade. A node that is full of pods ends the count and is not included.

use std::collections::BTreeMap;

use federate_kubernetes::Object;
use federate_kubernetes::quantity::Quantity;
use serde_json::Value;

use super::CollectedModeling;
use super::pods::{self, PodRequests};
use crate::cluster::{self, NodeGrade};

pub(super) fn count_nodes_by_grade(
    cluster: &Object,
    nodes: &[Object],
    pods: &[Object],
) -> Vec<CollectedModeling> {
    let grades = cluster::read_grades(cluster);
    let mut placed: BTreeMap<&str, PodRequests> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pods::takes_resources(pod)) {
        placed.entry(pod.text_at(&["spec", "nodeName"])).or_default().add_pod(pod);
    }
    let mut counts: Vec<CollectedModeling> =
        grades.iter().map(|grade| CollectedModeling { grade: grade.grade, count: 0 }).collect();
    for node in nodes {
        let Some(free) = compute_free_resources(node, placed.get(node.id.name.as_str())) else { break };
        if let Some(count) = grade_of(&free, &grades).and_then(|at| counts.get_mut(at)) {
            count.count += 1;
        }
    }
    counts
}

/// The free resources of a node; `None` where it is full of pods.
fn compute_free_resources(node: &Object, taken: Option<&PodRequests>) -> Option<BTreeMap<String, Quantity>> {
    let offered = node.value_at(&["status", "allocatable"]).and_then(Value::as_object);
    let offered = offered.into_iter().flatten();
    let mut free: BTreeMap<String, Quantity> =
        offered.filter_map(|(name, amount)| Some((name.clone(), Quantity::from_json(amount)?))).collect();
    let Some(taken) = taken else { return Some(free) };
    let allowed = free.get("pods").map_or(0, |pods| pods.value());
    if allowed - taken.pods() <= 0 {
        return None;
    }
    for (name, amount) in &mut free {
        *amount = *amount - taken.requested_amount(name);
    }
    Some(free)
}

/// The number of the grade of a node.
fn grade_of(free: &BTreeMap<String, Quantity>, grades: &[NodeGrade]) -> Option<usize> {
    let fitting = grades.first()?.minimum.keys().map(|name| {
        let amount = free.get(name).copied().unwrap_or_default();
        grades.iter().rposition(|grade| grade.minimum.get(name).is_some_and(|least| *least <= amount))
    });
    fitting.min().flatten()
}
