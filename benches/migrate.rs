//! Measures a migration with its proof against two renderings: `cargo bench --bench migrate`.
//!
//! 1,000 federated Deployments of KubeFed over 100 clusters, with overrides, preferences and selectors, are migrated to
//! Karmada and proved once. That takes at most three times as long as rendering both sides.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints its figures, and fails loudly"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use federate_dialects::DIALECTS;
use federate_engine::change::DigestKey;
use federate_migrate::{MigratedTree, Mode, ProofSides, Target, Verdict, migrate_repo, prove_migration};
use federate_repo::FileTree;
use federate_repo::file_tree::{EntryKind, TreeEntry, TreeError};
use federate_session::{Session, SessionOptions};

/// Objects consist of many small allocations, which all cores make and free.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLUSTERS: usize = 100;
const WORKLOADS: usize = 1000;

/// The largest ratio of a migration with its proof to two renderings.
const MAX_RATIO: f64 = 3.0;

/// The rounds, of which the fastest counts.
const ROUNDS: usize = 3;

/// A folder of files in memory.
struct Files(Vec<(String, Arc<[u8]>)>);

impl FileTree for Files {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        if !folder.is_empty() {
            return Err(TreeError::NotFound);
        }
        let entry = |(name, _): &(String, Arc<[u8]>)| TreeEntry { name: name.clone(), kind: EntryKind::File };
        Ok(self.0.iter().map(entry).collect())
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        let at = self.0.binary_search_by(|(name, _)| name.as_str().cmp(path));
        at.map(|at| self.0[at].1.to_vec()).map_err(|_| TreeError::NotFound)
    }
}

fn fleet() -> Files {
    let mut files: Vec<(String, Arc<[u8]>)> = Vec::new();
    let mut add = |name: String, text: String| files.push((name, text.into_bytes().into()));
    for index in 0..CLUSTERS {
        add(
            format!("cluster-{index:04}.yaml"),
            format!(
                "apiVersion: core.kubefed.io/v1beta1\nkind: KubeFedCluster\nmetadata: {{name: c{index:03}, namespace: kube-federation-system, labels: {{tier: t{}}}}}\n",
                index % 4
            ),
        );
    }
    add(
        "namespace.yaml".to_owned(),
        "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedNamespace\nmetadata: {name: shop, namespace: shop}\nspec: {placement: {clusterSelector: {}}}\n"
            .to_owned(),
    );
    for index in 0..WORKLOADS {
        let mut text = format!(
            "apiVersion: types.kubefed.io/v1beta1\nkind: FederatedDeployment\nmetadata: {{name: a{index:04}, namespace: shop}}\nspec:\n  template:\n    spec:\n      replicas: {}\n      selector: {{matchLabels: {{a: b}}}}\n      template:\n        metadata: {{labels: {{a: b}}}}\n        spec: {{containers: [{{name: c, image: nginx, env: [{{name: A, value: b}}]}}]}}\n  placement: {{clusterSelector: {{matchLabels: {{tier: t{}}}}}}}\n",
            1 + index % 9,
            index % 4
        );
        if index % 3 == 0 {
            text += &format!(
                "  overrides: [{{clusterName: c{:03}, clusterOverrides: [{{path: /spec/template/spec/containers/0/image, value: other}}]}}]\n",
                index % CLUSTERS
            );
        }
        if index % 5 == 0 {
            text += &format!(
                "---\napiVersion: scheduling.kubefed.io/v1alpha1\nkind: ReplicaSchedulingPreference\nmetadata: {{name: a{index:04}, namespace: shop}}\nspec: {{targetKind: FederatedDeployment, totalReplicas: {}, clusters: {{\"*\": {{weight: 1}}}}}}\n",
                100 + index
            );
        }
        add(format!("workload-{index:04}.yaml"), text);
    }
    files.sort();
    Files(files)
}

fn open(source: &dyn FileTree) -> Session {
    let mut session = Session::open(source, SessionOptions::new(DIALECTS));
    session.keep_manifest_values();
    session
}

fn render_both(files: &Files, migrated: &dyn FileTree) -> Duration {
    let started = Instant::now();
    for source in [files as &dyn FileTree, migrated] {
        assert!(open(source).render().manifests.len() >= WORKLOADS);
    }
    started.elapsed()
}

fn migrate_and_prove(files: &Files) -> Duration {
    let started = Instant::now();
    let old = open(files);
    let migration = migrate_repo(&old, Target::Karmada, Mode::Idiomatic).expect("a migration");
    let migrated = started.elapsed();
    let source = MigratedTree::new(files, &migration.edits);
    let mut new = open(&source);
    new.share_cluster_states(old.clusters());
    assert!(new.render().manifests.len() >= WORKLOADS);
    println!("read and migrated {migrated:?}, rendered {:?}", started.elapsed().saturating_sub(migrated));
    let key = DigestKey::new(b"the key of a benchmark");
    let proof = prove_migration(ProofSides { old: &old, new: &new, migration: &migration, key: &key })
        .expect("a proof");
    assert!(proof.objects.len() > WORKLOADS && proof.worst_verdict() < Verdict::Unexplained);
    started.elapsed()
}

fn main() {
    // A run of tests does not measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let files = fleet();
    let old = open(&files);
    let migration = migrate_repo(&old, Target::Karmada, Mode::Idiomatic).expect("a migration");
    let migrated = MigratedTree::new(&files, &migration.edits);
    let renders = (0..ROUNDS).map(|_| render_both(&files, &migrated)).min().unwrap();
    let proved = (0..ROUNDS).map(|_| migrate_and_prove(&files)).min().unwrap();
    let ratio = proved.as_secs_f64() / renders.as_secs_f64();
    println!(
        "two renderings: {renders:?}; migrated and proved: {proved:?}; ratio {ratio:.2}, at most {MAX_RATIO}"
    );
    assert!(
        ratio <= MAX_RATIO,
        "a migration with its proof takes {ratio:.2} times as long as two renderings"
    );
}
