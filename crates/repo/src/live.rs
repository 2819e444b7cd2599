//! Live objects in a folder, as `<cluster>/*.yaml` with the output of `kubectl get -o yaml`.

use rayon::prelude::*;

use super::scope::Scopes;
use super::source::{File, Source};
use super::{Claims, Config, ReadOptions, load, walk};
use federate_kubernetes::{Finding, Live, Object, Severity};

/// Reads the live objects of each cluster with a folder in `source`; `name` is the folder's name in findings.
/// An empty folder means that the cluster has no objects.
pub fn live(source: &dyn Source, name: &str) -> (Live, Vec<Finding>) {
    let (selection, _) = walk::Selection::new(&Config::default(), None, &ReadOptions::default());
    let (files, mut findings) = walk::read(source, &selection);
    let contents: Vec<_> = files.par_iter().map(|file| objects(file, name)).collect();
    let mut live = Live::default();
    for entry in source.list("").unwrap_or_default() {
        if matches!(entry.kind, super::source::EntryKind::Folder) {
            live.insert(entry.name.as_str().into(), Vec::new());
        }
    }
    for (file, read) in files.iter().zip(contents) {
        findings.extend(read.findings);
        match file.path.split_once('/') {
            Some((cluster, _)) => live.insert(cluster.into(), scoped(read.objects)),
            None => findings.push(stray(file, name)),
        }
    }
    (live, findings)
}

/// The objects of files with the output of `kubectl get -o yaml`, in the order of the files.
pub fn objects_of(files: &[File], claims: &dyn Claims) -> (Vec<Object>, Vec<Finding>) {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for read in files.iter().map(load::contents) {
        all.extend(read.objects);
        findings.extend(read.findings);
    }
    let scopes = Scopes::of_dump(all.iter());
    for object in &mut all {
        scopes.apply(object, claims);
    }
    (all, findings)
}

/// The file's objects; origins include the folder's name.
fn objects(file: &File, name: &str) -> load::Contents {
    let path = format!("{}/{}", name.trim_end_matches('/'), file.path).into();
    load::contents(&File { path, bytes: file.bytes.clone() })
}

fn scoped(mut objects: Vec<Object>) -> Vec<Object> {
    let scopes = Scopes::of_dump(objects.iter());
    let no_claims = |_: &str, _: &str| None;
    for object in &mut objects {
        scopes.apply(object, &no_claims);
    }
    objects
}

fn stray(file: &File, name: &str) -> Finding {
    let path = format!("{}/{}", name.trim_end_matches('/'), file.path).into();
    let message =
        "this file belongs to no cluster: the objects of a cluster must be in a folder with its name";
    Finding::in_file(Severity::Warning, "stray-live", &path, None, message)
        .help("move it to CLUSTER/FILE.yaml in that folder")
}
