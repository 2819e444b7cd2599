//! Publishing a rendered tree to a folder: 100 clusters of 900 objects, 90,000 files of 1.2 KB.
//!
//! The baseline is `cp -r` of the result. `FEDERATE_BENCH_DIR` sets the folder for files (default: the folder
//! for temporary files), to compare a RAM disk with a real one.

#![allow(clippy::unwrap_used)] // A benchmark that cannot set up its input has nothing better to do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use divan::Bencher;
use federate_dialect::{Placed, Placement, Plan};
use federate_engine::Manifest;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_publish::{OutputFolder, OutputTree};
use tempfile::TempDir;

const CLUSTERS: usize = 100;
const OBJECTS: usize = 900;

fn main() {
    divan::main();
}

/// Nine tenths of the objects are the same in all clusters. `edit` is part of the text of every hundredth
/// object.
fn tree(edit: &str) -> OutputTree {
    let clusters: Vec<ClusterName> = (0..CLUSTERS).map(|c| format!("member-{c:03}").into()).collect();
    let mut plan = Plan::default();
    let mut manifests = Vec::new();
    for number in 0..OBJECTS {
        let object = ObjectRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some(format!("team-{:02}", number % 30)),
            name: format!("service-{number:03}"),
        };
        let edit = if number % 100 == 0 { edit } else { "" };
        let text =
            |what: &str| -> Arc<str> { format!("# {edit}{what}\n{}", "key: value\n".repeat(108)).into() };
        if number % 10 == 0 {
            let each = |c: &ClusterName| Manifest {
                object: object.clone(),
                clusters: [c.clone()].into(),
                text: text(c),
                value: None,
                changes: Vec::new(),
            };
            manifests.extend(clusters.iter().map(each));
        } else {
            let clusters = clusters.clone();
            manifests.push(Manifest {
                object: object.clone(),
                clusters: clusters.into(),
                text: text(""),
                value: None,
                changes: Vec::new(),
            });
        }
        let mut placement = Placement::new("karmada", object, None);
        placement.clusters =
            clusters.iter().map(|name| Placed { name: name.clone(), replicas: Some(1) }).collect();
        plan.placements.push(placement);
    }
    OutputTree::new(serde_json::to_string(&plan).unwrap(), manifests).unwrap()
}

fn scratch() -> TempDir {
    match std::env::var_os("FEDERATE_BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

fn open(dir: &Path) -> OutputFolder {
    OutputFolder::lock_path(dir, &[], || {}).unwrap().read_plan(None).unwrap()
}

/// A temporary folder with the tree published to the returned folder in it.
fn published() -> (TempDir, PathBuf) {
    let scratch = scratch();
    let out = scratch.path().join("out");
    open(&out).publish_tree(&tree("")).unwrap();
    (scratch, out)
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn lay_out(bencher: Bencher) {
    bencher.bench(|| tree(""));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn first_write(bencher: Bencher) {
    let tree = tree("");
    bencher.with_inputs(scratch).bench_values(|scratch| {
        open(&scratch.path().join("out")).publish_tree(&tree).unwrap();
        scratch
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn nothing_changed(bencher: Bencher) {
    let (tree, (_scratch, out)) = (tree(""), published());
    bencher.with_inputs(|| open(&out)).bench_values(|folder| folder.publish_tree(&tree).unwrap());
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn one_in_a_hundred_changed(bencher: Bencher) {
    let (_scratch, out) = published();
    let mut edits = 0;
    bencher
        .with_inputs(|| {
            edits += 1;
            (tree(&format!("edit {edits}")), open(&out))
        })
        .bench_local_values(|(tree, folder)| folder.publish_tree(&tree).unwrap());
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn yardstick_cp(bencher: Bencher) {
    let (_scratch, out) = published();
    bencher.with_inputs(scratch).bench_values(|scratch| {
        let done = Command::new("cp").arg("-r").arg(&out).arg(scratch.path().join("copy")).status().unwrap();
        assert!(done.success());
        scratch
    });
}
