//! `KubeFedCluster` and Federation v1's `Cluster` read into the neutral cluster.
//!
//! Facts: a cluster is ready if any of its conditions is `Ready` with status `True`. Without `status` it is not
//! ready. Region and zones are in the status. Labels are the object's.

use federate_kubernetes::{Cluster, Finding, NotReady, Object, schema};

use crate::api::KubeFedClusterStatus;

/// Reads an inventory object. [`Dialect::read_cluster`](federate_dialect::Dialect::read_cluster) describes `strict`.
pub(super) fn read_cluster(object: &Object, strict: bool) -> Result<Cluster, Finding> {
    let reported = object.value_at(&["status"]).is_some_and(|status| !status.is_null());
    let status: KubeFedClusterStatus = schema::read_field(object, "status", "invalid-cluster")?;
    let ready = status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
    Ok(Cluster {
        region: status.region,
        zones: status.zones,
        kubernetes: Some(object.text_at(&["status", "kubernetesVersion"]).to_owned())
            .filter(|version| !version.is_empty()),
        ready: if reported { ready } else { !strict },
        unready_condition: NotReady::from_conditions(object.value_at(&["status", "conditions"]), "Ready"),
        ..Cluster::from_object(object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cluster(body: Value) -> Object {
        Object::from_path("core.kubefed.io/v1beta1", "KubeFedCluster", "kube-federation-system/a", body)
    }

    fn ready(object: &Object, strict: bool) -> bool {
        read_cluster(object, strict).unwrap().ready
    }

    #[test]
    fn any_true_ready_condition_counts() {
        let of = |status: &[&str]| {
            let conditions: Vec<Value> =
                status.iter().map(|s| json!({"type": "Ready", "status": s})).collect();
            ready(&cluster(json!({"status": {"conditions": conditions}})), false)
        };
        assert!(of(&["True"]) && of(&["False", "True"]));
        assert!(!of(&["False"]) && !of(&["Unknown"]) && !of(&[]));
    }

    #[test]
    fn without_a_status_the_mode_decides() {
        assert!(ready(&cluster(json!({})), false) && !ready(&cluster(json!({})), true));
        assert!(!ready(&cluster(json!({"status": {}})), false));
    }
}
