//! Karmada's own kinds, with their scopes and versions.

use federate_kubernetes::kinds::GroupKinds;

pub(super) const KINDS: [GroupKinds; 10] = [
    GroupKinds::new("apps.karmada.io", "WorkloadRebalancer", "").versions("v1alpha1"),
    GroupKinds::new("autoscaling.karmada.io", "", "CronFederatedHPA FederatedHPA").versions("v1alpha1"),
    GroupKinds::new("cluster.karmada.io", "Cluster", "").versions("v1alpha1"),
    GroupKinds::new(
        "config.karmada.io",
        "ResourceInterpreterCustomization ResourceInterpreterWebhookConfiguration",
        "",
    )
    .versions("v1alpha1"),
    GroupKinds::new("networking.karmada.io", "", "MultiClusterIngress MultiClusterService")
        .versions("v1alpha1"),
    GroupKinds::new("operator.karmada.io", "", "Karmada").versions("v1alpha1"),
    GroupKinds::new(
        "policy.karmada.io",
        "ClusterOverridePolicy ClusterPropagationPolicy ClusterTaintPolicy",
        "FederatedResourceQuota OverridePolicy PropagationPolicy",
    )
    .versions("v1alpha1"),
    GroupKinds::new("remedy.karmada.io", "Remedy", "").versions("v1alpha1"),
    GroupKinds::new("search.karmada.io", "ResourceRegistry", "").versions("v1alpha1"),
    GroupKinds::new("work.karmada.io", "ClusterResourceBinding", "ResourceBinding Work")
        .versions("v1alpha2 v1alpha1"),
];
