//! Measures scenarios: `cargo bench --bench whatif`.
//!
//! 10,000 workloads over 100 clusters, divided by free resources: the loss of one cluster, with and without failover, and
//! the loss of each cluster in turn.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails loudly")]

use std::sync::Arc;

use divan::{Bencher, black_box};
use federate_dialects::DIALECTS;
use federate_repo::{Config, RepoFile};
use federate_session::{Session, SessionOptions};
use federate_whatif::{ClusterMatcher, FailureDomain, Scenario, ScenarioEvent, TimelineOptions};

/// Objects consist of many small allocations, which all cores make and free.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

const CLUSTERS: usize = 100;
const WORKLOADS: usize = 10_000;

fn file(path: String, text: &str) -> RepoFile {
    RepoFile { path: path.into(), bytes: Arc::from(text.as_bytes()) }
}

fn cluster(index: usize) -> RepoFile {
    let text = format!(
        "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c{index:03}}}\nspec: {{region: r{}}}\nstatus:\n  apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment}}]}}]\n  resourceSummary: {{allocatable: {{pods: 20000, cpu: {}, memory: 9000Gi}}}}\n",
        index % 7,
        3000 + index * 31 % 900
    );
    file(format!("clusters/{index}.yaml"), &text)
}

fn app(index: usize) -> RepoFile {
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a{index}, namespace: shop}}\nspec:\n  replicas: {}\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: {{containers: [{{name: c, image: nginx, resources: {{requests: {{cpu: 300m, memory: 1Gi}}}}}}]}}\n",
        3 + index % 40
    );
    file(format!("apps/{index}.yaml"), &text)
}

fn fleet() -> Session {
    let policy = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: shop}\nspec:\n  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n  placement:\n    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}\n";
    let taint = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {name: down}\nspec:\n  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: [\"True\"]}]\n  taints: [{key: down, effect: NoExecute}]\n";
    let mut files: Vec<RepoFile> = (0..CLUSTERS).map(cluster).chain((0..WORKLOADS).map(app)).collect();
    files.push(file("policy.yaml".to_owned(), policy));
    files.push(file("taint.yaml".to_owned(), taint));
    let session = Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS));
    assert_eq!(session.plan().placements.len(), WORKLOADS);
    session
}

fn lose(name: &str) -> Scenario {
    Scenario { events: vec![ScenarioEvent::Lose(ClusterMatcher::Named(name.to_owned()))] }
}

#[divan::bench(args = [false, true])]
fn one_cluster_is_lost(bencher: Bencher<'_, '_>, failover: bool) {
    let session = fleet();
    let what_if = session.what_if().with_options(TimelineOptions { failover, ..TimelineOptions::default() });
    bencher.bench_local(|| black_box(what_if.run_scenario(&lose("c007")).unwrap()));
}

#[divan::bench(sample_count = 3)]
fn each_cluster_is_lost(bencher: Bencher<'_, '_>) {
    let session = fleet();
    let what_if = session.what_if();
    bencher.bench_local(|| {
        black_box(what_if.run_each_unit(FailureDomain::Cluster, false, &Scenario::default()).unwrap().len())
    });
}
