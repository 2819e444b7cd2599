//! A scenario decides again only what it touches. The outcome is the same as if it decided everything again: over random
//! events, in every dialect.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use federate_dialects::DIALECTS;
use federate_repo::{Config, RepoFile};
use federate_session::{Session, SessionOptions};
use federate_whatif::{ClusterMatcher, FailureDomain, Scenario, ScenarioEvent, TimelineOptions};
use proptest::prelude::*;

fn file(path: &str, text: String) -> RepoFile {
    RepoFile { path: path.into(), bytes: text.into_bytes().into() }
}

/// The files of an example.
fn example(name: &str) -> Vec<RepoFile> {
    fn add(files: &mut Vec<RepoFile>, root: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                add(files, root, &entry);
            } else if entry.extension().is_some_and(|extension| extension == "yaml") {
                let path = entry.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                files.push(file(&path, fs::read_to_string(&entry).unwrap()));
            }
        }
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    let mut files = Vec::new();
    add(&mut files, &root, &root);
    files.retain(|file| file.path.as_ref() != "federate.yaml");
    files
}

/// A Karmada repo with every strategy, in which many templates are alike.
fn fleet() -> Vec<RepoFile> {
    let mut text = String::new();
    for (at, free) in [90, 14, 40, 25, 60].into_iter().enumerate() {
        let _ = write!(
            text,
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c{at}, labels: {{tier: t{}}}}}\n\
             spec: {{region: r{}}}\nstatus:\n  conditions: [{{type: Ready, status: 'True'}}]\n  \
             apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment}}]}}, {{groupVersion: v1, resources: [{{kind: ConfigMap}}]}}]\n  \
             resourceSummary: {{allocatable: {{pods: 500, cpu: {free}, memory: 900Gi}}}}\n",
            at % 3,
            at % 2
        );
    }
    let strategies = [
        ("duplicated", "{replicaSchedulingType: Duplicated}"),
        (
            "dynamic",
            "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}",
        ),
        ("aggregated", "{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"),
        (
            "static",
            "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [c0, c1]}, weight: 2}, {targetCluster: {clusterNames: [c2]}, weight: 1}]}}",
        ),
    ];
    for (name, strategy) in strategies {
        let affinity = if name == "dynamic" {
            "clusterAffinity: {labelSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [t2]}]}}"
        } else {
            "clusterTolerations: [{key: a, operator: Exists, tolerationSeconds: 60}]"
        };
        let _ = write!(
            text,
            "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  \
             resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, labelSelector: {{matchLabels: {{by: {name}}}}}}}, {{apiVersion: v1, kind: ConfigMap, labelSelector: {{matchLabels: {{by: {name}}}}}}}]\n  \
             placement: {{{affinity}, replicaScheduling: {strategy}}}\n"
        );
        for number in 0..6 {
            let _ = write!(
                text,
                "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}-{number}, namespace: shop, labels: {{by: {name}}}}}\n\
                 spec:\n  replicas: {}\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    \
                 spec: {{containers: [{{name: c, image: nginx, resources: {{requests: {{cpu: {}00m}}}}}}]}}\n",
                2 + number / 2 * 7,
                1 + number / 3
            );
        }
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop, labels: {{by: {name}}}}}\n"
        );
    }
    text.push_str("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: nobody, namespace: shop}\n");
    text.push_str("---\napiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {name: down}\nspec:\n  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ['True']}]\n  taints: [{key: down, effect: NoExecute}]\n");
    vec![file("all.yaml", text)]
}

/// A KubeAdmiral repo that migrates replicas between clusters that are almost full.
fn full() -> Vec<RepoFile> {
    let mut text = String::new();
    for (at, free) in [3, 1, 6, 2].into_iter().enumerate() {
        let _ = write!(
            text,
            "---\napiVersion: core.kubeadmiral.io/v1alpha1\nkind: FederatedCluster\nmetadata: {{name: c{at}, labels: {{tier: t{at}}}}}\n\
             status:\n  conditions: [{{type: Joined, status: 'True'}}, {{type: Ready, status: 'True'}}]\n  \
             apiResourceTypes: [{{group: apps, version: v1, kind: Deployment, pluralName: deployments, scope: Namespaced}}]\n  \
             resources: {{allocatable: {{cpu: 20}}, available: {{cpu: {free}}}}}\n"
        );
    }
    for (name, avoid, strategy) in [("a", true, "Spread"), ("b", false, "Spread"), ("c", true, "Binpack")] {
        let _ = write!(
            text,
            "---\napiVersion: core.kubeadmiral.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  \
             schedulingMode: Divide\n  replicasStrategy: {strategy}\n  autoMigration: {{when: {{podUnschedulableFor: 30s}}}}\n  \
             reschedulePolicy: {{replicaRescheduling: {{avoidDisruption: {avoid}}}}}\n"
        );
        for number in 0..3 {
            let _ = write!(
                text,
                "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}-{number}, namespace: shop, labels: \
                 {{kubeadmiral.io/propagation-policy-name: {name}}}}}\nspec:\n  replicas: {}\n  \
                 selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    \
                 spec: {{containers: [{{name: c, image: nginx, resources: {{requests: {{cpu: 1}}}}}}]}}\n",
                2 + number * 3
            );
        }
    }
    vec![file("all.yaml", text)]
}

const EXAMPLES: [&str; 5] = ["repo", "kubeadmiral", "kubefed", "kubefleet", "ocm"];

fn session(which: usize) -> Session {
    let files = match EXAMPLES.get(which) {
        Some(name) => example(name),
        None if which == EXAMPLES.len() => full(),
        None => fleet(),
    };
    Session::from_files(files, Config::default(), SessionOptions::new(DIALECTS))
}

/// An event, with the index of a cluster or of a workload.
fn event() -> impl Strategy<Value = (u8, prop::sample::Index)> {
    (0..8u8, any::<prop::sample::Index>())
}

fn made(session: &Session, (kind, index): (u8, prop::sample::Index)) -> Option<ScenarioEvent> {
    let clusters = session.clusters();
    let name = clusters.get(index.index(clusters.len()))?.name.to_string();
    let workloads: Vec<String> = (session.repo().templates.iter())
        .filter(|template| template.object.value_at(&["spec", "replicas"]).is_some())
        .map(|t| {
            format!(
                "{}/{}/{}",
                t.object.id.kind,
                t.object.id.namespace.clone().unwrap_or_default(),
                t.object.id.name
            )
        })
        .collect();
    match kind {
        0 | 1 => Some(ScenarioEvent::Lose(ClusterMatcher::Named(name))),
        2 => Some(ScenarioEvent::Remove(ClusterMatcher::Named(name))),
        3 => ScenarioEvent::parse_taint(&format!("{name}=a:NoExecute"), DIALECTS).ok(),
        4 => ScenarioEvent::parse_taint(&format!("{name}=b:NoSchedule"), DIALECTS).ok(),
        5 => ScenarioEvent::parse_label(&format!("{name}=tier=t2")).ok(),
        6 => ScenarioEvent::parse_capacity(&format!("{name}=10%"))
            .ok()
            .filter(|_| clusters.iter().all(|c| c.capacity.is_some())),
        _ => {
            ScenarioEvent::parse_scale(&format!("{}=+3", workloads.get(index.index(workloads.len().max(1)))?))
                .ok()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_a_scenario_does_not_touch_would_be_decided_the_same_again(
        which in 0..EXAMPLES.len() + 5,
        failover in any::<bool>(),
        late in any::<bool>(),
        events in prop::collection::vec(event(), 1..4),
    ) {
        let session = session(which);
        let at = late.then(|| "2030-01-01T00:00:00Z".parse().unwrap());
        let options = TimelineOptions { failover, at, ..TimelineOptions::default() };
        let events = events.into_iter().filter_map(|event| made(&session, event)).collect();
        let scenario = Scenario { events };
        let few = session.what_if().with_options(options).run_scenario(&scenario);
        let all = session.what_if().with_options(TimelineOptions { anew: true, ..options }).run_scenario(&scenario);
        prop_assert_eq!(few, all);
    }
}

#[test]
fn each_loss_is_the_loss_alone() {
    for which in 0..EXAMPLES.len() + 2 {
        let session = session(which);
        let what_if = session.what_if();
        for unit in what_if.run_each_unit(FailureDomain::Cluster, false, &Scenario::default()).unwrap() {
            let lose = ScenarioEvent::Lose(ClusterMatcher::Named(unit.name.clone()));
            let alone = session.what_if().run_scenario(&Scenario { events: vec![lose] }).unwrap();
            assert_eq!(unit.outcome, alone, "{}", unit.name);
        }
    }
}
