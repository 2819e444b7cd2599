//! How many replicas of a workload a cluster has room for: Karmada's general estimator.
//!
//! Facts: free pods bound everything; otherwise each requested resource's free amount over the
//! request, rounded down, cpu in millis and everything else in whole units (both rounded up); counted
//! node sizes, where a cluster reports them, take the place of the sums: replicas are placed on them, or, in
//! older releases, grades are added up. All numbers are int32.

use std::collections::{BTreeMap, BTreeSet};

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
    shapes: Vec<Option<Shapes>>,
    models: ModelEstimate,
}

/// Counted nodes: how many, and the amounts each offers.
type Shapes = Vec<(i64, BTreeMap<String, i64>)>;

fn units(resource: &str, amount: Quantity) -> i64 {
    if resource == "cpu" { amount.milli() } else { amount.value() }
}

impl Estimator {
    pub(crate) fn new(clusters: &[Cluster], models: ModelEstimate) -> Self {
        let offered = |c: &Cluster, name: &str| {
            let amount = c.capacity.as_ref().and_then(|capacity| capacity.available.get(name));
            amount.map_or(0, |amount| units(name, *amount).max(0))
        };
        let names: BTreeSet<&String> = clusters
            .iter()
            .filter_map(|c| c.capacity.as_ref())
            .flat_map(|capacity| capacity.available.keys())
            .collect();
        Self {
            pods: clusters.iter().map(|c| offered(c, "pods")).collect(),
            free: names
                .into_iter()
                .map(|name| (name.clone(), clusters.iter().map(|c| offered(c, name)).collect()))
                .collect(),
            shapes: clusters.iter().map(|cluster| shapes(cluster, models)).collect(),
            models,
        }
    }

    /// The replicas each cluster has room for, by cluster index.
    pub(super) fn estimate(&self, workload: &Workload) -> Vec<i64> {
        if workload.replicas == 0 {
            return vec![UNBOUNDED; self.pods.len()];
        }
        let mut room = self.pods.clone();
        if let Some(requirements) = &workload.requirements {
            self.bound_by_requests(&mut room, requirements);
        }
        for amount in &mut room {
            if *amount >= UNBOUNDED {
                *amount = workload.replicas;
            }
        }
        room
    }

    fn bound_by_requests(&self, room: &mut [i64], requirements: &Requirements) {
        let requests: Vec<(&str, i64)> = requirements
            .requests
            .iter()
            .map(|(name, amount)| (name.as_str(), units(name, *amount)))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        for (name, request) in &requests {
            let column = self.free.get(*name);
            for (index, room) in room.iter_mut().enumerate() {
                if self.shapes[index].is_none() {
                    let free = column.map_or(0, |column| column[index]);
                    *room = (*room).min(free / request);
                }
            }
        }
        for (index, room) in room.iter_mut().enumerate() {
            if let Some(shapes) = &self.shapes[index] {
                let fits = match self.models {
                    ModelEstimate::ByNode => fits_on(shapes, &requests),
                    ModelEstimate::ByGrade => {
                        by_grade(shapes, &requests).unwrap_or_else(|| self.by_sums(index, &requests))
                    }
                };
                *room = (*room).min(fits);
            }
        }
    }

    /// What the cluster's free resources have room for.
    fn by_sums(&self, index: usize, requests: &[(&str, i64)]) -> i64 {
        let fits =
            |(name, request): &(&str, i64)| self.free.get(*name).map_or(0, |column| column[index]) / request;
        requests.iter().map(fits).min().unwrap_or(UNBOUNDED)
    }
}

/// Grades without nodes count only by their place among the others.
fn shapes(cluster: &Cluster, models: ModelEstimate) -> Option<Shapes> {
    let shapes = cluster.capacity.as_ref()?.shapes.as_ref()?;
    let amounts = |shape: &federate_kubernetes::NodeShape| {
        shape.resources.iter().map(|(name, amount)| (name.clone(), units(name, *amount))).collect()
    };
    let counted = shapes.iter().filter(|shape| shape.count > 0 || models == ModelEstimate::ByGrade);
    Some(counted.map(|shape| (shape.count, amounts(shape))).collect())
}

/// Equal replicas placed first-fit on nodes fill each node on its own, so the nodes' room adds up.
fn fits_on(shapes: &Shapes, requests: &[(&str, i64)]) -> i64 {
    let on_one = |offered: &BTreeMap<String, i64>| {
        requests
            .iter()
            .map(|(name, request)| offered.get(*name).map_or(0, |amount| amount / request))
            .fold(PODS_PER_NODE, i64::min)
    };
    shapes
        .iter()
        .fold(0i64, |sum, (count, offered)| sum.saturating_add(count.saturating_mul(on_one(offered))))
}

/// From the first grade on whose minimum is at least the request: each grade's count times what its minimum
/// holds, at least one. `None` where no grade names a requested resource. The sum is one of 64-bit integers,
/// and wraps where nothing is requested.
fn by_grade(shapes: &Shapes, requests: &[(&str, i64)]) -> Option<i64> {
    let mut first = 0;
    let mut minimums = Vec::with_capacity(requests.len());
    for (name, request) in requests {
        let of_resource: Vec<i64> =
            shapes.iter().filter_map(|(_, offered)| offered.get(*name)).copied().collect();
        if of_resource.is_empty() {
            return None;
        }
        let Some(fits) = of_resource.iter().position(|minimum| minimum >= request) else { return Some(0) };
        first = first.max(fits);
        minimums.push((of_resource, *request));
    }
    let holds = |at: usize| {
        let each = minimums.iter().map(|(of, request)| of.get(at).map_or(0, |minimum| minimum / request));
        each.min().unwrap_or(i64::MAX).max(1)
    };
    let counted = shapes.iter().enumerate().skip(first).filter(|(_, (count, _))| *count > 0);
    Some(counted.fold(0i64, |sum, (at, (count, _))| sum.wrapping_add(count.wrapping_mul(holds(at)))))
}
