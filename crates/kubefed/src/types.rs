//! The federated kinds: `FederatedTypeConfig` objects, and those of a default installation.
//!
//! Facts: only configurations in the control plane's namespace count. An empty target group is the part of the
//! configuration's name after the first dot. A configuration in the repo replaces the default one of the same
//! name.

use std::collections::BTreeMap;

use super::api::{self, KubeFedTypeConfigSpec};
use federate_dialect::CarriedReplicas;
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Object, ObjectRef};

/// The default group of federated kinds.
const GROUP: &str = "types.kubefed.io";

/// The types of a default installation: configuration, target API version and kind.
const DEFAULTS: [(&str, &str, &str, Scope); 10] = [
    ("clusterroles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRole", Scope::Cluster),
    ("configmaps", "v1", "ConfigMap", Scope::Namespaced),
    ("deployments.apps", "apps/v1", "Deployment", Scope::Namespaced),
    ("ingresses.networking.k8s.io", "networking.k8s.io/v1", "Ingress", Scope::Namespaced),
    ("jobs.batch", "batch/v1", "Job", Scope::Namespaced),
    ("namespaces", "v1", "Namespace", Scope::Cluster),
    ("replicasets.apps", "apps/v1", "ReplicaSet", Scope::Namespaced),
    ("secrets", "v1", "Secret", Scope::Namespaced),
    ("serviceaccounts", "v1", "ServiceAccount", Scope::Namespaced),
    ("services", "v1", "Service", Scope::Namespaced),
];

/// A federated type.
#[derive(Clone, Debug)]
pub(super) struct FederatedType {
    /// The name of its configuration.
    pub name: String,
    /// The target's API version.
    pub api_version: String,
    /// The target's kind.
    pub kind: String,
    /// Whether the target is cluster-scoped.
    pub scope: Scope,
    /// Whether the type is propagated.
    pub enabled: bool,
}

impl FederatedType {
    /// Whether the target is `Namespace`.
    pub(super) fn is_namespace(&self) -> bool {
        self.kind == "Namespace" && self.api_version == "v1"
    }

    /// Whether its replicas can be scheduled.
    pub(super) fn is_scheduled(&self) -> bool {
        matches!(self.name.as_str(), "deployments.apps" | "replicasets.apps")
    }

    /// The target of a federated object.
    pub(super) fn target_of(&self, federated: &ObjectRef) -> ObjectRef {
        let namespace = match self.scope {
            Scope::Namespaced => federated.namespace.clone(),
            Scope::Cluster => None,
        };
        ObjectRef {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace,
            name: federated.name.clone(),
        }
    }
}

/// Where a federated object or a preference holds the replicas of its target.
pub(super) fn find_carried_replicas(object: &Object) -> Option<CarriedReplicas> {
    let (kind, pointer) = match object.id.kind.as_str() {
        "ReplicaSchedulingPreference" => (object.text_at(&["spec", "targetKind"]), "/spec/totalReplicas"),
        kind => (kind, "/spec/template/spec/replicas"),
    };
    let kind = kind.strip_prefix("Federated").filter(|kind| matches!(*kind, "Deployment" | "ReplicaSet"))?;
    let workload =
        ObjectRef { api_version: "apps/v1".to_owned(), kind: kind.to_owned(), ..object.id.clone() };
    Some(CarriedReplicas { workload, pointer })
}

/// All federated types, by group and kind of the federated object.
#[derive(Debug)]
pub(super) struct FederatedTypeIndex(BTreeMap<(String, String), FederatedType>);

impl FederatedTypeIndex {
    /// Reads the configurations among `objects`, and adds the others of a default installation.
    pub(super) fn from_configs<'o>(objects: impl Iterator<Item = &'o Object>, namespace: &str) -> Self {
        let mut by_name: BTreeMap<String, ((String, String), FederatedType)> = DEFAULTS
            .into_iter()
            .map(|(name, api_version, kind, scope)| {
                let federated = (GROUP.to_owned(), format!("Federated{kind}"));
                let federated_type = FederatedType {
                    name: name.to_owned(),
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                    scope,
                    enabled: true,
                };
                (name.to_owned(), (federated, federated_type))
            })
            .collect();
        let own = objects
            .filter(|o| o.id.kind == "FederatedTypeConfig" && o.id.namespace.as_deref() == Some(namespace));
        by_name.extend(own.filter_map(|o| Some((o.id.name.clone(), read_type(o)?))));
        Self(by_name.into_values().collect())
    }

    /// The kinds of federated objects.
    pub(super) fn federated_kinds(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|(_, kind)| kind.as_str())
    }

    /// The type of a federated object.
    pub(super) fn get(&self, federated: &ObjectRef) -> Option<&FederatedType> {
        self.0.get(&(federated.group().to_owned(), federated.kind.clone()))
    }
}

/// The federated group and kind of a configuration, and the type.
fn read_type(object: &Object) -> Option<((String, String), FederatedType)> {
    let spec: KubeFedTypeConfigSpec = api::read_spec(object).ok()?;
    let target = spec.target_type;
    let group = match target.group.as_str() {
        "" => object.id.name.split_once('.').map_or("", |(_, group)| group),
        group => group,
    };
    let api_version =
        if group.is_empty() { target.version.clone() } else { format!("{group}/{}", target.version) };
    let federated_type = FederatedType {
        name: object.id.name.clone(),
        api_version,
        kind: target.kind,
        scope: if target.scope == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
        enabled: spec.propagation == "Enabled",
    };
    Some(((spec.federated_type.group, spec.federated_type.kind), federated_type))
}

/// The federated group, kind and scope that a configuration declares.
pub(super) fn declared_type(object: &Object) -> Option<(String, String, Option<Scope>)> {
    let federated = api::read_spec::<KubeFedTypeConfigSpec>(object).ok()?.federated_type;
    let scope = match federated.scope.as_str() {
        "Cluster" => Some(Scope::Cluster),
        "Namespaced" => Some(Scope::Namespaced),
        _ => None,
    };
    let is_filled = !federated.group.is_empty() && !federated.kind.is_empty();
    is_filled.then_some((federated.group, federated.kind, scope))
}
