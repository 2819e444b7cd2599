//! Which kinds live in a namespace and which belong to the cluster as a whole.
//!
//! Facts: the API groups of Kubernetes 1.36 (and the removed ones that manifests still use). The kinds of
//! control planes stand with their dialects.

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
    KINDS.iter().find(|known| known.group == group)?.scope(kind)
}

/// Whether a kind of that name is known here, whatever its group.
///
/// ```
/// use federate_kubernetes::kinds::is_known;
/// assert!(is_known("Deployment"));
/// assert!(!is_known("Secrett"));
/// ```
pub fn is_known(kind: &str) -> bool {
    KINDS.iter().any(|group| group.scope(kind).is_some())
}

/// Whether kinds of that name belong to the cluster as a whole, in whatever group.
pub fn is_cluster_scoped(kind: &str) -> bool {
    KINDS.iter().any(|group| group.cluster.split_whitespace().any(|k| k == kind))
}

/// The kinds of an API group, as names separated by white space.
#[derive(Clone, Copy, Debug)]
pub struct GroupKinds {
    /// The group; empty for the core one.
    pub group: &'static str,
    /// Kinds of the cluster as a whole.
    pub cluster: &'static str,
    /// Kinds of a namespace.
    pub namespaced: &'static str,
    /// The versions that are served, the preferred one first; empty where they are not known here.
    pub versions: &'static str,
}

impl GroupKinds {
    /// The kinds of one group.
    pub const fn new(group: &'static str, cluster: &'static str, namespaced: &'static str) -> Self {
        Self { group, cluster, namespaced, versions: "" }
    }

    /// The same, with the versions that are served.
    #[must_use]
    pub const fn versions(self, versions: &'static str) -> Self {
        Self { versions, ..self }
    }

    /// All kinds.
    pub fn all(&self) -> impl Iterator<Item = &'static str> {
        self.cluster.split_whitespace().chain(self.namespaced.split_whitespace())
    }

    /// The scope of a kind of this group.
    pub fn scope(&self, kind: &str) -> Option<Scope> {
        let has = |kinds: &str| kinds.split_whitespace().any(|k| k == kind);
        if has(self.cluster) {
            Some(Scope::Cluster)
        } else {
            has(self.namespaced).then_some(Scope::Namespaced)
        }
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
            assert_eq!(scope(group, ""), None, "{group}");
        }
    }
}
