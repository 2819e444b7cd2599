//! The kinds of Open Cluster Management, those of products that read its decisions, and where their objects live.

use federate_kubernetes::kinds::GroupKinds;

/// The group of clusters and placements.
pub(crate) const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";

/// The group of works.
pub(crate) const WORK_GROUP: &str = "work.open-cluster-management.io";

/// The kinds by group. The last groups are those of Red Hat ACM: they stay on the hub, and read decisions.
pub(super) const KINDS: [GroupKinds; 14] = [
    GroupKinds::new(
        CLUSTER_GROUP,
        "ManagedCluster ManagedClusterSet",
        "AddOnPlacementScore ManagedClusterSetBinding Placement PlacementDecision",
    ),
    GroupKinds::new(WORK_GROUP, "AppliedManifestWork", "ManifestWork ManifestWorkReplicaSet"),
    GroupKinds::new(
        "addon.open-cluster-management.io",
        "AddOnTemplate ClusterManagementAddOn",
        "AddOnDeploymentConfig ManagedClusterAddOn",
    ),
    GroupKinds::new("operator.open-cluster-management.io", "ClusterManager Klusterlet MultiClusterHub", ""),
    GroupKinds::new("multicluster.openshift.io", "MultiClusterEngine", ""),
    GroupKinds::new(
        "policy.open-cluster-management.io",
        "",
        "CertificatePolicy ConfigurationPolicy OperatorPolicy PlacementBinding Policy PolicyAutomation PolicyGenerator \
         PolicySet",
    ),
    GroupKinds::new(
        "apps.open-cluster-management.io",
        "",
        "Channel Deployable GitOpsCluster HelmRelease MulticlusterApplicationSetReport PlacementRule Subscription \
         SubscriptionReport SubscriptionStatus",
    ),
    GroupKinds::new("agent.open-cluster-management.io", "", "KlusterletAddonConfig"),
    GroupKinds::new("action.open-cluster-management.io", "", "ManagedClusterAction"),
    GroupKinds::new("view.open-cluster-management.io", "", "ManagedClusterView"),
    GroupKinds::new("internal.open-cluster-management.io", "", "ManagedClusterInfo"),
    GroupKinds::new(
        "observability.open-cluster-management.io",
        "MultiClusterObservability",
        "ObservabilityAddon",
    ),
    GroupKinds::new("config.open-cluster-management.io", "KlusterletConfig", ""),
    GroupKinds::new("imageregistry.open-cluster-management.io", "", "ManagedClusterImageRegistry"),
];
