//! Counts the nodes of each grade.
//!
//! Facts: a node has the highest grade whose minimum it has free of every resource that the first grade names.
//! An overbooked node has no grade. A node that is full of pods ends the count and is not included.

use std::collections::BTreeMap;

use federate_kubernetes::Object;
use federate_kubernetes::quantity::Quantity;
use serde_json::Value;

use super::Modeling;
use super::pods::{self, Requests};
use crate::cluster::{self, Grade};

pub(super) fn grades(cluster: &Object, nodes: &[Object], pods: &[Object]) -> Vec<Modeling> {
    let grades = cluster::grades(cluster);
    let mut placed: BTreeMap<&str, Requests> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pods::runs(pod)) {
        placed.entry(pod.text(&["spec", "nodeName"])).or_default().add(pod);
    }
    let mut counts: Vec<Modeling> =
        grades.iter().map(|grade| Modeling { grade: grade.grade, count: 0 }).collect();
    for node in nodes {
        let Some(free) = free(node, placed.get(node.id.name.as_str())) else { break };
        if let Some(count) = grade_of(&free, &grades).and_then(|at| counts.get_mut(at)) {
            count.count += 1;
        }
    }
    counts
}

/// The free resources of a node; `None` where it is full of pods.
fn free(node: &Object, taken: Option<&Requests>) -> Option<BTreeMap<String, Quantity>> {
    let offered = node.at(&["status", "allocatable"]).and_then(Value::as_object);
    let offered = offered.into_iter().flatten();
    let mut free: BTreeMap<String, Quantity> =
        offered.filter_map(|(name, amount)| Some((name.clone(), Quantity::from_json(amount)?))).collect();
    let Some(taken) = taken else { return Some(free) };
    let allowed = free.get("pods").map_or(0, |pods| pods.value());
    if allowed - taken.pods() <= 0 {
        return None;
    }
    for (name, amount) in &mut free {
        *amount = *amount - taken.of(name);
    }
    Some(free)
}

/// The number of the grade of a node.
fn grade_of(free: &BTreeMap<String, Quantity>, grades: &[Grade]) -> Option<usize> {
    let named = grades.first()?.minimum.keys();
    let of = |name: &String| {
        let amount = free.get(name).copied().unwrap_or_default();
        grades.iter().rposition(|grade| grade.minimum.get(name).is_some_and(|least| *least <= amount))
    };
    named.map(of).min().flatten()
}
