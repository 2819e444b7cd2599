//! The free resources of clusters after a scenario.
//!
//! What a cluster reports as free already counts what runs there. The difference of the replicas between two plans is
//! taken from it, with what the pods of each template request.

use schemars::JsonSchema;
use serde::Serialize;

use super::losses::State;
use super::{Baseline, variation};
use crate::capacity::{self, shown};
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
        let of_pod = capacity::requests(baseline.repo, object);
        for (row, sign) in [(variation::row(baseline.plan, object), -1), (new.as_ref(), 1)] {
            if let Some(row) = row {
                capacity::add(row, &of_pod, sign, &mut used);
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
