//! `KubeFedCluster` and Federation v1's `Cluster` read into the neutral cluster.
//!
//! Facts: a cluster is ready if any of its conditions is `Ready` with status `True`. Without `status` it is not
//! ready. Region and zones are in the status. Labels are the object's.

use serde_json::Value;

use federate_kubernetes::{Cluster, Object};

/// Reads an inventory object; see [`Dialect::cluster`](federate_dialect::Dialect::cluster) for `strict`.
pub(super) fn read(object: &Object, strict: bool) -> Cluster {
    let status = object.at(&["status"]).filter(|s| !s.is_null());
    let zones = status.and_then(|s| s.get("zones")).and_then(Value::as_array);
    Cluster {
        region: object.text(&["status", "region"]).to_owned(),
        zones: zones.into_iter().flatten().filter_map(|z| Some(z.as_str()?.to_owned())).collect(),
        kubernetes: object.at(&["status", "kubernetesVersion"]).and_then(Value::as_str).map(str::to_owned),
        ready: status.map_or(!strict, reports_ready),
        ..Cluster::of(object)
    }
}

fn reports_ready(status: &Value) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let says = |condition: &Value, key: &str, text: &str| condition.get(key).is_some_and(|v| v == text);
    conditions.into_iter().flatten().any(|c| says(c, "type", "Ready") && says(c, "status", "True"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(body: Value) -> Object {
        Object::named("core.kubefed.io/v1beta1", "KubeFedCluster", "kube-federation-system/a", body)
    }

    #[test]
    fn any_true_ready_condition_counts() {
        let of = |status: &[&str]| {
            let conditions: Vec<Value> =
                status.iter().map(|s| json!({"type": "Ready", "status": s})).collect();
            read(&cluster(json!({"status": {"conditions": conditions}})), false).ready
        };
        assert!(of(&["True"]) && of(&["False", "True"]));
        assert!(!of(&["False"]) && !of(&["Unknown"]) && !of(&[]));
    }

    #[test]
    fn without_a_status_the_mode_decides() {
        assert!(read(&cluster(json!({})), false).ready && !read(&cluster(json!({})), true).ready);
        assert!(!read(&cluster(json!({"status": {}})), false).ready);
    }
}
