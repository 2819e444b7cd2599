//! Measures decisions: `cargo bench --bench plan`.
//!
//! One workload over 1,000 clusters for each way to divide replicas, with compiled policies; and reading a
//! repo of 1,000 objects.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails loudly")]

use std::sync::Arc;

use divan::{Bencher, black_box};
use federate_dialect::PreviousPlan;
use federate_dialects::DIALECTS;
use federate_repo::file_tree::{TreeEntry, TreeError};
use federate_repo::{Config, FileTree, RepoFile};
use federate_session::{Session, SessionOptions};

/// Objects consist of many small allocations, which all cores make and free.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

const CLUSTERS: usize = 1000;

const SCHEDULING: [(&str, &str); 4] = [
    ("duplicated", "{replicaSchedulingType: Duplicated}"),
    ("static weight", "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}"),
    (
        "dynamic weight",
        "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}",
    ),
    ("aggregated", "{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"),
];

fn file(path: String, text: &str) -> RepoFile {
    RepoFile { path: path.into(), bytes: Arc::from(text.as_bytes()) }
}

fn cluster(index: usize) -> RepoFile {
    let text = format!(
        "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c{index:04}}}\nspec: {{region: r{}}}\nstatus:\n  apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment}}]}}]\n  resourceSummary:\n    allocatable: {{pods: {}, cpu: {}, memory: {}Gi}}\n    allocated: {{pods: {}, cpu: {}}}\n",
        index % 7,
        1000 + index * 31 % 900,
        300 + index * 7 % 200,
        900 + index * 13 % 500,
        index % 300,
        index % 90
    );
    file(format!("clusters/{index}.yaml"), &text)
}

fn app(index: usize) -> RepoFile {
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a{index}, namespace: shop}}\nspec:\n  replicas: {}\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: {{containers: [{{name: c, image: nginx, resources: {{requests: {{cpu: 300m, memory: 1Gi}}}}}}]}}\n",
        2000 + index
    );
    file(format!("apps/{index}.yaml"), &text)
}

fn fleet(scheduling: &str, apps: usize) -> Session {
    let policy = format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec:\n  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}]\n  placement: {{replicaScheduling: {scheduling}}}\n"
    );
    let mut files: Vec<RepoFile> = (0..CLUSTERS).map(cluster).chain((0..apps).map(app)).collect();
    files.push(file("policy.yaml".to_owned(), &policy));
    Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS))
}

/// The only decision of a dialect, with compiled policies.
fn decide(bencher: Bencher<'_, '_>, dialect: &str, session: &Session) {
    assert!(!session.plan().placements[0].clusters.is_empty());
    let engine = session.build_engine();
    let plane = engine.find_planner(dialect).unwrap();
    let subject = plane.decision_subjects().remove(0).object;
    let previous = PreviousPlan::default();
    bencher.bench_local(|| black_box(plane.decide_placements(black_box(&subject), &previous)));
}

/// One decision: 2,000 replicas with requests over 1,000 clusters.
#[divan::bench(args = SCHEDULING.map(|(name, _)| name))]
fn one_decision(bencher: Bencher<'_, '_>, name: &str) {
    let scheduling = SCHEDULING.iter().find(|(known, _)| *known == name).unwrap().1;
    decide(bencher, "karmada", &fleet(scheduling, 1));
}

const KUBEADMIRAL: [(&str, &str); 4] = [
    ("duplicate", "{schedulingMode: Duplicate}"),
    ("static weights", "{schedulingMode: Divide, placement: [WEIGHTS]}"),
    ("dynamic weights", "{schedulingMode: Divide}"),
    ("binpack", "{schedulingMode: Divide, replicasStrategy: Binpack}"),
];

fn federated_cluster(index: usize) -> RepoFile {
    let text = format!(
        "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {{name: c{index:04}, labels: {{region: r{}}}}}\nstatus:\n  conditions: [{{type: Joined, status: \"True\"}}, {{type: Ready, status: \"True\"}}]\n  apiResourceTypes: [{{group: apps, version: v1, kind: Deployment, pluralName: deployments, scope: Namespaced}}]\n  resources:\n    allocatable: {{cpu: {}, memory: {}Gi}}\n    available: {{cpu: {}, memory: {}Gi}}\n",
        index % 7,
        300 + index * 7 % 200,
        900 + index * 13 % 500,
        index * 3 % 290,
        index * 11 % 880,
    );
    file(format!("clusters/{index}.yaml"), &text)
}

fn managed_cluster(index: usize) -> RepoFile {
    let (cpu, memory) = (300 + index * 7 % 200, 900 + index * 13 % 500);
    let taint = match index % 20 {
        3 => "{key: maintenance, effect: NoSelect, timeAdded: '2026-11-26T00:00:00Z'}",
        7 => "{key: maintenance, effect: NoSelect, timeAdded: '2026-11-25T00:00:00Z'}",
        11 => "{key: full, value: soon, effect: NoSelectIfNew}",
        _ => "",
    };
    let text = format!(
        "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {{name: c{index:04}, labels: {{region: r{}, tier: t{}}}}}\nspec: {{hubAcceptsClient: true, taints: [{taint}]}}\nstatus:\n  conditions: [{{type: ManagedClusterConditionAvailable, status: \"True\"}}]\n  clusterClaims: [{{name: platform.open-cluster-management.io, value: p{}}}, {{name: id.k8s.io, value: c{index:04}}}]\n  allocatable: {{cpu: {cpu}, memory: {memory}Gi}}\n  capacity: {{cpu: {cpu}, memory: {memory}Gi}}\n---\napiVersion: cluster.open-cluster-management.io/v1alpha1\nkind: AddOnPlacementScore\nmetadata: {{name: usage, namespace: c{index:04}}}\nstatus: {{validUntil: '2026-11-27T00:00:00Z', scores: [{{name: cpuRatio, value: {}}}, {{name: memRatio, value: 1}}]}}\n",
        index % 7,
        index % 4,
        index % 3,
        index * 17 % 201,
    );
    file(format!("clusters/{index}.yaml"), &text)
}

const OCM: [(&str, &str); 4] = [
    ("all", "{}"),
    ("number", "{numberOfClusters: 100}"),
    (
        "resources",
        "{numberOfClusters: 100, predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: region, operator: NotIn, values: [r1]}]}, claimSelector: {matchExpressions: [{key: platform.open-cluster-management.io, operator: In, values: [p0, p1]}]}}}], prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableMemory}}]}}",
    ),
    (
        "everything",
        "{numberOfClusters: 100, clusterSets: [global], tolerations: [{key: maintenance, operator: Exists, tolerationSeconds: 86400}, {key: full, value: soon}], predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: region, operator: NotIn, values: [r1]}]}, claimSelector: {matchExpressions: [{key: platform.open-cluster-management.io, operator: In, values: [p0, p1]}]}}}, {requiredClusterSelector: {labelSelector: {matchLabels: {tier: t0}}}}], prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: 3}, {scoreCoordinate: {builtIn: ResourceAllocatableMemory}, weight: 2}, {scoreCoordinate: {type: AddOn, addOn: {resourceName: usage, scoreName: cpuRatio}}}]}, decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 10%, decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {region: r3}}}}]}}}",
    ),
];

/// One decision of Open Cluster Management over 1,000 clusters, until another evaluation changes nothing; its earlier decision
/// is the memory.
#[divan::bench(args = OCM.map(|(name, _)| name))]
fn one_ocm_decision(bencher: Bencher<'_, '_>, name: &str) {
    let spec = OCM.iter().find(|(known, _)| *known == name).unwrap().1;
    let policies = format!(
        "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {{name: global, namespace: shop}}\nspec: {{clusterSet: global}}\n---\napiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: p, namespace: shop}}\nspec: {spec}\n"
    );
    let mut files: Vec<RepoFile> = (0..CLUSTERS).map(managed_cluster).collect();
    files.push(file("policies.yaml".to_owned(), &policies));
    let now = Some("2026-11-26T12:00:00Z".parse().unwrap());
    let options = SessionOptions::new(DIALECTS).with_now(now);
    let session = Session::from_files(files, Config::default(), options);
    assert!(!session.plan().placements[0].clusters.is_empty());
    let previous = PreviousPlan::new(session.plan().clone());
    let engine = session.build_engine();
    let plane = engine.find_planner("ocm").unwrap();
    bencher.bench_local(|| {
        black_box(plane.add_followers(federate_dialect::DialectDecisions::default(), &previous))
    });
}

/// One decision of KubeAdmiral: 2,000 replicas over 1,000 clusters.
#[divan::bench(args = KUBEADMIRAL.map(|(name, _)| name))]
fn one_kubeadmiral_decision(bencher: Bencher<'_, '_>, name: &str) {
    let spec = KUBEADMIRAL.iter().find(|(known, _)| *known == name).unwrap().1;
    let weight = |i: usize| format!("{{cluster: c{i:04}, preferences: {{weight: {}}}}}", 1 + i % 5);
    let spec = spec.replace("WEIGHTS", &(0..CLUSTERS).map(weight).collect::<Vec<_>>().join(", "));
    let policy = format!(
        "apiVersion: core.kubeadmiral.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec: {spec}\n"
    );
    let label = "labels: {kubeadmiral.io/propagation-policy-name: p}";
    let app = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, LABEL}\nspec:\n  replicas: 2000\n  template: {spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 300m}}}]}}\n";
    let mut files: Vec<RepoFile> = (0..CLUSTERS).map(federated_cluster).collect();
    files.push(file("policy.yaml".to_owned(), &policy));
    files.push(file("app.yaml".to_owned(), &app.replace("LABEL", label)));
    decide(
        bencher,
        "kubeadmiral",
        &Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS)),
    );
}

const FLEET: [(&str, &str); 3] = [
    ("pick all", "{placementType: PickAll}"),
    (
        "pick 10 by property",
        "{placementType: PickN, numberOfClusters: 10, affinity: {clusterAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 50, preference: {propertySorter: {name: resources.kubernetes-fleet.io/available-cpu, sortOrder: Descending}}}]}}}",
    ),
    (
        "spread 10 twice",
        "{placementType: PickN, numberOfClusters: 10, topologySpreadConstraints: [{topologyKey: region}, {topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
    ),
];

fn member_cluster(index: usize) -> RepoFile {
    let text = format!(
        "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: c{index:04}, labels: {{region: r{}, zone: z{}}}}}\nstatus:\n  resourceUsage: {{available: {{cpu: {}}}}}\n",
        index % 7,
        index % 60,
        index * 3 % 290,
    );
    file(format!("clusters/{index}.yaml"), &text)
}

/// One decision of KubeFleet over 1,000 clusters.
#[divan::bench(args = FLEET.map(|(name, _)| name))]
fn one_kubefleet_decision(bencher: Bencher<'_, '_>, name: &str) {
    let policy = FLEET.iter().find(|(known, _)| *known == name).unwrap().1;
    let placement = format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: p}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: shop}}]\n  policy: {policy}\n"
    );
    let mut files: Vec<RepoFile> = (0..CLUSTERS).map(member_cluster).collect();
    files.push(file("placement.yaml".to_owned(), &placement));
    decide(
        bencher,
        "kubefleet",
        &Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS)),
    );
}

/// Everything except reading files: compiles policies and decides about 1,000 workloads on 1,000 clusters.
#[divan::bench]
fn thousand_by_thousand(bencher: Bencher<'_, '_>) {
    let session = fleet(SCHEDULING[2].1, 1000);
    bencher.bench_local(|| session.build_engine().compute_plan());
}

/// Plans again after an edit of one template of 10,000, with 1,000 clusters.
#[divan::bench(sample_count = 20)]
fn one_edit_of_ten_thousand(bencher: Bencher<'_, '_>) {
    let mut session = fleet(SCHEDULING[2].1, 10_000);
    let mut turn = 0;
    bencher.bench_local(|| {
        turn += 1;
        session.update_files(&Edited(turn), &["apps/7.yaml".to_owned()]);
        black_box(session.plan().placements.len())
    });
}

/// A source that returns other replicas for one file each time.
struct Edited(usize);

impl FileTree for Edited {
    fn list_folder(&self, _: &str) -> Result<Vec<TreeEntry>, TreeError> {
        Err(TreeError::NotFound)
    }

    fn read_file(&self, _: &str) -> Result<Vec<u8>, TreeError> {
        let text = String::from_utf8_lossy(&app(7).bytes)
            .replace("replicas: 2007", &format!("replicas: {}", self.0));
        Ok(text.into_bytes())
    }
}
