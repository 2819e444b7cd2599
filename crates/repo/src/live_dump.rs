//! Live objects in a folder, as `<cluster>/*.yaml` with the output of `kubectl get -o yaml`.

use rayon::prelude::*;

use super::scope::Scopes;
use super::{Claims, Config, ReadOptions, documents, walk};
use federate_file_tree::{FileTree, RepoFile};
use federate_kubernetes::{Finding, LiveObjects, Object, Severity};

/// Reads the live objects of each cluster with a folder in `tree`; `name` is the folder's name in findings.
/// An empty folder means that the cluster has no objects.
pub fn read_live_objects(tree: &dyn FileTree, name: &str) -> (LiveObjects, Vec<Finding>) {
    let (selection, _) = walk::FileSelection::new(&Config::default(), None, &ReadOptions::default());
    let (files, mut findings) = walk::read_selected_files(tree, &selection);
    let contents: Vec<_> = files.par_iter().map(|file| parse_dump_file(file, name)).collect();
    let mut live = LiveObjects::default();
    for entry in tree.list_folder("").unwrap_or_default() {
        if matches!(entry.kind, federate_file_tree::EntryKind::Folder) {
            live.insert(entry.name.as_str().into(), Vec::new());
        }
    }
    for (file, read) in files.iter().zip(contents) {
        findings.extend(read.findings);
        match file.path.split_once('/') {
            Some((cluster, _)) => live.insert(cluster.into(), apply_scopes(read.objects)),
            None => findings.push(report_stray_file(file, name)),
        }
    }
    (live, findings)
}

/// The objects of files with the output of `kubectl get -o yaml`, in the order of the files.
pub fn objects_of(files: &[RepoFile], claims: &dyn Claims) -> (Vec<Object>, Vec<Finding>) {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for read in files.iter().map(documents::parse_file) {
        all.extend(read.objects);
        findings.extend(read.findings);
    }
    let scopes = Scopes::from_dump(all.iter());
    for object in &mut all {
        scopes.normalize_namespace(object, claims);
    }
    (all, findings)
}

/// The file's objects; origins include the folder's name.
fn parse_dump_file(file: &RepoFile, name: &str) -> documents::FileContents {
    let path = format!("{}/{}", name.trim_end_matches('/'), file.path).into();
    documents::parse_file(&RepoFile { path, bytes: file.bytes.clone() })
}

fn apply_scopes(mut objects: Vec<Object>) -> Vec<Object> {
    let scopes = Scopes::from_dump(objects.iter());
    for object in &mut objects {
        scopes.normalize_namespace(object, &|_: &str, _: &str| None);
    }
    objects
}

fn report_stray_file(file: &RepoFile, name: &str) -> Finding {
    let path = format!("{}/{}", name.trim_end_matches('/'), file.path).into();
    let message =
        "this file belongs to no cluster: the objects of a cluster must be in a folder with its name";
    Finding::in_file(Severity::Warning, "stray-live", &path, None, message)
        .with_help("move it to CLUSTER/FILE.yaml in that folder")
}
