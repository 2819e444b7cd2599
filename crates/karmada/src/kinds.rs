//! Karmada's own kinds, and where their objects live.

use federate_kubernetes::kinds::GroupKinds;

pub(super) const KINDS: [GroupKinds; 10] = [
    GroupKinds::new("apps.karmada.io", "WorkloadRebalancer", ""),
    GroupKinds::new("autoscaling.karmada.io", "", "CronFederatedHPA FederatedHPA"),
    GroupKinds::new("cluster.karmada.io", "Cluster", ""),
    GroupKinds::new(
        "config.karmada.io",
        "ResourceInterpreterCustomization ResourceInterpreterWebhookConfiguration",
        "",
    ),
    GroupKinds::new("networking.karmada.io", "", "MultiClusterIngress MultiClusterService"),
    GroupKinds::new("operator.karmada.io", "", "Karmada"),
    GroupKinds::new(
        "policy.karmada.io",
        "ClusterOverridePolicy ClusterPropagationPolicy ClusterTaintPolicy",
        "FederatedResourceQuota OverridePolicy PropagationPolicy",
    ),
    GroupKinds::new("remedy.karmada.io", "Remedy", ""),
    GroupKinds::new("search.karmada.io", "ResourceRegistry", ""),
    GroupKinds::new("work.karmada.io", "ClusterResourceBinding", "ResourceBinding Work"),
];
