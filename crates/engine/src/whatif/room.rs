//! The free resources of clusters after a scenario.
//!
//! What a cluster reports as free already counts what runs there. The difference of the replicas between two plans is
//! taken from it, with what the pods of each template request.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::State;
use federate_dialect::Plan;
use federate_kubernetes::pods;
use federate_kubernetes::quantity::Quantity;

/// The free part of a resource of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Room {
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
pub fn rooms(before: &State<'_>, after: &State<'_>) -> Vec<Room> {
    let mut used: BTreeMap<(&str, String), i128> = BTreeMap::new();
    let mut requests = BTreeMap::new();
    for (state, sign) in [(before, -1), (after, 1)] {
        add(state, state.plan, sign, &mut requests, &mut used);
    }
    let mut rooms = Vec::new();
    for cluster in after.clusters.iter().filter(|c| !after.down.contains(&c.name)) {
        let Some(capacity) = &cluster.capacity else { continue };
        let resources = capacity.allocatable.iter().filter(|(_, amount)| amount.nanos() > 0);
        let room = |(name, amount): (&String, &Quantity)| {
            let free = capacity.available.get(name).copied().unwrap_or_default().nanos();
            let free = free - used.get(&(cluster.name.as_ref(), name.clone())).copied().unwrap_or(0);
            let percent = (free * 100).div_euclid(amount.nanos());
            Room {
                cluster: cluster.name.to_string(),
                resource: name.clone(),
                free: shown(name, free),
                allocatable: shown(name, amount.nanos()),
                percent: i64::try_from(percent).unwrap_or(i64::MIN),
            }
        };
        rooms.extend(resources.map(room).min_by_key(|room| room.percent));
    }
    rooms.sort_by(|a, b| (a.percent, &a.cluster).cmp(&(b.percent, &b.cluster)));
    rooms
}

type Requests = BTreeMap<String, Quantity>;

/// Adds what the rows of a plan request, by cluster and resource.
fn add<'s>(
    state: &State<'s>,
    plan: &'s Plan,
    sign: i128,
    requests: &mut BTreeMap<&'s federate_kubernetes::ObjectRef, Requests>,
    used: &mut BTreeMap<(&'s str, String), i128>,
) {
    for row in &plan.placements {
        let counted = row.clusters.iter().filter_map(|placed| Some((placed.name.as_ref(), placed.replicas?)));
        let counted: Vec<(&str, i64)> = counted.filter(|(_, replicas)| *replicas > 0).collect();
        if counted.is_empty() {
            continue;
        }
        let of_pod = requests.entry(&row.object).or_insert_with(|| {
            let template = state.repo.template(&row.object);
            let spec = template.and_then(|t| t.object.at(&["spec", "template", "spec"]));
            let mut requests = spec.map(pods::requests).unwrap_or_default();
            requests.insert("pods".to_owned(), Quantity::from_int(1));
            requests
        });
        for (cluster, replicas) in counted {
            for (name, amount) in of_pod.iter() {
                let sum = used.entry((cluster, name.clone())).or_default();
                *sum = sum.saturating_add(sign * amount.nanos().saturating_mul(i128::from(replicas)));
            }
        }
    }
}

/// An amount for people: memory in the largest binary unit with at least 10 of it.
fn shown(resource: &str, nanos: i128) -> String {
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
