//! The kinds of a run: cluster-scoped or namespaced ones.

/// The kinds of one scope.
#[derive(Clone, Copy, Debug)]
pub(in crate::rollout) struct RunKinds {
    pub(in crate::rollout) placement: &'static str,
    pub(in crate::rollout) policy_snapshot: &'static str,
    pub(in crate::rollout) resource_snapshot: &'static str,
    pub(in crate::rollout) binding: &'static str,
    pub(in crate::rollout) strategy: &'static str,
    pub(in crate::rollout) approval: &'static str,
}

impl RunKinds {
    pub(in crate::rollout) fn for_scope(namespaced: bool) -> Self {
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
