//! KubeAdmiral's own kinds, and where their objects live.

use federate_kubernetes::kinds::GroupKinds;

pub(super) const KINDS: [GroupKinds; 1] = [GroupKinds::new(
    "core.kubeadmiral.io",
    "ClusterCollectedStatus ClusterFederatedObject ClusterOverridePolicy \
         ClusterPropagatedVersion ClusterPropagationPolicy FederatedCluster FederatedTypeConfig \
         SchedulerPluginWebhookConfiguration SchedulingProfile",
    "CollectedStatus FederatedObject OverridePolicy PropagatedVersion PropagationPolicy",
)
.with_versions("v1alpha1")];
