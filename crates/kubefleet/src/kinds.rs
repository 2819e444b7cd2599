//! KubeFleet's own kinds, and where their objects live.

use federate_kubernetes::kinds::{self, GroupKinds, Scope};

pub(super) const KINDS: [GroupKinds; 3] = [
    GroupKinds::new("cluster.kubernetes-fleet.io", "MemberCluster", "InternalMemberCluster")
        .with_versions("v1 v1beta1"),
    GroupKinds::new(
        "placement.kubernetes-fleet.io",
        "AppliedWork ClusterApprovalRequest ClusterResourceBinding ClusterResourceEnvelope \
         ClusterResourceOverride ClusterResourceOverrideSnapshot ClusterResourcePlacement \
         ClusterResourcePlacementDisruptionBudget ClusterResourcePlacementEviction \
         ClusterResourceSnapshot ClusterSchedulingPolicySnapshot ClusterStagedUpdateRun \
         ClusterStagedUpdateStrategy",
        "ApprovalRequest ClusterResourcePlacementStatus ResourceBinding ResourceEnvelope \
         ResourceOverride ResourceOverrideSnapshot ResourcePlacement ResourceSnapshot \
         SchedulingPolicySnapshot StagedUpdateRun StagedUpdateStrategy Work",
    )
    .with_versions("v1 v1beta1 v1alpha1"),
    GroupKinds::new(
        "placement.kubefleet.dev",
        "ClusterPlacementBinding ClusterPlacementPolicy ClusterPlacementResourceSnapshot ClusterRequest",
        "PlacementBinding PlacementPolicy PlacementResourceSnapshot Work",
    )
    .with_versions("v1alpha1"),
];

/// Whether a hub serves one of the kinds of Kubernetes in a version; `None` for other kinds.
pub(super) fn is_version_served(group: &str, kind: &str, version: &str) -> Option<bool> {
    kinds::find_scope(group, kind)?;
    Some(match group {
        "autoscaling" => matches!(version, "v1" | "v2"),
        "extensions" => false,
        "internal.apiserver.k8s.io" | "storagemigration.k8s.io" => true,
        _ => version == "v1",
    })
}

/// The scope of a kind that every hub serves.
pub(super) fn find_scope(group: &str, kind: &str) -> Option<Scope> {
    kinds::find_scope(group, kind)
        .or_else(|| KINDS.iter().find(|known| known.group == group)?.find_scope(kind))
}
