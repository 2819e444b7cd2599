//! Which kinds live in a namespace and which belong to the cluster as a whole.
//!
//! Facts: the API groups of Kubernetes 1.36 (and the removed ones that manifests still use), and the
//! APIs of the federation control planes.

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster as a whole.
    Cluster,
}

/// The scope of a kind, `None` when the kind is not known here (then it is a custom one).
///
/// ```
/// use federate_kubernetes::kinds::{Scope, scope};
/// assert_eq!(scope("apps", "Deployment"), Some(Scope::Namespaced));
/// assert_eq!(scope("", "Namespace"), Some(Scope::Cluster));
/// assert_eq!(scope("example.org", "Widget"), None);
/// ```
pub fn scope(group: &str, kind: &str) -> Option<Scope> {
    if group == "types.kubefed.io" {
        return federated(kind);
    }
    KINDS.iter().find(|(g, ..)| *g == group).and_then(|(_, cluster, namespaced)| {
        let has = |kinds: &str| kinds.split_whitespace().any(|k| k == kind);
        if has(cluster) { Some(Scope::Cluster) } else { has(namespaced).then_some(Scope::Namespaced) }
    })
}

/// Whether a kind of that name is known here, whatever its group.
///
/// ```
/// use federate_kubernetes::kinds::is_known;
/// assert!(is_known("Deployment") && is_known("PropagationPolicy"));
/// assert!(!is_known("Secrett"));
/// ```
pub fn is_known(kind: &str) -> bool {
    KINDS.iter().any(|(_, cluster, namespaced)| {
        [cluster, namespaced].iter().any(|k| k.split_whitespace().any(|k| k == kind))
    })
}

/// KubeFed gives a federated type the scope of its target, except that `FederatedNamespace` lives in
/// the namespace it federates. Targets that are not known here are taken as namespaced.
fn federated(kind: &str) -> Option<Scope> {
    let target = kind.strip_prefix("Federated").filter(|target| !target.is_empty())?;
    let of_cluster = target != "Namespace"
        && KINDS.iter().filter(|(group, ..)| !is_federation(group)).any(|(_, cluster, _)| {
            cluster.split_whitespace().any(|k| k == target) // the group of the target is not part of the kind
        });
    Some(if of_cluster { Scope::Cluster } else { Scope::Namespaced })
}

/// Whether `domain` (an API group, or the part of a label or annotation key before `/`) belongs to a
/// federation control plane.
///
/// ```
/// use federate_kubernetes::kinds::is_federation;
/// assert!(is_federation("policy.karmada.io") && is_federation("kubeadmiral.io"));
/// assert!(is_federation("ingress.federation.kubernetes.io") && is_federation("federate.dev"));
/// assert!(!is_federation("apps") && !is_federation("notkarmada.io"));
/// ```
pub fn is_federation(domain: &str) -> bool {
    const DOMAINS: [&str; 5] =
        ["karmada.io", "kubeadmiral.io", "kubernetes-fleet.io", "kubefed.io", "federate.dev"];
    domain.split('.').any(|part| part == "federation")
        || DOMAINS
            .iter()
            .any(|d| domain.strip_suffix(d).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// API group, kinds of the cluster, kinds of a namespace.
const KINDS: [(&str, &str, &str); 41] = [
    (
        "",
        "ComponentStatus Namespace Node PersistentVolume",
        "Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate \
         ReplicationController ResourceQuota Secret Service ServiceAccount",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration \
         ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
        "",
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", ""),
    ("apiregistration.k8s.io", "APIService", ""),
    ("apps", "", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    ("authentication.k8s.io", "SelfSubjectReview TokenReview", ""),
    (
        "authorization.k8s.io",
        "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
        "LocalSubjectAccessReview",
    ),
    ("autoscaling", "", "HorizontalPodAutoscaler"),
    ("batch", "", "CronJob Job"),
    ("certificates.k8s.io", "CertificateSigningRequest ClusterTrustBundle", "PodCertificateRequest"),
    ("coordination.k8s.io", "", "Lease LeaseCandidate"),
    ("discovery.k8s.io", "", "EndpointSlice"),
    ("events.k8s.io", "", "Event"),
    ("extensions", "PodSecurityPolicy", "DaemonSet Deployment Ingress NetworkPolicy ReplicaSet"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration", ""),
    ("internal.apiserver.k8s.io", "StorageVersion", ""),
    ("networking.k8s.io", "IPAddress IngressClass ServiceCIDR", "Ingress NetworkPolicy"),
    ("node.k8s.io", "RuntimeClass", ""),
    ("policy", "PodSecurityPolicy", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "ClusterRole ClusterRoleBinding", "Role RoleBinding"),
    ("resource.k8s.io", "DeviceClass DeviceTaintRule ResourceSlice", "ResourceClaim ResourceClaimTemplate"),
    ("scheduling.k8s.io", "PriorityClass", "PodGroup Workload"),
    (
        "storage.k8s.io",
        "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
        "CSIStorageCapacity",
    ),
    ("storagemigration.k8s.io", "StorageVersionMigration", ""),
    // Federation control planes.
    ("apps.karmada.io", "WorkloadRebalancer", ""),
    ("autoscaling.karmada.io", "", "CronFederatedHPA FederatedHPA"),
    ("cluster.karmada.io", "Cluster", ""),
    ("config.karmada.io", "ResourceInterpreterCustomization ResourceInterpreterWebhookConfiguration", ""),
    ("networking.karmada.io", "", "MultiClusterIngress MultiClusterService"),
    ("operator.karmada.io", "", "Karmada"),
    (
        "policy.karmada.io",
        "ClusterOverridePolicy ClusterPropagationPolicy ClusterTaintPolicy",
        "FederatedResourceQuota OverridePolicy PropagationPolicy",
    ),
    ("remedy.karmada.io", "Remedy", ""),
    ("search.karmada.io", "ResourceRegistry", ""),
    ("work.karmada.io", "ClusterResourceBinding", "ResourceBinding Work"),
    (
        "core.kubeadmiral.io",
        "ClusterCollectedStatus ClusterFederatedObject ClusterOverridePolicy ClusterPropagatedVersion \
         ClusterPropagationPolicy FederatedCluster FederatedTypeConfig SchedulerPluginWebhookConfiguration \
         SchedulingProfile",
        "CollectedStatus FederatedObject OverridePolicy PropagatedVersion PropagationPolicy",
    ),
    ("cluster.kubernetes-fleet.io", "MemberCluster", "InternalMemberCluster"),
    (
        "placement.kubernetes-fleet.io",
        "AppliedWork ClusterApprovalRequest ClusterResourceBinding ClusterResourceEnvelope \
         ClusterResourceOverride ClusterResourceOverrideSnapshot ClusterResourcePlacement \
         ClusterResourcePlacementDisruptionBudget ClusterResourcePlacementEviction ClusterResourceSnapshot \
         ClusterSchedulingPolicySnapshot ClusterStagedUpdateRun ClusterStagedUpdateStrategy",
        "ApprovalRequest ClusterResourcePlacementStatus ResourceBinding ResourceEnvelope ResourceOverride \
         ResourceOverrideSnapshot ResourcePlacement ResourceSnapshot SchedulingPolicySnapshot \
         StagedUpdateRun StagedUpdateStrategy Work",
    ),
    (
        "core.kubefed.io",
        "ClusterPropagatedVersion",
        "FederatedServiceStatus FederatedTypeConfig KubeFedCluster KubeFedConfig PropagatedVersion",
    ),
    ("multiclusterdns.kubefed.io", "", "DNSEndpoint Domain IngressDNSRecord ServiceDNSRecord"),
    ("scheduling.kubefed.io", "", "ReplicaSchedulingPreference"),
    ("federation", "Cluster", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_kind_in_two_groups_keeps_each_its_scope() {
        assert_eq!(scope("core.kubeadmiral.io", "FederatedTypeConfig"), Some(Scope::Cluster));
        assert_eq!(scope("core.kubefed.io", "FederatedTypeConfig"), Some(Scope::Namespaced));
        assert_eq!(scope("apps", "Namespace"), None);
    }

    #[test]
    fn federated_types_take_their_targets_scope() {
        let of = |kind| scope("types.kubefed.io", kind);
        assert_eq!(of("FederatedDeployment"), Some(Scope::Namespaced));
        assert_eq!(of("FederatedNamespace"), Some(Scope::Namespaced));
        assert_eq!(of("FederatedClusterRole"), Some(Scope::Cluster));
        assert_eq!(of("FederatedWidget"), Some(Scope::Namespaced));
        assert_eq!(of("Federated"), None);
        assert_eq!(of("Other"), None);
    }

    #[test]
    fn the_table_names_each_kind_once() {
        for (group, cluster, namespaced) in KINDS {
            let mut kinds: Vec<_> = cluster.split_whitespace().chain(namespaced.split_whitespace()).collect();
            let all = kinds.len();
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!(kinds.len(), all, "{group}");
            assert!(kinds.iter().all(|k| k.bytes().all(|b| b.is_ascii_alphanumeric())), "{group}");
            assert_eq!(KINDS.iter().filter(|(g, ..)| *g == group).count(), 1, "{group}");
            assert_eq!(scope(group, ""), None, "{group}");
        }
    }
}
