//! The kinds of a run: cluster-scoped or namespaced ones.

/// The kinds of one scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    pub(super) placement: &'static str,
    pub(super) policy_snapshot: &'static str,
    pub(super) resource_snapshot: &'static str,
    pub(super) binding: &'static str,
    pub(super) strategy: &'static str,
    pub(super) approval: &'static str,
}

impl Kinds {
    pub(super) fn of(namespaced: bool) -> Self {
        if namespaced {
            Self {
                placement: "ResourcePlacement",
                policy_snapshot: "SchedulingPolicySnapshot",
                resource_snapshot: "ResourceSnapshot",
                binding: "ResourceBinding",
                strategy: "StagedUpdateStrategy",
                approval: "ApprovalRequest",
            }
        } else {
            Self {
                placement: "ClusterResourcePlacement",
                policy_snapshot: "ClusterSchedulingPolicySnapshot",
                resource_snapshot: "ClusterResourceSnapshot",
                binding: "ClusterResourceBinding",
                strategy: "ClusterStagedUpdateStrategy",
                approval: "ClusterApprovalRequest",
            }
        }
    }
}
