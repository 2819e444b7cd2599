//! The configuration of the control plane: its namespace, its scope and its features.
//!
//! Facts: the `KubeFedConfig` named `kubefed` is in the control plane's namespace, by convention
//! `kube-federation-system`. Features, and the adoption of existing objects, are enabled unless a gate is
//! `Disabled`.

use super::api::{self, ConfigSpec};
use federate_dialect::goduration;
use federate_kubernetes::{Cluster, Object};

/// The namespace of the control plane where its configuration is not in the repo.
const DEFAULT_NAMESPACE: &str = "kube-federation-system";

/// The values of a `KubeFedConfig`.
#[derive(Clone, Debug)]
pub(super) struct ControlPlaneConfig {
    /// The namespace of the control plane.
    pub namespace: String,
    /// Whether it federates this namespace only.
    pub namespaced: bool,
    /// Whether objects are propagated at all.
    pub pushes: bool,
    /// Whether `ReplicaSchedulingPreference` objects count.
    pub schedules: bool,
    /// Whether objects that it did not create are adopted.
    pub adopts: bool,
}

/// When the control plane notices that a cluster is lost, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// The time between two probes of a cluster.
    pub probes: i64,
    /// The time after which a cluster that is not ready counts as unavailable.
    pub unavailable: i64,
}

impl Timing {
    /// Reads the configuration among `objects`, or returns the defaults.
    pub(super) fn from_objects<'o>(mut objects: impl Iterator<Item = &'o Object>) -> Self {
        let object = objects.find(|o| o.id.kind == "KubeFedConfig" && o.id.name == "kubefed");
        Self {
            probes: read_seconds(object, &["spec", "clusterHealthCheck", "period"]).unwrap_or(10),
            unavailable: read_seconds(object, &["spec", "controllerDuration", "unavailableDelay"])
                .unwrap_or(60),
        }
    }
}

fn read_seconds(config: Option<&Object>, path: &[&str]) -> Option<i64> {
    Some(goduration::parse(config?.value_at(path)?.as_str()?)?.as_secs())
}

impl ControlPlaneConfig {
    /// Reads the configuration among `objects`, or returns the defaults.
    pub(super) fn from_objects<'o>(objects: impl Iterator<Item = &'o Object>) -> Self {
        let mut configs = objects.filter(|o| o.id.kind == "KubeFedConfig" && o.id.name == "kubefed");
        let object = configs.next();
        let spec: ConfigSpec = object.and_then(|o| api::read_spec(o).ok()).unwrap_or_default();
        Self {
            namespace: object
                .and_then(|o| o.id.namespace.clone())
                .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            namespaced: spec.scope == "Namespaced",
            pushes: spec.is_enabled("PushReconciler"),
            schedules: spec.is_enabled("SchedulerPreferences"),
            adopts: spec.sync_controller.adopt_resources != "Disabled",
        }
    }

    /// Whether the control plane sees a cluster. Its own inventory counts only in its namespace; that of other
    /// control planes always counts.
    pub(super) fn sees_cluster(&self, cluster: &Cluster) -> bool {
        cluster.id.kind != "KubeFedCluster" || cluster.id.namespace.as_deref() == Some(&self.namespace)
    }
}
