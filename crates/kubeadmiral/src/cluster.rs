//! Reads `FederatedCluster` into the neutral cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Apis, Capacity, Cluster, Finding, NotReady, Object, Taint, schema};

use super::api::{FederatedClusterResources, FederatedClusterSpec, FederatedClusterStatus};

/// Reads a valid inventory object. Without `status`, the cluster has joined, is ready and serves every API, unless
/// `strict` is set.
pub(super) fn read_cluster(object: &Object, strict: bool) -> Result<Cluster, Finding> {
    let known = strict || object.value_at(&["status"]).is_some_and(|status| !status.is_null());
    let spec: FederatedClusterSpec = schema::read_field(object, "spec", "invalid-cluster")?;
    let status: FederatedClusterStatus = schema::read_field(object, "status", "invalid-cluster")?;
    let (joined, ready) = (!known || status.is_true("Joined"), !known || status.is_true("Ready"));
    let served = status.api_resource_types.into_iter().map(|api| {
        let api_version =
            if api.group.is_empty() { api.version } else { format!("{}/{}", api.group, api.version) };
        (api_version, api.kind)
    });
    let taints = spec.taints.into_iter();
    Ok(Cluster {
        taints: taints.map(|t| Taint { key: t.key, value: t.value, effect: t.effect }).collect(),
        apis: if known { Apis::Listed(served.collect()) } else { Apis::All },
        capacity: status.resources.map(to_capacity),
        joined,
        ready,
        unready_condition: NotReady::from_conditions(object.value_at(&["status", "conditions"]), "Ready"),
        ..Cluster::from_object(object)
    })
}

/// The resources that a `FederatedCluster`'s status states.
pub(super) fn to_capacity(resources: FederatedClusterResources) -> Capacity {
    Capacity {
        allocatable: parse_amounts(resources.allocatable),
        available: parse_amounts(resources.available),
        ..Capacity::default()
    }
}

fn parse_amounts(amounts: BTreeMap<String, Value>) -> BTreeMap<String, Quantity> {
    amounts.into_iter().filter_map(|(name, value)| Some((name, Quantity::from_json(&value)?))).collect()
}
