//! The available replicas of a cluster for a workload: Karmada's general estimator.
//!
//! Facts: free pods bound everything; otherwise each requested resource's free amount over the
//! request, rounded down, cpu in millis and everything else in whole units (both rounded up); counted
//! node sizes, where a cluster reports them, take the place of the sums: replicas are placed on them, or, in
//! older releases, grades are added up. All numbers are int32.

use std::collections::{BTreeMap, BTreeSet};

use super::grades::Grades;
use crate::version::ModelEstimate;
use crate::workload::{Requirements, Workload};
use federate_kubernetes::Cluster;
use federate_kubernetes::quantity::Quantity;

/// The estimate for a workload that wants no replicas: no bound.
pub(super) const UNBOUNDED: i64 = i32::MAX as i64;
/// Pods that a counted node takes.
const PODS_PER_NODE: i64 = 110;

/// The inventory's free resources by column, so that an estimate over all clusters reads memory in
/// order.
pub(crate) struct Estimator {
    /// Free pods; 0 without a resource summary.
    pods: Vec<i64>,
    /// Free amounts by resource, 0 where a cluster does not offer it.
    free: BTreeMap<String, Vec<i64>>,
    /// Counted node sizes, where a cluster reports them.
    counted: Vec<Option<Counted>>,
}

/// The nodes that a cluster reports.
enum Counted {
    Nodes(Shapes),
    Grades(Grades),
}

/// Counted nodes: how many, and the amounts each offers.
type Shapes = Vec<(i64, BTreeMap<String, i64>)>;

fn to_units(resource: &str, amount: Quantity) -> i64 {
    if resource == "cpu" { amount.milli_value() } else { amount.value() }
}

/// The available amount of a resource in a cluster, in the scheduler's units.
fn offered_units(cluster: &Cluster, resource: &str) -> i64 {
    let available = cluster.capacity.as_ref().and_then(|capacity| capacity.available.get(resource));
    available.map_or(0, |amount| to_units(resource, *amount).max(0))
}

impl Estimator {
    pub(crate) fn new(clusters: &[Cluster], models: ModelEstimate) -> Self {
        let names: BTreeSet<&String> = clusters
            .iter()
            .filter_map(|c| c.capacity.as_ref())
            .flat_map(|capacity| capacity.available.keys())
            .collect();
        Self {
            pods: clusters.iter().map(|cluster| offered_units(cluster, "pods")).collect(),
            free: names
                .into_iter()
                .map(|name| {
                    (name.clone(), clusters.iter().map(|cluster| offered_units(cluster, name)).collect())
                })
                .collect(),
            counted: clusters.iter().map(|cluster| count_nodes(cluster, models)).collect(),
        }
    }

    /// The available replicas of each cluster, by cluster index.
    pub(super) fn estimate_replicas(&self, workload: &Workload) -> Vec<i64> {
        if workload.replicas == 0 {
            return vec![UNBOUNDED; self.pods.len()];
        }
        let mut available = self.pods.clone();
        if let Some(requirements) = &workload.requirements {
            self.bound_by_requests(&mut available, requirements);
        }
        for amount in &mut available {
            if *amount >= UNBOUNDED {
                *amount = workload.replicas;
            }
        }
        available
    }

    fn bound_by_requests(&self, available: &mut [i64], requirements: &Requirements) {
        let requests: Vec<(&str, i64)> = requirements
            .requests
            .iter()
            .map(|(name, amount)| (name.as_str(), to_units(name, *amount)))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        for (name, request) in &requests {
            let column = self.free.get(*name);
            for (index, available) in available.iter_mut().enumerate() {
                if self.counted[index].is_none() {
                    let free = column.map_or(0, |column| column[index]);
                    *available = (*available).min(free / request);
                }
            }
        }
        for (index, available) in available.iter_mut().enumerate() {
            // Where no pod fits, nodes are not looked at.
            if self.pods[index] <= 0 {
                continue;
            }
            let fits = match &self.counted[index] {
                None => continue,
                Some(Counted::Nodes(shapes)) => fits_on(shapes, &requests),
                Some(Counted::Grades(grades)) => {
                    grades.available_replicas(&requests).unwrap_or_else(|| self.by_sums(index, &requests))
                }
            };
            *available = (*available).min(fits);
        }
    }

    /// The available replicas by the cluster's free resources.
    fn by_sums(&self, index: usize, requests: &[(&str, i64)]) -> i64 {
        let fitting = requests
            .iter()
            .map(|(name, request)| self.free.get(*name).map_or(0, |column| column[index]) / request);
        fitting.min().unwrap_or(UNBOUNDED)
    }
}

/// The nodes that a cluster reports.
fn count_nodes(cluster: &Cluster, models: ModelEstimate) -> Option<Counted> {
    let shapes = cluster.capacity.as_ref()?.shapes.as_ref()?;
    if models == ModelEstimate::ByGrade {
        return Some(Counted::Grades(Grades::new(shapes, to_units)));
    }
    let nodes = shapes.iter().filter(|shape| shape.count > 0).map(|shape| {
        let amounts = shape.resources.iter();
        let units = amounts.map(|(name, amount)| (name.clone(), to_units(name, *amount)));
        (shape.count, units.collect())
    });
    Some(Counted::Nodes(nodes.collect()))
}

/// Equal replicas that are placed first-fit fill each node independently, so the nodes' numbers add up.
fn fits_on(shapes: &Shapes, requests: &[(&str, i64)]) -> i64 {
    let mut sum = 0i64;
    for (count, offered) in shapes {
        let on_one = requests
            .iter()
            .map(|(name, request)| offered.get(*name).map_or(0, |amount| amount / request))
            .fold(PODS_PER_NODE, i64::min);
        sum = sum.saturating_add(count.saturating_mul(on_one));
    }
    sum
}
