//! The control plane's own settings: its namespace, its scope and what is switched on.
//!
//! Facts: the `KubeFedConfig` named `kubefed` lives in the control plane's namespace, conventionally
//! `kube-federation-system`; features are on unless a gate says `Disabled`,
//! and so is the adoption of objects that are there already.

use super::api::{self, ConfigSpec};
use federate_kubernetes::{Cluster, Object};

/// The namespace of a control plane whose configuration is not in the repo.
const DEFAULT_NAMESPACE: &str = "kube-federation-system";

/// What one `KubeFedConfig` says.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// The namespace that the control plane lives in.
    pub namespace: String,
    /// Whether it federates this namespace only.
    pub namespaced: bool,
    /// Whether anything is propagated at all.
    pub pushes: bool,
    /// Whether `ReplicaSchedulingPreference`s count.
    pub schedules: bool,
    /// Whether objects that it did not create are taken over.
    pub adopts: bool,
}

impl Config {
    /// Reads the configuration among `objects`, or takes the defaults.
    pub(super) fn of<'o>(objects: impl Iterator<Item = &'o Object>) -> Self {
        let mut configs = objects.filter(|o| o.id.kind == "KubeFedConfig" && o.id.name == "kubefed");
        let object = configs.next();
        let spec: ConfigSpec = object.and_then(|o| api::spec(o).ok()).unwrap_or_default();
        let on =
            |gate: &str| !spec.feature_gates.iter().any(|g| g.name == gate && g.configuration == "Disabled");
        Self {
            namespace: object
                .and_then(|o| o.id.namespace.clone())
                .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            namespaced: spec.scope == "Namespaced",
            pushes: on("PushReconciler"),
            schedules: on("SchedulerPreferences"),
            adopts: spec.sync_controller.adopt_resources != "Disabled",
        }
    }

    /// Whether the control plane sees a cluster: its own inventory counts only in its namespace, and
    /// what another control plane has written down always does.
    pub(super) fn sees(&self, cluster: &Cluster) -> bool {
        cluster.id.kind != "KubeFedCluster" || cluster.id.namespace.as_deref() == Some(&self.namespace)
    }
}
