//! The free resources of clusters after a scenario.
//!
//! What a cluster reports as free already counts what runs there. The difference of the replicas between two plans is
//! taken from it, with what the pods of each template request.

use schemars::JsonSchema;
use serde::Serialize;

use super::losses::State;
use super::{Baseline, variation};
use crate::capacity::{self, shown};
use federate_dialect::{Placed, Placement};
use federate_kubernetes::quantity::Quantity;

/// The free part of a resource of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FreeResource {
    /// The cluster.
    pub cluster: String,
    /// The resource that is closest to its limit.
    pub resource: String,
    /// The free amount; negative if more is requested than there is.
    pub free: String,
    /// The allocatable amount.
    pub allocatable: String,
    /// The free part in percent, rounded down.
    pub percent: i64,
}

/// The tightest resource of each cluster that runs and whose free resources are known, the tightest first.
pub(super) fn tightest(baseline: &Baseline<'_>, after: &State<'_>) -> Vec<FreeResource> {
    let mut used = capacity::Amounts::new();
    for (object, new) in after.plan.rows.iter() {
        let changed = changed(variation::row(baseline.plan, object), new.as_ref());
        if changed.is_empty() {
            continue;
        }
        let of_pod = capacity::requests(baseline.repo, object);
        for (cluster, replicas) in changed {
            for (resource, amount) in &of_pod {
                let sum = used.entry((cluster, resource.clone())).or_default();
                *sum = sum.saturating_add(amount.nanos().saturating_mul(i128::from(replicas)));
            }
        }
    }
    let mut tightest = Vec::new();
    for cluster in after.clusters.iter().filter(|c| !after.down.contains(&c.name)) {
        let Some(known) = &cluster.capacity else { continue };
        let resources = known.allocatable.iter().filter(|(_, amount)| amount.nanos() > 0);
        let free_resource = |(name, amount): (&String, &Quantity)| {
            let free = known.available.get(name).copied().unwrap_or_default().nanos();
            let free = free - used.get(&(cluster.name.as_ref(), name.clone())).copied().unwrap_or(0);
            let percent = (free * 100).div_euclid(amount.nanos());
            FreeResource {
                cluster: cluster.name.to_string(),
                resource: name.clone(),
                free: shown(name, free),
                allocatable: shown(name, amount.nanos()),
                percent: i64::try_from(percent).unwrap_or(i64::MIN),
            }
        };
        tightest.extend(resources.map(free_resource).min_by_key(|resource| resource.percent));
    }
    tightest.sort_by(|a, b| (a.percent, &a.cluster).cmp(&(b.percent, &b.cluster)));
    tightest
}

/// The clusters in which two rows of an object have different replicas, with the difference.
fn changed<'p>(old: Option<&'p Placement>, new: Option<&'p Placement>) -> Vec<(&'p str, i64)> {
    let clusters = |row: Option<&'p Placement>| row.map(|row| &row.clusters[..]).unwrap_or_default();
    let (old, new) = (clusters(old), clusters(new));
    let find = |list: &'p [Placed], name: &str| {
        let at = list.binary_search_by(|placed| placed.name.as_ref().cmp(name)).ok();
        at.and_then(|at| list.get(at))
    };
    let replicas = |placed: Option<&Placed>| placed.and_then(|placed| placed.replicas).unwrap_or(0).max(0);
    let gone = old.iter().filter(|placed| find(new, &placed.name).is_none());
    let differences = new.iter().chain(gone).map(|placed| {
        let name = placed.name.as_ref();
        (name, replicas(find(new, name)) - replicas(find(old, name)))
    });
    differences.filter(|(_, difference)| *difference != 0).collect()
}
