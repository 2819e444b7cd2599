//! The order in which the agent applies the manifests of a work.
//!
//! Facts: kinds have a rank, whatever their group; within a rank the manifests stay in their order. Before release 1.3 the
//! order was that of the work. A failure does not stop the others.

/// The kinds by rank. All others come last.
const RANKS: [&[&str]; 7] = [
    &[
        "PriorityClass",
        "Namespace",
        "CustomResourceDefinition",
        "StorageClass",
        "PersistentVolume",
        "PodSecurityPolicy",
    ],
    &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    &["NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"],
    &["Secret", "ConfigMap", "PersistentVolumeClaim"],
    &["Service"],
    &[
        "DaemonSet",
        "Pod",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "StatefulSet",
        "Job",
        "CronJob",
    ],
    &[
        "APIService",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ],
];

/// The rank of a kind.
pub(crate) fn rank_kind(kind: &str) -> u32 {
    let rank = RANKS.iter().position(|kinds| kinds.contains(&kind)).unwrap_or(RANKS.len());
    u32::try_from(rank).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first() {
        let kinds = [
            "Namespace",
            "Role",
            "ServiceAccount",
            "Secret",
            "Service",
            "Deployment",
            "APIService",
            "Ingress",
        ];
        assert!(kinds.iter().map(|kind| rank_kind(kind)).is_sorted_by(|a, b| a < b));
    }
}
