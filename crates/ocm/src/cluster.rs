//! `ManagedCluster` read into the neutral cluster.
//!
//! Facts: the hub gives a cluster without a set the label of the set `default`. A cluster is ready if the condition
//! `ManagedClusterConditionAvailable` is true; without `status` it counts as unreachable. Claims are what a cluster says
//! of itself: the properties of the neutral cluster. The resources are those of the nodes, used or not.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Capacity, Cluster, Finding, NotReady, Object, Taint, schema};

use crate::api::cluster::{ClusterSpec, ClusterStatus};

/// The condition that says that the agent of a cluster reports.
pub(crate) const AVAILABLE: &str = "ManagedClusterConditionAvailable";

/// The label that names the exclusive set of a cluster.
pub(crate) const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";

/// The set of clusters without that label.
pub(crate) const DEFAULT_SET: &str = "default";

/// The code of errors in inventory objects.
pub(crate) const INVALID: &str = "invalid-cluster";

/// Reads an inventory object; see [`Dialect::cluster`](federate_dialect::Dialect::cluster) for `strict`.
pub(super) fn read_cluster(object: &Object, strict: bool) -> Result<Cluster, Finding> {
    let reported = object.value_at(&["status"]).is_some_and(|status| !status.is_null());
    let spec: ClusterSpec = schema::read_field(object, "spec", INVALID)?;
    let status: ClusterStatus = schema::read_field(object, "status", INVALID)?;
    let is_ready = available_status(object) == Some("True");
    let mut cluster = Cluster {
        taints: spec
            .taints
            .into_iter()
            .map(|taint| Taint { key: taint.key, value: taint.value, effect: taint.effect })
            .collect(),
        capacity: read_capacity(&status),
        kubernetes: Some(status.version.kubernetes).filter(|version| !version.is_empty()),
        // The last claim of a name counts.
        properties: status.claims.into_iter().map(|claim| (claim.name, claim.value)).collect(),
        ready: if reported { is_ready } else { !strict },
        unready_condition: NotReady::from_conditions(object.value_at(&["status", "conditions"]), AVAILABLE),
        ..Cluster::from_object(object)
    };
    let set = cluster.labels.entry(SET_LABEL.to_owned()).or_default();
    if set.is_empty() {
        DEFAULT_SET.clone_into(set);
    }
    for (claim, field) in [
        ("region.open-cluster-management.io", &mut cluster.region),
        ("platform.open-cluster-management.io", &mut cluster.provider),
    ] {
        if let Some(value) = cluster.properties.get(claim) {
            field.clone_from(value);
        }
    }
    Ok(cluster)
}

/// The status of the condition that says that the agent reports.
pub(crate) fn available_status(object: &Object) -> Option<&str> {
    let conditions = object.value_at(&["status", "conditions"])?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == AVAILABLE)?.get("status")?.as_str()
}

/// The resources of the nodes; `None` if the cluster reports none. The hub does not know what of them is used.
fn read_capacity(status: &ClusterStatus) -> Option<Capacity> {
    if status.allocatable.is_empty() && status.capacity.is_empty() {
        return None;
    }
    let allocatable = read_quantities(&status.allocatable);
    Some(Capacity {
        total: read_quantities(&status.capacity),
        available: allocatable.clone(),
        allocatable,
        shapes: None,
    })
}

fn read_quantities(resources: &BTreeMap<String, Value>) -> BTreeMap<String, Quantity> {
    let quantity = |(name, value): (&String, &Value)| Some((name.clone(), Quantity::from_json(value)?));
    resources.iter().filter_map(quantity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(status: &Value) -> Object {
        let body = json!({"metadata": {"labels": {"region": "eu"}}, "status": status});
        Object::from_path("cluster.open-cluster-management.io/v1", "ManagedCluster", "a", body)
    }

    fn condition(status: &str) -> Value {
        json!({"conditions": [{"type": AVAILABLE, "status": status}]})
    }

    #[test]
    fn a_cluster_is_ready_if_its_agent_reports() {
        let is_ready = |status, strict| read_cluster(&cluster(&status), strict).unwrap().ready;
        assert!(is_ready(condition("True"), true) && !is_ready(condition("Unknown"), false));
        assert!(is_ready(Value::Null, false) && !is_ready(Value::Null, true));
        assert!(!is_ready(json!({}), false));
    }

    #[test]
    fn claims_are_properties_and_the_last_of_a_name_counts() {
        let claims = json!([{"name": "region.open-cluster-management.io", "value": "a"},
                            {"name": "region.open-cluster-management.io", "value": "b"}]);
        let read = read_cluster(&cluster(&json!({"clusterClaims": claims})), false).unwrap();
        assert_eq!((read.region.as_str(), read.properties.len()), ("b", 1));
        assert_eq!(read.labels[SET_LABEL], DEFAULT_SET);
    }
}
