//! Committing a rendered tree to a branch: 100 clusters of 3,000 objects, 300,000 files of 1.2 KB.
//!
//! The baseline is `git add -A && git commit` of the same files, for 90,000 of them. `FEDERATE_BENCH_DIR`
//! sets the folder for files (default: the folder for temporary files).

#![allow(clippy::unwrap_used)] // A benchmark that cannot set up its input has nothing better to do.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use divan::Bencher;
use federate_dialect::{Placed, Placement, Plan};
use federate_engine::{Manifest, previous};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_publish::branch::{self, BranchFolder, BranchLayout, BranchTip, Identity};
use federate_publish::{OutputFolder as Output, OutputTree};
use git2::Repository;
use tempfile::TempDir;

fn main() {
    divan::main();
}

/// A tenth of the objects differs between five regions. `edit` is part of the text of one object.
fn rendered(objects: usize, edit: &str) -> (Plan, OutputTree) {
    let clusters: Vec<ClusterName> = (0..100).map(|c| format!("member-{c:03}").into()).collect();
    let mut plan = Plan::default();
    let mut manifests = Vec::new();
    for number in 0..objects {
        let object = ObjectRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some(format!("team-{:02}", number % 20)),
            name: format!("service-{number:04}"),
        };
        let edit = if number == 0 { edit } else { "" };
        let regions = if number % 10 == 0 { 5 } else { 1 };
        for region in 0..regions {
            let text: Arc<str> = format!("# {number} {region} {edit}\n{}", "key: value\n".repeat(108)).into();
            let clusters = clusters.iter().skip(region).step_by(regions).cloned().collect();
            manifests.push(Manifest {
                object: object.clone(),
                clusters,
                text,
                value: None,
                changes: Vec::new(),
            });
        }
        let mut placement = Placement::new("karmada", object, None);
        placement.clusters =
            clusters.iter().map(|name| Placed { name: name.clone(), replicas: Some(1) }).collect();
        plan.placements.push(placement);
    }
    let tree = OutputTree::new(previous::serialize_plan(&plan), manifests).unwrap();
    (plan, tree)
}

fn scratch() -> TempDir {
    match std::env::var_os("FEDERATE_BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

fn git(folder: &Path, line: &str) {
    let mut command = Command::new("git");
    command.args(line.split(' ')).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@example.com");
    }
    assert!(command.status().unwrap().success());
}

fn repository() -> TempDir {
    let scratch = scratch();
    git(scratch.path(), "init -q -b main");
    scratch
}

/// What the command does, except rendering.
fn commit(folder: &Path, (plan, tree): &(Plan, OutputTree)) -> bool {
    let repository = Repository::open(folder).unwrap();
    let layout = BranchLayout::parse_pattern("rendered", BranchFolder::default()).unwrap();
    let tip = |branch: &str| {
        let commit = branch::find_tip(&repository, branch)?;
        Ok(commit.map(|commit| BranchTip { commit, exists: true }))
    };
    let home = layout.read_home(&repository, tip).unwrap();
    let bases = layout.read_branches(&repository, home, &BTreeSet::new(), tip).unwrap();
    let built = bases.write_trees(&repository, &layout, tree, plan, None).unwrap().remove(0);
    let Some(root) = built.tree else { return false };
    let identity = Identity::read_identity(&repository, Some("t <t@example.com>")).unwrap();
    let commit =
        branch::CommitContent { tree: root, parent: built.base, identity: &identity, message: "render" };
    let commit = branch::create_commit(&repository, &commit).unwrap();
    branch::update_branches(&repository, &[built.to_update(built.base, commit)], "bench").unwrap();
    true
}

#[divan::bench(sample_count = 5, sample_size = 1, args = [900, 3000])]
fn first_commit(bencher: Bencher, objects: usize) {
    let tree = rendered(objects, "");
    bencher.with_inputs(repository).bench_values(|folder| {
        assert!(commit(folder.path(), &tree));
        folder
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn nothing_changed(bencher: Bencher) {
    let (tree, folder) = (rendered(3000, ""), repository());
    commit(folder.path(), &tree);
    bencher.bench(|| assert!(!commit(folder.path(), &tree)));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn one_template_changed(bencher: Bencher) {
    let folder = repository();
    commit(folder.path(), &rendered(3000, ""));
    let mut edits = 0;
    bencher
        .with_inputs(|| {
            edits += 1;
            rendered(3000, &edits.to_string())
        })
        .bench_local_values(|tree| {
            assert!(commit(folder.path(), &tree));
            tree
        });
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn yardstick_git_add_and_commit(bencher: Bencher) {
    let (_, tree) = rendered(900, "");
    let written = || {
        let folder = repository();
        let out = folder.path().join("out");
        Output::lock_path(&out, &[], || {}).unwrap().read_plan(None).unwrap().publish_tree(&tree).unwrap();
        folder
    };
    bencher.with_inputs(written).bench_values(|folder| {
        git(folder.path(), "add -A");
        git(folder.path(), "commit -q -m rendered");
        folder
    });
}
