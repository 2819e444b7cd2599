//! Reads `FederatedCluster` into the neutral cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Apis, Capacity, Cluster, Object, Taint};

/// Reads a valid inventory object. Without `status` the cluster is joined, ready and serves every API; with
/// `strict` it is and does none of that.
pub(super) fn read(object: &Object, strict: bool) -> Cluster {
    let status = object.at(&["status"]).filter(|v| !v.is_null());
    let known = status.is_some() || strict;
    Cluster {
        taints: list(object.at(&["spec", "taints"])).iter().map(taint).collect(),
        apis: if known { Apis::Listed(apis(object)) } else { Apis::All },
        capacity: object.at(&["status", "resources"]).filter(|v| !v.is_null()).map(capacity),
        joined: !known || condition(status, "Joined"),
        ready: !known || condition(status, "Ready"),
        ..Cluster::of(object)
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn taint(value: &Value) -> Taint {
    Taint { key: text(value, "key"), value: text(value, "value"), effect: text(value, "effect") }
}

/// Whether any condition of that type is true.
fn condition(status: Option<&Value>, kind: &str) -> bool {
    let is = |c: &Value, key: &str, want: &str| c.get(key).and_then(Value::as_str) == Some(want);
    list(status.and_then(|s| s.get("conditions")))
        .iter()
        .any(|c| is(c, "type", kind) && is(c, "status", "True"))
}

fn apis(object: &Object) -> BTreeSet<(String, String)> {
    let served = |api: &Value| {
        let (group, version) = (text(api, "group"), text(api, "version"));
        let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
        (api_version, text(api, "kind"))
    };
    list(object.at(&["status", "apiResourceTypes"])).iter().map(served).collect()
}

/// The resources that a `FederatedCluster`'s status states.
pub(super) fn capacity(resources: &Value) -> Capacity {
    let amounts = |key: &str| {
        let entries = resources.get(key).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value)?))).collect()
    };
    Capacity { allocatable: amounts("allocatable"), available: amounts("available"), ..Capacity::default() }
}
