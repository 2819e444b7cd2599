//! KubeFed's and Federation v1's own kinds, and where their objects live.

use federate_kubernetes::kinds::{self, GroupKinds, Scope};

pub(super) const KINDS: [GroupKinds; 5] = [
    GroupKinds::new(
        "core.kubefed.io",
        "ClusterPropagatedVersion",
        "EnableTypeDirective FederatedServiceStatus FederatedTypeConfig KubeFedCluster KubeFedConfig PropagatedVersion",
    )
    .with_versions("v1beta1 v1alpha1"),
    GroupKinds::new("multiclusterdns.kubefed.io", "", "DNSEndpoint Domain IngressDNSRecord ServiceDNSRecord")
        .with_versions("v1alpha1"),
    GroupKinds::new("scheduling.kubefed.io", "", "ReplicaSchedulingPreference").with_versions("v1alpha1"),
    GroupKinds::new("federation", "Cluster", "").with_versions("v1beta1"),
    GroupKinds::new(
        "types.kubefed.io",
        "FederatedClusterRole",
        "FederatedConfigMap FederatedDeployment FederatedIngress FederatedJob FederatedNamespace \
         FederatedReplicaSet FederatedSecret FederatedService FederatedServiceAccount",
    )
    .with_versions("v1beta1"),
];

/// The scope of a kind. A federated type has the scope of its target, but `FederatedNamespace` is namespaced.
/// Unknown targets count as namespaced.
pub(super) fn scope_of_kind(group: &str, kind: &str) -> Option<Scope> {
    if group != "types.kubefed.io" {
        return KINDS.iter().find(|known| known.group == group)?.find_scope(kind);
    }
    let target = kind.strip_prefix("Federated").filter(|target| !target.is_empty())?;
    // The group of the target is not part of the kind.
    let of_cluster = target != "Namespace" && kinds::is_cluster_scoped(target);
    Some(if of_cluster { Scope::Cluster } else { Scope::Namespaced })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn federated_types_take_their_targets_scope() {
        let of = |kind| scope_of_kind("types.kubefed.io", kind);
        assert_eq!(of("FederatedDeployment"), Some(Scope::Namespaced));
        assert_eq!(of("FederatedNamespace"), Some(Scope::Namespaced));
        assert_eq!(of("FederatedClusterRole"), Some(Scope::Cluster));
        assert_eq!(of("FederatedWidget"), Some(Scope::Namespaced));
        assert_eq!(of("Federated"), None);
        assert_eq!(of("Other"), None);
    }

    #[test]
    fn a_type_config_lives_in_a_namespace() {
        assert_eq!(scope_of_kind("core.kubefed.io", "FederatedTypeConfig"), Some(Scope::Namespaced));
    }
}
