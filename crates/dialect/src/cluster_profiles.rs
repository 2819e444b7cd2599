//! `ClusterProfile` of SIG Multicluster: clusters as fleet managers publish them, whatever control plane places objects on them.
//!
//! Facts: the API `multicluster.x-k8s.io/v1alpha1` (cluster-inventory-api 0.1.2): the condition `ControlPlaneHealthy`,
//! `status.version` and `status.properties`. Taints, capacity and APIs are not in it. Open Cluster Management fills in the version, the
//! health, and all cluster claims as properties; KubeFleet the version and the health. Neither copies labels of clusters.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::schema::read_field;
use federate_kubernetes::{Cluster, Finding, NotReady, Object};
use federate_repo::config::ClusterProfileConfig;

/// What stands in the place of a dialect's name for these objects.
pub const NAME: &str = "cluster-profiles";

/// The API group. Its other kinds, such as `ServiceExport`, are templates.
pub const GROUP: &str = "multicluster.x-k8s.io";

/// The kind.
pub const KIND: &str = "ClusterProfile";

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProfileStatus {
    version: ProfileVersion,
    properties: Vec<ProfileProperty>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProfileVersion {
    kubernetes: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProfileProperty {
    name: String,
    value: String,
}

/// Whether a kind is `ClusterProfile`.
pub fn is_cluster_profile(group: &str, kind: &str) -> bool {
    group == GROUP && kind == KIND
}

/// Reads a `ClusterProfile`. One in git may have no status; without `strict` it then counts as healthy.
///
/// # Errors
///
/// If its status is not that of a `ClusterProfile`.
pub fn read_cluster(
    object: &Object,
    strict: bool,
    config: &ClusterProfileConfig,
) -> Result<Cluster, Finding> {
    let status: ProfileStatus = read_field(object, "status", "invalid-cluster")?;
    let conditions = object.body.pointer("/status/conditions");
    let unready_condition = NotReady::from_conditions(conditions, "ControlPlaneHealthy");
    let mut reported = conditions.and_then(Value::as_array).into_iter().flatten();
    let is_reported = reported.any(|condition| condition["type"] == "ControlPlaneHealthy");
    let properties: BTreeMap<String, String> =
        status.properties.into_iter().map(|property| (property.name, property.value)).collect();
    let first_of = |names: &[String]| names.iter().find_map(|name| properties.get(name)).cloned();
    Ok(Cluster {
        provider: first_of(&config.provider).unwrap_or_default(),
        region: first_of(&config.region).unwrap_or_default(),
        zones: first_of(&config.zone).into_iter().collect(),
        kubernetes: Some(status.version.kubernetes).filter(|version| !version.is_empty()),
        ready: unready_condition.is_none() && (is_reported || !strict),
        unready_condition,
        properties,
        ..Cluster::from_object(object)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: &Value, strict: bool) -> Result<Cluster, Finding> {
        let body = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": KIND, "metadata": {"name": "eu-1"}, "status": status});
        read_cluster(&Object::from_manifest(body, "a.yaml"), strict, &ClusterProfileConfig::default())
    }

    #[test]
    fn what_publishers_fill_in_is_read() {
        let cluster = read(
            &json!({
                "version": {"kubernetes": "v1.33.0"},
                "properties": [
                    {"name": "topology.kubernetes.io/region", "value": "second"},
                    {"name": "region.open-cluster-management.io", "value": "eu"},
                    {"name": "platform.open-cluster-management.io", "value": "AWS"},
                ],
                "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
            }),
            true,
        );
        let cluster = cluster.unwrap();
        assert_eq!((cluster.region.as_str(), cluster.provider.as_str()), ("eu", "AWS"));
        assert_eq!(cluster.kubernetes.as_deref(), Some("v1.33.0"));
        assert!(cluster.ready && cluster.zones.is_empty() && cluster.capacity.is_none());
    }

    #[test]
    fn a_control_plane_that_is_not_healthy_is_not_ready() {
        let sick = json!({"conditions": [{"type": "ControlPlaneHealthy", "status": "False", "reason": "Lost", "message": "no lease",
            "lastTransitionTime": "2026-11-27T10:00:00Z"}]});
        let cluster = read(&sick, false).unwrap();
        assert!(!cluster.ready);
        assert_eq!(cluster.unready_condition.unwrap().why, "Lost: no lease");
        assert!(read(&json!({}), false).unwrap().ready && !read(&json!({}), true).unwrap().ready);
    }

    #[test]
    fn a_status_that_is_none_is_an_error() {
        assert!(read(&json!({"properties": {"a": "b"}}), false).is_err());
    }
}
