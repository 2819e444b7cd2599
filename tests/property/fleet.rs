//! A small fleet: clusters, workloads, how they are divided, and an image that is another in region `r1`;
//! as the files of a repo in each dialect.

use std::sync::Arc;

use federate_repo::File;
use proptest::prelude::*;

/// The dialects that fleets are written in.
pub(crate) const DIALECTS: [&str; 4] = ["karmada", "kubeadmiral", "kubefed", "kubefleet"];

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
}

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) region: usize,
    pub(crate) pods: u32,
    pub(crate) tainted: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) replicas: u32,
    pub(crate) cpu: bool,
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

/// Any fleet in any dialect.
pub(crate) fn fleet() -> impl Strategy<Value = Fleet> {
    let cluster = (0usize..3, 0u32..40, prop::bool::weighted(0.2))
        .prop_map(|(region, pods, tainted)| Cluster { region, pods, tainted });
    let app = (0u32..30, any::<bool>()).prop_map(|(replicas, cpu)| App { replicas, cpu });
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
        })
}

impl Fleet {
    /// The repo.
    pub(crate) fn files(&self) -> Vec<File> {
        let clusters =
            (0..).zip(&self.clusters).map(|(i, c)| file(format!("clusters/{i}"), self.cluster(i, c)));
        let apps = (0..).zip(&self.apps).map(|(i, a)| file(format!("apps/{i}"), self.app(i, a)));
        let mut files: Vec<File> = clusters.chain(apps).collect();
        files.push(policies(self));
        files
    }

    /// Whether the replicas are divided, and not given to every cluster.
    pub(crate) fn divides(&self) -> bool {
        self.scheduling > 0 && self.dialect != "kubefleet"
    }

    fn cluster(&self, index: usize, cluster: &Cluster) -> String {
        let Cluster { region, pods, tainted } = cluster;
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
                let labels =
                    "kubeadmiral.io/propagation-policy-name: p, kubeadmiral.io/override-policy-name: o";
                format!(
                    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{{named}, labels: {{{labels}}}}}\nspec: {spec}\n"
                )
            }
            "kubefed" => self.federated(&named, &spec, app),
            _ => format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{{named}}}\nspec: {spec}\n"),
        }
    }

    /// A federated Deployment, and who divides its replicas.
    fn federated(&self, named: &str, spec: &str, app: &App) -> String {
        let other = (0..).zip(&self.clusters).filter(|(_, c)| c.region == 1).map(|(index, _): (usize, _)| {
            format!("{{clusterName: c{index:02}, clusterOverrides: [{{path: /spec/template/spec/containers/0/image, value: {REGISTRY}/nginx}}]}}")
        });
        let overrides: Vec<String> = other.collect();
        let mut text = format!(
            "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedDeployment\nmetadata: {{{named}}}\nspec:\n  template: {{spec: {spec}}}\n  placement: {{clusterSelector: {{}}}}\n  overrides: [{}]\n",
            overrides.join(", ")
        );
        if self.divides() {
            let weights = ["", "'*': {weight: 1}", "'*': {weight: 1}, c00: {weight: 3}", "c00: {weight: 1}"];
            text.push_str(&format!(
                "---\napiVersion: scheduling.kubefed.io/v1alpha1\nkind: ReplicaSchedulingPreference\nmetadata: {{{named}}}\nspec: {{targetKind: FederatedDeployment, totalReplicas: {}, clusters: {{{}}}}}\n",
                app.replicas, weights[self.scheduling]
            ));
        }
        text
    }
}

/// The policies, as one file.
fn policies(fleet: &Fleet) -> File {
    let tolerations = if fleet.tolerates { "[{operator: Exists}]" } else { "[]" };
    let text = match fleet.dialect {
        "karmada" => format!(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec:\n  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}]\n  placement:\n    clusterTolerations: {tolerations}\n    replicaScheduling: {}\n---\napiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: o, namespace: shop}}\nspec:\n  overrideRules:\n  - targetCluster: {{fieldSelector: {{matchExpressions: [{{key: region, operator: In, values: [r1]}}]}}}}\n    overriders: {{imageOverrider: [{{component: Registry, operator: replace, value: {REGISTRY}}}]}}\n",
            KARMADA[fleet.scheduling]
        ),
        "kubeadmiral" => {
            let mode = if fleet.divides() { "Divide" } else { "Duplicate" };
            let weighed = (0..fleet.clusters.len())
                .map(|i| format!("{{cluster: c{i:02}, preferences: {{weight: {}}}}}", 1 + i % fleet.scheduling.max(1)));
            let weighed: Vec<String> = weighed.filter(|_| fleet.divides()).collect();
            format!(
                "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec: {{schedulingMode: {mode}, tolerations: {tolerations}, placement: [{}]}}\n---\napiVersion: core.kubeadmiral.io/v1alpha1\nkind: OverridePolicy\nmetadata: {{name: o, namespace: shop}}\nspec:\n  overrideRules:\n  - targetClusters: {{clusterSelector: {{region: r1}}}}\n    overriders: {{jsonpatch: [{{operator: replace, path: /spec/template/spec/containers/0/image, value: {REGISTRY}/nginx}}]}}\n",
                weighed.join(", ")
            )
        }
        "kubefed" => "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedNamespace\nmetadata: {name: shop, namespace: shop}\nspec: {placement: {clusterSelector: {}}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n".to_owned(),
        _ => {
            let policy = KUBEFLEET[fleet.scheduling];
            let apps: Vec<String> = (0..fleet.apps.len())
                .map(|i| format!("{{group: apps, version: v1, kind: Deployment, name: a{i}}}"))
                .collect();
            format!(
                "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: p}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}]\n  policy: {{{policy}, tolerations: {tolerations}}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: shop}}\n---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {{name: o, namespace: shop}}\nspec:\n  resourceSelectors: [{}]\n  policy:\n    overrideRules:\n    - clusterSelector: {{clusterSelectorTerms: [{{labelSelector: {{matchLabels: {{region: r1}}}}}}]}}\n      jsonPatchOverrides: [{{op: replace, path: /spec/template/spec/containers/0/image, value: {REGISTRY}/nginx}}]\n",
                apps.join(", ")
            )
        }
    };
    file("policy".to_owned(), text)
}

#[expect(clippy::needless_pass_by_value, reason = "its callers make the path for it")]
fn file(path: String, text: String) -> File {
    File { path: format!("{path}.yaml").into(), bytes: Arc::from(text.into_bytes()) }
}
