//! What the replicas of a plan request of each cluster, and what is left of its free resources.
//!
//! What a cluster reports as free already counts what the previous plan runs there, so only the difference between the
//! two plans is taken from it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::{Placement, Plan, PreviousPlan};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Cluster, ObjectRef, pods};

use crate::TemplateIndex;

/// A resource of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedUsage {
    /// The cluster.
    pub cluster: String,
    /// The resource.
    pub resource: String,
    /// The amount that the replicas of the plan request.
    pub requested: String,
    /// The free amount with the plan, negative if more is requested than there is, and the allocatable amount; `None`
    /// if they are not known.
    pub left: Option<(String, String)>,
    /// Whether more is requested than there is.
    pub exceeded: bool,
}

/// The requested amounts by cluster and resource, in billionths.
pub type RequestedAmounts<'s> = BTreeMap<(&'s str, String), i128>;

/// Returns the resources that a plan requests, by cluster. Both plans have the replicas that manifests have
/// ([`Engine::fill_in_replicas`](crate::Engine::fill_in_replicas)).
pub fn compute_usage(
    templates: &TemplateIndex<'_>,
    clusters: &[Cluster],
    plan: &Plan,
    previous: &PreviousPlan,
) -> Vec<PlannedUsage> {
    let (mut requested, mut before) = (RequestedAmounts::new(), RequestedAmounts::new());
    for row in &plan.placements {
        let of_pod = template_requests(templates, &row.object);
        add_requests(row, &of_pod, 1, &mut requested);
        if let Some(old) = previous.find_row(&row.object) {
            add_requests(old, &of_pod, 1, &mut before);
        }
    }
    let mut all = Vec::new();
    for ((name, resource), amount) in &requested {
        let capacity = clusters.iter().find(|c| c.name.as_ref() == *name).and_then(|c| c.capacity.as_ref());
        let known = capacity.and_then(|capacity| {
            let free = capacity.available.get(resource).copied().unwrap_or_default().as_nanos();
            let ran = before.get(&(*name, resource.clone())).copied().unwrap_or(0);
            Some((free - amount + ran, capacity.allocatable.get(resource)?.as_nanos()))
        });
        all.push(PlannedUsage {
            cluster: (*name).to_owned(),
            resource: resource.clone(),
            requested: amount_in_words(resource, *amount),
            left: known.map(|(left, of)| (amount_in_words(resource, left), amount_in_words(resource, of))),
            exceeded: known.is_some_and(|(left, _)| left < 0),
        });
    }
    all
}

/// A resource of a cluster before and after a change of the repo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceChange {
    /// The allocatable amount; `null` if it is not known.
    pub allocatable: Option<Quantity>,
    /// The amount that the replicas of the earlier plan request.
    pub requested_before: Quantity,
    /// The amount that the replicas of the later plan request.
    pub requested_after: Quantity,
    /// The amount that is free with the earlier plan; `null` if it is not known.
    pub left_before: Option<Quantity>,
    /// The amount that is free with the later plan, negative if more is requested than there is; `null` if it is not known.
    pub left_after: Option<Quantity>,
}

impl ResourceChange {
    /// How much more the later plan requests.
    pub fn requested_increase(&self) -> Quantity {
        self.requested_after - self.requested_before
    }

    /// Whether the later plan requests more than the earlier one, and more than there is.
    pub fn is_exceeded(&self) -> bool {
        self.requested_increase().as_nanos() > 0 && self.left_after.is_some_and(|left| left.as_nanos() < 0)
    }
}

/// The resources of each cluster before and after a change of the repo, by cluster and resource.
pub type CapacityChanges = BTreeMap<String, BTreeMap<String, ResourceChange>>;

/// One side of a comparison of resources.
#[derive(Clone, Copy, Debug)]
pub struct CapacitySide<'a> {
    /// The templates.
    pub templates: &'a TemplateIndex<'a>,
    /// The inventory.
    pub clusters: &'a [Cluster],
    /// The plan, with the replicas that manifests have.
    pub plan: &'a Plan,
}

/// Compares what two plans leave free in each cluster of either inventory. `running` is the plan that runs in the clusters, so
/// that what they report as free already counts it.
pub fn compare_capacity(
    from: &CapacitySide<'_>,
    to: &CapacitySide<'_>,
    running: &CapacitySide<'_>,
) -> CapacityChanges {
    let [before, after, ran] = [from, to, running].map(|side| {
        let mut sums = RequestedAmounts::new();
        for row in &side.plan.placements {
            add_requests(row, &template_requests(side.templates, &row.object), 1, &mut sums);
        }
        sums
    });
    let mut changes = CapacityChanges::new();
    for (is_later, side) in [(false, from), (true, to)] {
        for cluster in side.clusters {
            let resources = changes.entry(cluster.name.to_string()).or_default();
            for (name, allocatable) in cluster.capacity.iter().flat_map(|capacity| &capacity.allocatable) {
                let amount = |sums: &RequestedAmounts<'_>| {
                    sums.get(&(cluster.name.as_ref(), name.clone())).copied().unwrap_or_default()
                };
                let free = cluster.capacity.as_ref().and_then(|capacity| capacity.available.get(name));
                let free = free.copied().unwrap_or_default().as_nanos();
                let requested = amount(if is_later { &after } else { &before });
                let left = Quantity::from_nanos(free - requested + amount(&ran));
                let change = resources.entry(name.clone()).or_default();
                change.allocatable = Some(*allocatable);
                *(if is_later { &mut change.left_after } else { &mut change.left_before }) = Some(left);
            }
        }
    }
    for (is_later, sums) in [(false, &before), (true, &after)] {
        for ((cluster, resource), amount) in sums {
            let Some(resources) = changes.get_mut(*cluster) else { continue };
            let change = resources.entry(resource.clone()).or_default();
            let amount = Quantity::from_nanos(*amount);
            *(if is_later { &mut change.requested_after } else { &mut change.requested_before }) = amount;
        }
    }
    changes
}

/// What a pod of a template requests, with itself as one of the resource `pods`.
pub fn template_requests(templates: &TemplateIndex<'_>, object: &ObjectRef) -> BTreeMap<String, Quantity> {
    let spec = templates.find_body(object).and_then(|body| body.pointer("/spec/template/spec"));
    let mut requests = spec.map(pods::compute_requests).unwrap_or_default();
    requests.insert("pods".to_owned(), Quantity::from_int(1));
    requests
}

/// Adds what a row requests `sign` times.
pub fn add_requests<'s>(
    row: &'s Placement,
    of_pod: &BTreeMap<String, Quantity>,
    sign: i128,
    sums: &mut RequestedAmounts<'s>,
) {
    for placed in &row.clusters {
        let Some(replicas) = placed.replicas.filter(|replicas| *replicas > 0) else { continue };
        for (name, amount) in of_pod {
            let sum = sums.entry((placed.name.as_ref(), name.clone())).or_default();
            *sum = sum.saturating_add(sign * amount.as_nanos().saturating_mul(i128::from(replicas)));
        }
    }
}

/// An amount for people: memory in the largest binary unit with at least 10 of it.
pub fn amount_in_words(resource: &str, nanos: i128) -> String {
    const NANO: i128 = 1_000_000_000;
    let whole = nanos.div_euclid(NANO);
    if !(resource.contains("memory") || resource.contains("storage")) {
        let milli = nanos.div_euclid(1_000_000);
        return if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") };
    }
    let units = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let unit = units.into_iter().find(|(_, bits)| whole.abs() >> bits >= 10);
    unit.map_or_else(|| whole.to_string(), |(name, bits)| format!("{}{name}", whole >> bits))
}
