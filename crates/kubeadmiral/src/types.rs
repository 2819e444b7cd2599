//! The federated kinds: `FederatedTypeConfig` objects of the repo, and those that `KubeAdmiral` ships.

use std::collections::BTreeMap;

use serde_json::Value;

use super::api::{KubeAdmiralTypeConfigSpec, SourceType};
use super::keys;
use federate_kubernetes::pointer::escape;
use federate_kubernetes::{Object, schema};

/// The configuration of a federated kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeConfig {
    /// The path to the replicas, as keys; empty if the kind has no replicas to divide.
    pub(super) replicas: Vec<String>,
    /// The controllers that change objects, in order. Those of a group act in any order.
    pub(super) controllers: Vec<Vec<String>>,
    /// Whether it scales other objects, and so follows them.
    pub(super) scales: bool,
    /// Whether replicas that stay unschedulable are migrated.
    pub(super) migrates: bool,
}

/// The controllers whose order matters.
pub(super) const SCHEDULER: &str = "kubeadmiral.io/global-scheduler";
pub(super) const OVERRIDER: &str = "kubeadmiral.io/overridepolicy-controller";

impl TypeConfig {
    /// The replicas as a JSON pointer.
    pub(super) fn replicas_pointer(&self) -> String {
        self.replicas.iter().flat_map(|key| ["/".into(), escape(key)]).collect()
    }

    /// The object's replicas, if they are an integer.
    pub(super) fn replicas_of(&self, body: &Value) -> Option<i64> {
        if self.replicas.is_empty() {
            return None;
        }
        self.replicas.iter().try_fold(body, |value, key| value.get(key))?.as_i64()
    }

    /// Whether override policies apply before the scheduler's replicas.
    pub(super) fn overrides_first(&self) -> bool {
        let controllers = self.controllers.iter().flatten();
        let [overrider, scheduler] = [OVERRIDER, SCHEDULER]
            .map(|name| controllers.clone().position(|c| c == name).unwrap_or(usize::MAX));
        overrider < scheduler
    }
}

/// Every federated kind, by API version and kind.
#[derive(Debug, Default)]
pub(super) struct FederatedKinds(BTreeMap<(String, String), TypeConfig>);

impl FederatedKinds {
    /// Reads the type configurations of the repo, and adds the shipped ones with other names.
    pub(super) fn new<'o>(own: impl Iterator<Item = &'o Object> + Clone) -> Self {
        let mut types = BTreeMap::new();
        for (name, api_version, kind) in SHIPPED {
            if !own.clone().any(|o| o.id.name == name) {
                types.insert((api_version.to_owned(), kind.to_owned()), shipped_config(kind));
            }
        }
        types.extend(own.map(read_config));
        Self(types)
    }

    /// The configuration of exactly this kind.
    pub(super) fn get(&self, api_version: &str, kind: &str) -> Option<&TypeConfig> {
        self.0.get(&(api_version.to_owned(), kind.to_owned()))
    }
}

/// Reads a type configuration that passed validation: the kind that is federated, and how.
fn read_config(object: &Object) -> ((String, String), TypeConfig) {
    let spec: KubeAdmiralTypeConfigSpec =
        schema::read_field(object, "spec", "invalid-type-config").unwrap_or_default();
    let path = &spec.path_definition.replicas_spec;
    let config = TypeConfig {
        replicas: path.split('.').filter(|key| !key.is_empty()).map(str::to_owned).collect(),
        controllers: spec.controllers,
        scales: object.annotation(keys::SCALE_TARGET).is_some_and(|path| !path.is_empty()),
        migrates: spec.auto_migration.enabled,
    };
    let SourceType { group, version, kind } = spec.source_type;
    let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
    ((api_version, kind), config)
}

/// The shipped configuration of a kind.
fn shipped_config(kind: &str) -> TypeConfig {
    let replicas = match kind {
        "Deployment" => vec!["spec".to_owned(), "replicas".to_owned()],
        _ => Vec::new(),
    };
    let controllers = vec![vec![SCHEDULER.to_owned()], vec![OVERRIDER.to_owned()]];
    let migrates = kind == "Deployment";
    TypeConfig { replicas, controllers, scales: kind == "HorizontalPodAutoscaler", migrates }
}

/// The shipped configurations: name, API version, kind.
const SHIPPED: [(&str, &str, &str); 26] = [
    ("namespaces", "v1", "Namespace"),
    ("configmaps", "v1", "ConfigMap"),
    ("secrets", "v1", "Secret"),
    ("services", "v1", "Service"),
    ("serviceaccounts", "v1", "ServiceAccount"),
    ("persistentvolumes", "v1", "PersistentVolume"),
    ("persistentvolumeclaims", "v1", "PersistentVolumeClaim"),
    ("limitranges", "v1", "LimitRange"),
    ("resourcequotas", "v1", "ResourceQuota"),
    ("pods", "v1", "Pod"),
    ("deployments.apps", "apps/v1", "Deployment"),
    ("statefulsets.apps", "apps/v1", "StatefulSet"),
    ("daemonsets.apps", "apps/v1", "DaemonSet"),
    ("jobs.batch", "batch/v1", "Job"),
    ("cronjobs.batch", "batch/v1", "CronJob"),
    ("ingresses.networking.k8s.io", "networking.k8s.io/v1", "Ingress"),
    ("storageclasses", "storage.k8s.io/v1", "StorageClass"),
    ("roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "Role"),
    ("rolebindings.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("clusterroles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("clusterrolebindings.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("horizontalpodautoscalers.autoscaling", "autoscaling/v2", "HorizontalPodAutoscaler"),
    ("serviceimports.multicluster.x-k8s.io", "multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
    ("serviceexports.multicluster.x-k8s.io", "multicluster.x-k8s.io/v1alpha1", "ServiceExport"),
    ("endpointslices.discovery.k8s.io", "discovery.k8s.io/v1", "EndpointSlice"),
];
