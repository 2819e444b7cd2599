//! Karmada's own kinds, with their scopes and versions.

use federate_kubernetes::kinds::GroupKinds;
use serde_json::Value;

pub(super) const KINDS: [GroupKinds; 10] = [
    GroupKinds::new("apps.karmada.io", "WorkloadRebalancer", "").with_versions("v1alpha1"),
    GroupKinds::new("autoscaling.karmada.io", "", "CronFederatedHPA FederatedHPA").with_versions("v1alpha1"),
    GroupKinds::new("cluster.karmada.io", "Cluster", "").with_versions("v1alpha1"),
    GroupKinds::new(
        "config.karmada.io",
        "ResourceInterpreterCustomization ResourceInterpreterWebhookConfiguration",
        "",
    )
    .with_versions("v1alpha1"),
    GroupKinds::new("networking.karmada.io", "", "MultiClusterIngress MultiClusterService")
        .with_versions("v1alpha1"),
    GroupKinds::new("operator.karmada.io", "", "Karmada").with_versions("v1alpha1"),
    GroupKinds::new(
        "policy.karmada.io",
        "ClusterOverridePolicy ClusterPropagationPolicy ClusterTaintPolicy",
        "FederatedResourceQuota OverridePolicy PropagationPolicy",
    )
    .with_versions("v1alpha1"),
    GroupKinds::new("remedy.karmada.io", "Remedy", "").with_versions("v1alpha1"),
    GroupKinds::new("search.karmada.io", "ResourceRegistry", "").with_versions("v1alpha1"),
    GroupKinds::new("work.karmada.io", "ClusterResourceBinding", "ResourceBinding Work")
        .with_versions("v1alpha2 v1alpha1"),
];

/// The API version and the kind of an object; empty if they are missing.
pub(super) fn version_and_kind(body: &Value) -> (&str, &str) {
    (body["apiVersion"].as_str().unwrap_or_default(), body["kind"].as_str().unwrap_or_default())
}
