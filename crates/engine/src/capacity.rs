//! What the replicas of a plan request of each cluster, and what is left of its free resources.
//!
//! What a cluster reports as free already counts what the previous plan runs there, so only the difference between the
//! two plans is taken from it.

use std::collections::BTreeMap;

use federate_dialect::{Placement, Plan, Previous};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Cluster, ObjectRef, pods};
use federate_repo::Repo;

/// A resource of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
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
pub(crate) type Amounts<'s> = BTreeMap<(&'s str, String), i128>;

/// Returns the resources that a plan requests, by cluster. Both plans have the replicas that manifests have
/// ([`Engine::count_replicas`](crate::Engine::count_replicas)).
pub fn usage(repo: &Repo, clusters: &[Cluster], plan: &Plan, previous: &Previous) -> Vec<Usage> {
    let (mut requested, mut before) = (Amounts::new(), Amounts::new());
    for row in &plan.placements {
        let of_pod = requests(repo, &row.object);
        add(row, &of_pod, 1, &mut requested);
        if let Some(old) = previous.of(&row.object) {
            add(old, &of_pod, 1, &mut before);
        }
    }
    let mut all = Vec::new();
    for ((name, resource), amount) in &requested {
        let capacity = clusters.iter().find(|c| c.name.as_ref() == *name).and_then(|c| c.capacity.as_ref());
        let known = capacity.and_then(|capacity| {
            let free = capacity.available.get(resource).copied().unwrap_or_default().nanos();
            let ran = before.get(&(*name, resource.clone())).copied().unwrap_or(0);
            Some((free - amount + ran, capacity.allocatable.get(resource)?.nanos()))
        });
        all.push(Usage {
            cluster: (*name).to_owned(),
            resource: resource.clone(),
            requested: amount_in_words(resource, *amount),
            left: known.map(|(left, of)| (amount_in_words(resource, left), amount_in_words(resource, of))),
            exceeded: known.is_some_and(|(left, _)| left < 0),
        });
    }
    all
}

/// What a pod of a template requests, with itself as one of the resource `pods`.
pub(crate) fn requests(repo: &Repo, object: &ObjectRef) -> BTreeMap<String, Quantity> {
    let spec = repo.template(object).and_then(|t| t.object.at(&["spec", "template", "spec"]));
    let mut requests = spec.map(pods::requests).unwrap_or_default();
    requests.insert("pods".to_owned(), Quantity::from_int(1));
    requests
}

/// Adds what a row requests `sign` times.
pub(crate) fn add<'s>(
    row: &'s Placement,
    of_pod: &BTreeMap<String, Quantity>,
    sign: i128,
    sums: &mut Amounts<'s>,
) {
    for placed in &row.clusters {
        let Some(replicas) = placed.replicas.filter(|replicas| *replicas > 0) else { continue };
        for (name, amount) in of_pod {
            let sum = sums.entry((placed.name.as_ref(), name.clone())).or_default();
            *sum = sum.saturating_add(sign * amount.nanos().saturating_mul(i128::from(replicas)));
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
