//! The scope of kinds: namespaced or cluster-scoped.
//!
//! Facts: the API groups of Kubernetes 1.36, and removed ones that manifests still use. The kinds of control
//! planes are defined in their dialects.

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Scope {
    /// Namespaced.
    Namespaced,
    /// Cluster-scoped.
    Cluster,
}

/// The scope of a kind; `None` if it is unknown, which means a custom resource.
///
/// ```
/// use federate_kubernetes::kinds::{Scope, find_scope};
/// assert_eq!(find_scope("apps", "Deployment"), Some(Scope::Namespaced));
/// assert_eq!(find_scope("", "Namespace"), Some(Scope::Cluster));
/// assert_eq!(find_scope("example.org", "Widget"), None);
/// ```
pub fn find_scope(group: &str, kind: &str) -> Option<Scope> {
    KINDS.iter().find(|known| known.group == group)?.find_scope(kind)
}

/// The resource of a kind in lower case, its plural, unless a definition says otherwise.
///
/// ```
/// use federate_kubernetes::kinds::pluralize_kind;
/// assert_eq!(pluralize_kind("networkpolicy"), "networkpolicies");
/// assert_eq!(pluralize_kind("ingress"), "ingresses");
/// assert_eq!(pluralize_kind("gateway"), "gateways");
/// ```
pub fn pluralize_kind(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// Whether a kind with this name is known, in any group.
///
/// ```
/// use federate_kubernetes::kinds::is_known;
/// assert!(is_known("Deployment"));
/// assert!(!is_known("Secrett"));
/// ```
pub fn is_known(kind: &str) -> bool {
    KINDS.iter().any(|group| group.find_scope(kind).is_some())
}

/// The API groups of Kubernetes.
pub fn api_groups() -> impl Iterator<Item = &'static GroupKinds> {
    KINDS.iter()
}

/// The names of all kinds; some are in several groups.
pub fn kind_names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(GroupKinds::kind_names)
}

/// Whether kinds with this name are cluster-scoped, in any group.
pub fn is_cluster_scoped(kind: &str) -> bool {
    KINDS.iter().any(|group| group.cluster.split_whitespace().any(|k| k == kind))
}

/// The kinds of an API group, as names separated by spaces.
#[derive(Clone, Copy, Debug)]
pub struct GroupKinds {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// Cluster-scoped kinds.
    pub cluster: &'static str,
    /// Namespaced kinds.
    pub namespaced: &'static str,
    /// The served versions, the preferred one first; empty if unknown.
    pub versions: &'static str,
}

impl GroupKinds {
    /// The kinds of one group.
    pub const fn new(group: &'static str, cluster: &'static str, namespaced: &'static str) -> Self {
        Self { group, cluster, namespaced, versions: "" }
    }

    /// The kinds of one group, with the served versions.
    #[must_use]
    pub const fn with_versions(self, versions: &'static str) -> Self {
        Self { versions, ..self }
    }

    /// All kinds.
    pub fn kind_names(&self) -> impl Iterator<Item = &'static str> {
        self.cluster.split_whitespace().chain(self.namespaced.split_whitespace())
    }

    /// The scope of a kind of this group.
    pub fn find_scope(&self, kind: &str) -> Option<Scope> {
        let scopes = [(self.cluster, Scope::Cluster), (self.namespaced, Scope::Namespaced)];
        let (_, scope) =
            scopes.into_iter().find(|(kinds, _)| kinds.split_whitespace().any(|known| known == kind))?;
        Some(scope)
    }
}

const KINDS: [GroupKinds; 24] = [
    GroupKinds::new(
        "",
        "ComponentStatus Namespace Node PersistentVolume",
        "Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate \
         ReplicationController ResourceQuota Secret Service ServiceAccount",
    ),
    GroupKinds::new(
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration \
         ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
        "",
    ),
    GroupKinds::new("apiextensions.k8s.io", "CustomResourceDefinition", ""),
    GroupKinds::new("apiregistration.k8s.io", "APIService", ""),
    GroupKinds::new("apps", "", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    GroupKinds::new("authentication.k8s.io", "SelfSubjectReview TokenReview", ""),
    GroupKinds::new(
        "authorization.k8s.io",
        "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
        "LocalSubjectAccessReview",
    ),
    GroupKinds::new("autoscaling", "", "HorizontalPodAutoscaler"),
    GroupKinds::new("batch", "", "CronJob Job"),
    GroupKinds::new(
        "certificates.k8s.io",
        "CertificateSigningRequest ClusterTrustBundle",
        "PodCertificateRequest",
    ),
    GroupKinds::new("coordination.k8s.io", "", "Lease LeaseCandidate"),
    GroupKinds::new("discovery.k8s.io", "", "EndpointSlice"),
    GroupKinds::new("events.k8s.io", "", "Event"),
    GroupKinds::new(
        "extensions",
        "PodSecurityPolicy",
        "DaemonSet Deployment Ingress NetworkPolicy ReplicaSet",
    ),
    GroupKinds::new("flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration", ""),
    GroupKinds::new("internal.apiserver.k8s.io", "StorageVersion", ""),
    GroupKinds::new("networking.k8s.io", "IPAddress IngressClass ServiceCIDR", "Ingress NetworkPolicy"),
    GroupKinds::new("node.k8s.io", "RuntimeClass", ""),
    GroupKinds::new("policy", "PodSecurityPolicy", "PodDisruptionBudget"),
    GroupKinds::new("rbac.authorization.k8s.io", "ClusterRole ClusterRoleBinding", "Role RoleBinding"),
    GroupKinds::new(
        "resource.k8s.io",
        "DeviceClass DeviceTaintRule ResourceSlice",
        "ResourceClaim ResourceClaimTemplate",
    ),
    GroupKinds::new("scheduling.k8s.io", "PriorityClass", "PodGroup Workload"),
    GroupKinds::new(
        "storage.k8s.io",
        "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
        "CSIStorageCapacity",
    ),
    GroupKinds::new("storagemigration.k8s.io", "StorageVersionMigration", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_kind_once() {
        for GroupKinds { group, cluster, namespaced, .. } in KINDS {
            let mut kinds: Vec<_> = cluster.split_whitespace().chain(namespaced.split_whitespace()).collect();
            let all = kinds.len();
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!(kinds.len(), all, "{group}");
            assert!(kinds.iter().all(|k| k.bytes().all(|b| b.is_ascii_alphanumeric())), "{group}");
            assert_eq!(KINDS.iter().filter(|known| known.group == group).count(), 1, "{group}");
            assert_eq!(find_scope(group, ""), None, "{group}");
        }
    }
}
