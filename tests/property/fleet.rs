//! A small fleet: clusters, workloads, how they are divided, and an image that is another in region `r1`;
//! as the files of a repo in each dialect. And what people change in one.

use std::sync::Arc;

use federate_repo::RepoFile;
use proptest::prelude::*;

/// The dialects that fleets are written in.
pub(crate) const DIALECTS: [&str; 5] = ["karmada", "kubeadmiral", "kubefed", "kubefleet", "ocm"];

/// What every workload's image is in region `r1`.
pub(crate) const REGISTRY: &str = "r1.example.com";

/// A small fleet.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) dialect: &'static str,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) apps: Vec<App>,
    /// Which of the dialect's ways to divide is used; 0 gives every cluster all replicas.
    pub(crate) scheduling: usize,
    pub(crate) tolerates: bool,
    /// Whether the policy is there: what decides about the workloads, or divides them.
    pub(crate) has_policy: bool,
    /// Whether the policy states what it would have by default.
    pub(crate) states_defaults: bool,
    /// Whether the override cannot be applied.
    pub(crate) override_fails: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) region: usize,
    pub(crate) pods: u32,
    pub(crate) tainted: bool,
    /// Whether it has left the inventory. The others keep their names.
    pub(crate) has_left: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) replicas: u32,
    pub(crate) cpu: bool,
    /// Whether its labels are not those that the policy selects.
    pub(crate) is_relabelled: bool,
}

/// What people change in a repo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A cluster leaves the inventory.
    RemoveCluster,
    /// A cluster has the labels of another region.
    RelabelCluster,
    /// The policy goes.
    RemovePolicy,
    /// A default of the policy is written out.
    StateDefaults,
    /// A workload loses the labels by which its policy finds it.
    RelabelApp,
    /// The override cannot be applied any more.
    FailOverride,
}

impl Change {
    pub(crate) const ALL: [Self; 6] = [
        Self::RemoveCluster,
        Self::RelabelCluster,
        Self::RemovePolicy,
        Self::StateDefaults,
        Self::RelabelApp,
        Self::FailOverride,
    ];
}

const KARMADA: [&str; 4] = [
    "{replicaSchedulingType: Duplicated}",
    "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [{targetCluster: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [r0]}]}}, weight: 2}, {targetCluster: {}, weight: 1}]}}",
    "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}",
    "{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}",
];

const KUBEFLEET: [&str; 4] = [
    "placementType: PickAll",
    "placementType: PickN, numberOfClusters: 3",
    "placementType: PickN, numberOfClusters: 2, topologySpreadConstraints: [{maxSkew: 1, topologyKey: region}]",
    "placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {region: r1}}}]}}}",
];

/// How many clusters outside of region `r1` Open Cluster Management selects, and by which scores.
const OCM: [&str; 4] = [
    "",
    "numberOfClusters: 3, ",
    "numberOfClusters: 2, prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableCPU}}]}, ",
    "numberOfClusters: 2, prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: -1}]}, ",
];

/// Any fleet in any dialect.
pub(crate) fn fleet() -> impl Strategy<Value = Fleet> {
    let cluster = (0usize..3, 0u32..40, prop::bool::weighted(0.2))
        .prop_map(|(region, pods, tainted)| Cluster { region, pods, tainted, has_left: false });
    let app =
        (0u32..30, any::<bool>()).prop_map(|(replicas, cpu)| App { replicas, cpu, is_relabelled: false });
    (
        prop::sample::select(&DIALECTS[..]),
        prop::collection::vec(cluster, 1..20),
        prop::collection::vec(app, 1..6),
        0usize..4,
        any::<bool>(),
    )
        .prop_map(|(dialect, clusters, apps, scheduling, tolerates)| Fleet {
            dialect,
            clusters,
            apps,
            scheduling,
            tolerates,
            has_policy: true,
            states_defaults: false,
            override_fails: false,
        })
}

impl Fleet {
    /// The repo.
    pub(crate) fn files(&self) -> Vec<RepoFile> {
        let clusters = (0..)
            .zip(&self.clusters)
            .filter(|(_, c)| !c.has_left)
            .map(|(i, c)| file(format!("clusters/{i}"), self.cluster(i, c)));
        let apps = (0..).zip(&self.apps).map(|(i, a)| file(format!("apps/{i}"), self.app(i, a)));
        let mut files: Vec<RepoFile> = clusters.chain(apps).collect();
        files.push(policies(self));
        files
    }

    /// The fleet after a change; `at` chooses what it is about.
    pub(crate) fn changed(&self, change: Change, at: usize) -> Self {
        let mut fleet = self.clone();
        let (cluster, app) = (at % fleet.clusters.len(), at % fleet.apps.len());
        match change {
            Change::RemoveCluster => fleet.clusters[cluster].has_left = true,
            Change::RelabelCluster => {
                fleet.clusters[cluster].region = (self.clusters[cluster].region + 1) % 3;
            }
            Change::RemovePolicy => fleet.has_policy = false,
            Change::StateDefaults => fleet.states_defaults = true,
            Change::RelabelApp => fleet.apps[app].is_relabelled = true,
            Change::FailOverride => fleet.override_fails = true,
        }
        fleet
    }

    /// Whether the replicas are divided, and not given to every cluster.
    pub(crate) fn divides(&self) -> bool {
        self.scheduling > 0 && !["kubefleet", "ocm"].contains(&self.dialect)
    }

    fn cluster(&self, index: usize, cluster: &Cluster) -> String {
        let Cluster { region, pods, tainted, .. } = cluster;
        let metadata = format!("name: c{index:02}, labels: {{region: r{region}}}");
        let taints = if *tainted { "[{key: t, effect: NoSchedule}]" } else { "[]" };
        match self.dialect {
            "karmada" => format!(
                "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{{metadata}}}\nspec: {{region: r{region}, taints: {taints}}}\nstatus:\n  apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment}}]}}]\n  resourceSummary: {{allocatable: {{pods: {pods}, cpu: 4}}}}\n"
            ),
            "kubeadmiral" => format!(
                "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {{{metadata}}}\nspec: {{taints: {taints}}}\n"
            ),
            "kubefed" => format!(
                "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {{{metadata}, namespace: kube-federation-system}}\n"
            ),
            "ocm" => format!(
                "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {{{metadata}}}\nspec: {{hubAcceptsClient: true, taints: {}}}\nstatus:\n  allocatable: {{cpu: {pods}}}\n  capacity: {{cpu: {pods}}}\n  conditions: [{{type: ManagedClusterConditionAvailable, status: \"True\"}}]\n",
                taints.replace("NoSchedule", "NoSelect")
            ),
            _ => format!(
                "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{{metadata}}}\nspec: {{taints: {taints}}}\n"
            ),
        }
    }

    fn app(&self, index: usize, app: &App) -> String {
        let resources = if app.cpu { "{requests: {cpu: 300m}}" } else { "{}" };
        let spec = format!(
            "{{replicas: {}, selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: nginx, resources: {resources}}}]}}}}}}",
            app.replicas
        );
        let named = format!("name: a{index}, namespace: shop");
        match self.dialect {
            "kubeadmiral" => {
                let policy =
                    if app.is_relabelled { "" } else { "kubeadmiral.io/propagation-policy-name: p, " };
                let labels = format!("{policy}kubeadmiral.io/override-policy-name: o");
                format!(
                    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{{named}, labels: {{{labels}}}}}\nspec: {spec}\n"
                )
            }
            "kubefed" => self.federated(&named, &spec, app),
            "ocm" => works(&named, &spec, app),
            _ => {
                let tier = if app.is_relabelled { "db" } else { "web" };
                format!(
                    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{{named}, labels: {{tier: {tier}}}}}\nspec: {spec}\n"
                )
            }
        }
    }

    /// What an override replaces in the templates.
    fn overridden(&self) -> &'static str {
        if self.override_fails {
            "/spec/template/spec/containers/7/image"
        } else {
            "/spec/template/spec/containers/0/image"
        }
    }

    /// A federated Deployment, and who divides its replicas.
    fn federated(&self, named: &str, spec: &str, app: &App) -> String {
        let other = (0..).zip(&self.clusters).filter(|(_, c)| c.region == 1).map(|(index, _): (usize, _)| {
            format!(
                "{{clusterName: c{index:02}, clusterOverrides: [{{path: {}, value: {REGISTRY}/nginx}}]}}",
                self.overridden()
            )
        });
        let overrides: Vec<String> = other.collect();
        let mut text = format!(
            "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedDeployment\nmetadata: {{{named}}}\nspec:\n  template: {{spec: {spec}}}\n  placement: {{clusterSelector: {{}}}}\n  overrides: [{}]\n",
            overrides.join(", ")
        );
        if self.divides() && self.has_policy {
            let defaults = if self.states_defaults { "rebalance: false, " } else { "" };
            let weights = ["", "'*': {weight: 1}", "'*': {weight: 1}, c00: {weight: 3}", "c00: {weight: 1}"];
            text.push_str(&format!(
                "---\napiVersion: scheduling.kubefed.io/v1alpha1\nkind: ReplicaSchedulingPreference\nmetadata: {{{named}}}\nspec: {{{defaults}targetKind: FederatedDeployment, totalReplicas: {}, clusters: {{{}}}}}\n",
                app.replicas, weights[self.scheduling]
            ));
        }
        text
    }
}

/// Two sets of works: one for region `r1`, with another image, and one for the others.
fn works(named: &str, spec: &str, app: &App) -> String {
    let set = |suffix: &str, placement: &str, spec: &str| {
        let placement = if app.is_relabelled { "missing" } else { placement };
        format!(
            "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata: {{{}}}\nspec:\n  placementRefs: [{{name: {placement}}}]\n  manifestWorkTemplate: {{workload: {{manifests: [{{apiVersion: apps/v1, kind: Deployment, metadata: {{{named}}}, spec: {spec}}}]}}}}\n",
            named.replacen(',', &format!("{suffix},"), 1)
        )
    };
    let other = spec.replace("image: nginx", &format!("image: {REGISTRY}/nginx"));
    set("", "p", spec) + "---\n" + &set("-r1", "p-r1", &other)
}

/// The policies and overrides, as one file.
fn policies(fleet: &Fleet) -> RepoFile {
    let tolerations = if fleet.tolerates { "[{operator: Exists}]" } else { "[]" };
    let path = fleet.overridden();
    let stated = |defaults: &'static str| if fleet.states_defaults { defaults } else { "" };
    let (policy, rest) = match fleet.dialect {
        "karmada" => {
            let overrider = if fleet.override_fails {
                format!("plaintext: [{{path: {path}, operator: replace, value: {REGISTRY}/nginx}}]")
            } else {
                format!("imageOverrider: [{{component: Registry, operator: replace, value: {REGISTRY}}}]")
            };
            (
                format!(
                    "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec:\n  {}resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, labelSelector: {{matchLabels: {{tier: web}}}}}}]\n  placement:\n    clusterTolerations: {tolerations}\n    replicaScheduling: {}\n",
                    stated("priority: 0\n  propagateDeps: false\n  conflictResolution: Abort\n  schedulerName: default-scheduler\n  "),
                    KARMADA[fleet.scheduling]
                ),
                format!(
                    "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: o, namespace: shop}}\nspec:\n  overrideRules:\n  - targetCluster: {{fieldSelector: {{matchExpressions: [{{key: region, operator: In, values: [r1]}}]}}}}\n    overriders: {{{overrider}}}\n"
                ),
            )
        }
        "kubeadmiral" => {
            let mode = if fleet.divides() { "Divide" } else { "Duplicate" };
            let weighed = (0..fleet.clusters.len())
                .map(|i| format!("{{cluster: c{i:02}, preferences: {{weight: {}}}}}", 1 + i % fleet.scheduling.max(1)));
            let weighed: Vec<String> = weighed.filter(|_| fleet.divides()).collect();
            (
                format!(
                    "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec: {{{}schedulingMode: {mode}, tolerations: {tolerations}, placement: [{}]}}\n",
                    stated("disableFollowerScheduling: false, "),
                    weighed.join(", ")
                ),
                format!(
                    "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: o, namespace: shop}}\nspec:\n  overrideRules:\n  - targetClusters: {{clusterSelector: {{region: r1}}}}\n    overriders: {{jsonpatch: [{{operator: replace, path: {path}, value: {REGISTRY}/nginx}}]}}\n"
                ),
            )
        }
        "ocm" => {
            let placement = |name: &str, operator: &str, rest: &str| {
                format!(
                    "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{{rest}{}tolerations: {tolerations}, predicates: [{{requiredClusterSelector: {{labelSelector: {{matchExpressions: [{{key: region, operator: {operator}, values: [r1]}}]}}}}}}]}}\n",
                    stated("decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 100%}}, "),
                )
            };
            let others = OCM[fleet.scheduling];
            (
                // The last of them shares clusters with the first.
                [placement("p", "NotIn", others), placement("p-r1", "In", ""), placement("q", "NotIn", "numberOfClusters: 2, ")]
                    .join("---\n"),
                "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {name: global, namespace: shop}\nspec: {clusterSet: global}\n".to_owned(),
            )
        }
        "kubefed" => (
            String::new(),
            "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedNamespace\nmetadata: {name: shop, namespace: shop}\nspec: {placement: {clusterSelector: {}}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n".to_owned(),
        ),
        _ => {
            let policy = KUBEFLEET[fleet.scheduling];
            let apps: Vec<String> = (0..fleet.apps.len())
                .map(|i| format!("{{group: apps, version: v1, kind: Deployment, name: a{i}}}"))
                .collect();
            (
                format!(
                    "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: p}}\nspec:\n  {}resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}]\n  policy: {{{policy}, tolerations: {tolerations}}}\n",
                    stated("revisionHistoryLimit: 10\n  "),
                ),
                format!(
                    "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop}}\n---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {{name: o, namespace: shop}}\nspec:\n  resourceSelectors: [{}]\n  policy:\n    overrideRules:\n    - clusterSelector: {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{region: r1}}}}}}]}}\n      jsonPatchOverrides: [{{op: replace, path: {path}, value: {REGISTRY}/nginx}}]\n",
                    apps.join(", ")
                ),
            )
        }
    };
    let policy = Some(policy).filter(|policy| fleet.has_policy && !policy.is_empty());
    file("policy".to_owned(), policy.into_iter().chain([rest]).collect::<Vec<_>>().join("---\n"))
}

#[expect(clippy::needless_pass_by_value, reason = "its callers make the path for it")]
fn file(path: String, text: String) -> RepoFile {
    RepoFile { path: format!("{path}.yaml").into(), bytes: Arc::from(text.into_bytes()) }
}
