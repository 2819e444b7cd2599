//! The scope of custom resources of common projects.
//!
//! Facts: the `CustomResourceDefinition`s that the projects publish. Most groups have namespaced kinds only, so the
//! table has the groups with their cluster-scoped kinds.

use super::kinds::Scope;

/// The scope of a kind of a known group; `None` if the group is unknown.
///
/// ```
/// use federate_kubernetes::ecosystem::find_scope;
/// use federate_kubernetes::kinds::Scope;
/// assert_eq!(find_scope("helm.toolkit.fluxcd.io", "HelmRelease"), Some(Scope::Namespaced));
/// assert_eq!(find_scope("cert-manager.io", "ClusterIssuer"), Some(Scope::Cluster));
/// assert_eq!(find_scope("example.org", "Widget"), None);
/// ```
pub fn find_scope(group: &str, kind: &str) -> Option<Scope> {
    if NAMESPACED_GROUPS.split_whitespace().any(|known| known == group) {
        return Some(Scope::Namespaced);
    }
    if let Some((_, cluster)) = MIXED_GROUPS.iter().find(|(known, _)| *known == group) {
        let is_cluster_scoped = cluster.split_whitespace().any(|known| known == kind);
        return Some(if is_cluster_scoped { Scope::Cluster } else { Scope::Namespaced });
    }
    if CLUSTER_SCOPED_GROUPS.split_whitespace().any(|known| known == group) {
        return Some(Scope::Cluster);
    }
    None
}

/// The usual scope of the kinds of a group that is one of many with the same domain: Crossplane's providers, whose
/// managed resources are namespaced in groups such as `ec2.aws.m.upbound.io` and cluster-scoped in others.
///
/// ```
/// use federate_kubernetes::ecosystem::usual_scope;
/// use federate_kubernetes::kinds::Scope;
/// assert_eq!(usual_scope("s3.aws.upbound.io", "Bucket"), Some(Scope::Cluster));
/// assert_eq!(usual_scope("s3.aws.m.upbound.io", "Bucket"), Some(Scope::Namespaced));
/// assert_eq!(usual_scope("aws.m.upbound.io", "ClusterProviderConfig"), Some(Scope::Cluster));
/// ```
pub fn usual_scope(group: &str, kind: &str) -> Option<Scope> {
    let within = CROSSPLANE_PROVIDER_DOMAINS.iter().find_map(|domain| group.strip_suffix(domain))?;
    let provider = within.strip_suffix('.')?;
    let is_namespaced = provider.rsplit('.').next() == Some("m") && kind != "ClusterProviderConfig";
    Some(if is_namespaced { Scope::Namespaced } else { Scope::Cluster })
}

/// The domains of the groups of Crossplane's providers.
const CROSSPLANE_PROVIDER_DOMAINS: [&str; 2] = ["upbound.io", "crossplane.io"];

/// Groups without cluster-scoped kinds.
const NAMESPACED_GROUPS: &str = "
    access.strimzi.io acme.cert-manager.io actions.github.com actions.summerwind.dev
    addons.cluster.x-k8s.io agent.k8s.elastic.co apm.k8s.elastic.co autoscaling.internal.knative.dev
    autoscaling.k8s.io batch.volcano.sh beat.k8s.elastic.co bitnami.com bootstrap.cluster.x-k8s.io
    bus.volcano.sh caching.internal.knative.dev ceph.rook.io cluster.x-k8s.io clusterctl.cluster.x-k8s.io
    config.gatekeeper.sh controlplane.cluster.x-k8s.io core.strimzi.io csi.ceph.io dragonflydb.io
    elasticsearch.k8s.elastic.co enterprisesearch.k8s.elastic.co eventing.knative.dev extensions.istio.io
    externaldns.k8s.io flink.apache.org flow.volcano.sh flows.knative.dev fluxcd.controlplane.io
    gateway.envoyproxy.io grafana.integreatly.org helm.toolkit.fluxcd.io image.toolkit.fluxcd.io
    infra.contrib.fluxcd.io ipam.cluster.x-k8s.io k8s.mariadb.com k8up.io kafka.strimzi.io
    kibana.k8s.elastic.co kustomize.toolkit.fluxcd.io linkerd.io logstash.k8s.elastic.co longhorn.io
    maps.k8s.elastic.co messaging.knative.dev metallb.io mongodbcommunity.mongodb.com
    monitoring.coreos.com multicluster.linkerd.io multicluster.x-k8s.io networking.istio.io
    notification.toolkit.fluxcd.io opentelemetry.io operator.victoriametrics.com policy.kruise.io
    policy.linkerd.io projectcontour.io ray.io redis.redis.opstreelabs.in resolution.tekton.dev
    secrets-store.csi.x-k8s.io secrets.hashicorp.com security.istio.io serving.knative.dev
    sinks.knative.dev source.extensions.fluxcd.io source.toolkit.fluxcd.io sources.knative.dev
    sparkoperator.k8s.io split.smi-spec.io status.gatekeeper.sh telemetry.istio.io traefik.containo.us
    traefik.io velero.io volsync.backube workload.linkerd.io
";

/// Groups without namespaced kinds.
const CLUSTER_SCOPED_GROUPS: &str = "
    apiextensions.crossplane.io constraints.gatekeeper.sh expansion.gatekeeper.sh externaldata.gatekeeper.sh
    karpenter.k8s.aws karpenter.sh migration.projectcalico.org mutations.gatekeeper.sh nodeinfo.volcano.sh
    operator.tekton.dev operator.tigera.io ops.crossplane.io pkg.crossplane.io runtime.cluster.x-k8s.io
    syncset.gatekeeper.sh templates.gatekeeper.sh topology.volcano.sh trust.cert-manager.io
";

/// Other groups, with their cluster-scoped kinds.
const MIXED_GROUPS: [(&str, &str); 31] = [
    ("apps.kruise.io", "NodeImage NodePodProbe ResourceDistribution SidecarSet"),
    ("argoproj.io", "ClusterAnalysisTemplate ClusterWorkflowTemplate"),
    ("cert-manager.io", "ClusterIssuer"),
    (
        "cilium.io",
        "CiliumBGPAdvertisement CiliumBGPClusterConfig CiliumBGPNodeConfig CiliumBGPNodeConfigOverride \
         CiliumBGPPeerConfig CiliumBGPPeeringPolicy CiliumCIDRGroup CiliumClusterwideEnvoyConfig \
         CiliumClusterwideNetworkPolicy CiliumEgressGatewayPolicy CiliumEndpointSlice CiliumExternalWorkload \
         CiliumIdentity CiliumL2AnnouncementPolicy CiliumLoadBalancerIPPool CiliumNode CiliumPodIPPool",
    ),
    ("core.oam.dev", "ResourceTracker"),
    (
        "crd.projectcalico.org",
        "BGPConfiguration BGPFilter BGPPeer BlockAffinity CalicoNodeStatus ClusterInformation \
         FelixConfiguration GlobalNetworkPolicy GlobalNetworkSet HostEndpoint IPAMBlock IPAMConfig IPAMHandle \
         IPPool IPReservation KubeControllersConfiguration StagedGlobalNetworkPolicy Tier",
    ),
    ("eventing.keda.sh", "ClusterCloudEventSource"),
    ("external-secrets.io", "ClusterExternalSecret ClusterPushSecret ClusterSecretStore"),
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("gateway.networking.x-k8s.io", "XMesh"),
    ("generators.external-secrets.io", "ClusterGenerator"),
    ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotClass VolumeGroupSnapshotContent"),
    (
        "infrastructure.cluster.x-k8s.io",
        "AWSClusterControllerIdentity AWSClusterRoleIdentity AWSClusterStaticIdentity",
    ),
    ("keda.sh", "ClusterTriggerAuthentication"),
    ("kubeflow.org", "Profile"),
    (
        "kueue.x-k8s.io",
        "AdmissionCheck ClusterQueue Cohort MultiKueueCluster MultiKueueConfig ProvisioningRequestConfig \
         ResourceFlavor Topology WorkloadPriorityClass",
    ),
    ("kyverno.io", "ClusterCleanupPolicy ClusterPolicy GlobalContextEntry"),
    ("networking.internal.knative.dev", "ClusterDomainClaim"),
    ("nfd.k8s-sigs.io", "NodeFeatureRule"),
    ("objectbucket.io", "ObjectBucket"),
    (
        "policies.kyverno.io",
        "DeletingPolicy GeneratingPolicy ImageValidatingPolicy MutatingPolicy ValidatingPolicy",
    ),
    ("postgresql.cnpg.io", "ClusterImageCatalog"),
    (
        "projectcalico.org",
        "BGPConfiguration BGPFilter BGPPeer BlockAffinity CalicoNodeStatus ClusterInformation \
         FelixConfiguration GlobalNetworkPolicy GlobalNetworkSet HostEndpoint IPAMBlock IPAMConfiguration \
         IPAMHandle IPPool IPReservation KubeControllersConfiguration StagedGlobalNetworkPolicy Tier",
    ),
    ("protection.crossplane.io", "ClusterUsage"),
    ("reports.kyverno.io", "ClusterEphemeralReport"),
    ("scheduling.volcano.sh", "Queue"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass VolumeSnapshotContent"),
    ("tekton.dev", "ClusterTask"),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
    ("triggers.tekton.dev", "ClusterInterceptor ClusterTriggerBinding"),
    ("wgpolicyk8s.io", "ClusterPolicyReport"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_stands_once_and_in_order() {
        let namespaced: Vec<&str> = NAMESPACED_GROUPS.split_whitespace().collect();
        let cluster: Vec<&str> = CLUSTER_SCOPED_GROUPS.split_whitespace().collect();
        let mixed: Vec<&str> = MIXED_GROUPS.iter().map(|(group, _)| *group).collect();
        for groups in [&namespaced, &cluster, &mixed] {
            assert!(groups.is_sorted(), "{groups:?}");
        }
        let mut all = [namespaced, cluster, mixed].concat();
        all.sort_unstable();
        let before = all.len();
        all.dedup();
        assert_eq!(all.len(), before);
    }

    #[test]
    fn cluster_scoped_kinds_are_known_beside_namespaced_ones() {
        for (group, kind, want) in [
            ("argoproj.io", "Rollout", Scope::Namespaced),
            ("argoproj.io", "ClusterWorkflowTemplate", Scope::Cluster),
            ("kyverno.io", "ClusterPolicy", Scope::Cluster),
            ("kyverno.io", "Policy", Scope::Namespaced),
            ("apps.kruise.io", "CloneSet", Scope::Namespaced),
            ("apps.kruise.io", "SidecarSet", Scope::Cluster),
            ("karpenter.sh", "NodePool", Scope::Cluster),
            ("constraints.gatekeeper.sh", "K8sRequiredLabels", Scope::Cluster),
            ("multicluster.x-k8s.io", "ServiceExport", Scope::Namespaced),
            ("tekton.dev", "ClusterTask", Scope::Cluster),
        ] {
            assert_eq!(find_scope(group, kind), Some(want), "{group} {kind}");
        }
    }

    #[test]
    fn managed_resources_of_providers_have_the_scope_of_their_group() {
        assert_eq!(usual_scope("rds.aws.crossplane.io", "DBCluster"), Some(Scope::Cluster));
        assert_eq!(usual_scope("kubernetes.m.crossplane.io", "Object"), Some(Scope::Namespaced));
        assert_eq!(usual_scope("upbound.io", "Thing"), None);
        assert_eq!(usual_scope("notupbound.io", "Thing"), None);
    }
}
