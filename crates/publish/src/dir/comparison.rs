//! Compares a folder with the tree that it will hold. Reads only.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::Error;
use super::entries::{self, OutputEntryKind};
use super::index::{FileIndex, FileStat};
use crate::paths::PLACEMENTS;
use crate::summary::{ClusterSummary, Summary};
use crate::tree::{ClusterFolders, NamespaceFolders, OutputFile, OutputTree, list_plan_files};
use federate_dialect::Plan;

/// The state of a file to be written, compared with the existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileState {
    New,
    Changed,
    Same,
}

/// A file of the tree, compared with the existing one.
pub(super) struct ComparedFile<'t> {
    pub(super) file: &'t OutputFile,
    pub(super) state: FileState,
    /// The stamp of the existing file, taken before it was read.
    pub(super) stamp: Option<FileStat>,
    /// Whether the file had to be read.
    pub(super) read: bool,
}

/// The differences.
pub(super) struct FolderComparison<'t> {
    pub(super) placements: FileState,
    /// All clusters that have files, or had.
    pub(super) clusters: Vec<ComparedCluster<'t>>,
}

/// The differences in one cluster's folder.
pub(super) struct ComparedCluster<'t> {
    pub(super) name: String,
    pub(super) namespaces: Vec<ComparedNamespace<'t>>,
    foreign: Vec<String>,
}

/// The differences in one namespace's folder.
pub(super) struct ComparedNamespace<'t> {
    pub(super) name: String,
    /// The desired files; empty if the folder is removed.
    pub(super) files: Vec<ComparedFile<'t>>,
    removed: Vec<String>,
    foreign: Vec<String>,
}

/// The files that federate may have written; any other file makes a folder foreign. Usually the index is
/// enough, so the names in the previous plan are computed only when they are needed.
pub(super) struct OwnedFiles<'p> {
    plan: Option<&'p Plan>,
    folders: OnceLock<ClusterFolders<Arc<str>>>,
    index: &'p FileIndex<'p>,
}

impl<'p> OwnedFiles<'p> {
    /// The files that the previous plan, if any, accounts for.
    pub(super) fn new(plan: Option<&'p Plan>, index: &'p FileIndex<'p>) -> Self {
        Self { plan, folders: OnceLock::new(), index }
    }

    fn planned_folders(&self) -> &ClusterFolders<Arc<str>> {
        self.folders.get_or_init(|| self.plan.map(list_plan_files).unwrap_or_default())
    }

    fn has_cluster(&self, cluster: &str) -> bool {
        self.plan.is_some()
            && (self.index.wrote_cluster(cluster) || self.planned_folders().contains_key(cluster))
    }

    fn has_namespace(&self, cluster: &str, namespace: &str) -> bool {
        self.plan.is_some()
            && (self.index.has_folder(cluster, namespace)
                || self.planned_folders().get(cluster).is_some_and(|folders| folders.contains_key(namespace)))
    }

    fn files_in(&self, cluster: &str, namespace: &str) -> &[Arc<str>] {
        let folder = self.planned_folders().get(cluster).and_then(|folders| folders.get(namespace));
        folder.map_or(&[][..], Vec::as_slice)
    }
}

/// Compares the folder `dir`, open as `root` if it exists, with `tree`.
pub(super) fn compare_tree<'t>(
    dir: &Path,
    root: Option<BorrowedFd<'_>>,
    tree: &'t OutputTree,
    owned: &OwnedFiles<'_>,
) -> Result<FolderComparison<'t>, Error> {
    let (there, mut foreign) =
        list_folders(dir, root, |name| owned.has_cluster(name), owned.plan.map(|_| PLACEMENTS))?;
    let desired = tree.files();
    let clusters: Vec<_> = union_names(&there, desired)
        .into_par_iter()
        .map(|name| {
            let path = dir.join(name);
            let folder = open_subfolder(root.filter(|_| there.contains(name)), name, &path)?;
            compare_cluster(name, &path, folder.as_ref().map(AsFd::as_fd), desired.get(name), owned)
        })
        .collect::<Result<_, Error>>()?;
    for cluster in &clusters {
        foreign.extend(cluster.foreign.iter().map(|name| format!("{}/{name}", cluster.name)));
    }
    if !foreign.is_empty() {
        foreign.sort();
        return Err(Error::NotOwned { dir: dir.to_owned(), foreign, plan: owned.plan.is_some() });
    }
    let placements = match (root, owned.plan) {
        (Some(root), Some(_)) => compare_text(root, PLACEMENTS, tree.placements(), &mut Vec::new(), dir)?,
        _ => FileState::New,
    };
    Ok(FolderComparison { placements, clusters })
}

fn compare_cluster<'t>(
    name: &str,
    path: &Path,
    folder: Option<BorrowedFd<'_>>,
    desired: Option<&'t NamespaceFolders<OutputFile>>,
    owned: &OwnedFiles<'_>,
) -> Result<ComparedCluster<'t>, Error> {
    let (there, mut foreign) =
        list_folders(path, folder, |namespace| owned.has_namespace(name, namespace), None)?;
    let nothing = NamespaceFolders::new();
    let names = union_names(&there, desired.unwrap_or(&nothing));
    let namespaces: Vec<_> = names
        .into_par_iter()
        .map(|inner| {
            let path = path.join(inner);
            let folder = open_subfolder(folder.filter(|_| there.contains(inner)), inner, &path)?;
            let files = desired.and_then(|desired| desired.get(inner)).map_or(&[][..], Vec::as_slice);
            compare_namespace(name, inner, &path, folder.as_ref().map(AsFd::as_fd), files, owned)
        })
        .collect::<Result<_, Error>>()?;
    for namespace in &namespaces {
        foreign.extend(namespace.foreign.iter().map(|file| format!("{}/{file}", namespace.name)));
    }
    Ok(ComparedCluster { name: name.to_owned(), namespaces, foreign })
}

/// `desired` is sorted by name.
fn compare_namespace<'t>(
    cluster: &str,
    name: &str,
    path: &Path,
    folder: Option<BorrowedFd<'_>>,
    desired: &'t [OutputFile],
    owned: &OwnedFiles<'_>,
) -> Result<ComparedNamespace<'t>, Error> {
    if let Some(folder) = folder
        && let Some(recorded) = owned.index.find_records(cluster, name, folder, desired)
    {
        let files = desired
            .par_iter()
            .enumerate()
            .with_min_len(64)
            .map(|(position, file)| match recorded.unread_stat(position, folder, file) {
                Some(stamp) => {
                    Ok(ComparedFile { file, state: FileState::Same, stamp: Some(stamp), read: false })
                }
                None => compare_file(folder, file, owned.index, &mut Vec::new(), path),
            })
            .collect::<Result<_, _>>()?;
        return Ok(ComparedNamespace {
            name: name.to_owned(),
            files,
            removed: Vec::new(),
            foreign: Vec::new(),
        });
    }
    let there = match folder {
        Some(folder) => entries::list_entries(folder).map_err(Error::io_error("list", path))?,
        None => Vec::new(),
    };
    let written = if there.is_empty() { &[] } else { owned.files_in(cluster, name) };
    let foreign = there.iter().filter(|entry| {
        entry.kind != OutputEntryKind::File
            || written.binary_search_by(|file| (**file).cmp(&entry.name)).is_err()
    });
    let foreign = foreign.map(entries::OutputEntry::display_name).collect();
    let removed = there
        .iter()
        .filter(|entry| desired.binary_search_by(|file| file.name().cmp(&entry.name)).is_err())
        .map(|e| e.name.clone())
        .collect();
    let files = desired
        .par_iter()
        .with_min_len(64)
        .map_init(Vec::new, |buffer, file| {
            let there = there.binary_search_by(|entry| (*entry.name).cmp(file.name()));
            match folder.filter(|_| there.is_ok()) {
                Some(folder) => compare_file(folder, file, owned.index, buffer, path),
                None => Ok(ComparedFile { file, state: FileState::New, stamp: None, read: false }),
            }
        })
        .collect::<Result<_, Error>>()?;
    Ok(ComparedNamespace { name: name.to_owned(), files, removed, foreign })
}

/// The subfolders of `folder` that federate wrote, and all other entries except the file called `besides`.
fn list_folders(
    path: &Path,
    folder: Option<BorrowedFd<'_>>,
    is_own: impl Fn(&str) -> bool,
    besides: Option<&str>,
) -> Result<(BTreeSet<String>, Vec<String>), Error> {
    let mut own = BTreeSet::new();
    let mut foreign = Vec::new();
    let Some(folder) = folder else { return Ok((own, foreign)) };
    for entry in entries::list_entries(folder).map_err(Error::io_error("list", path))? {
        match entry.kind {
            OutputEntryKind::Folder if is_own(&entry.name) => drop(own.insert(entry.name)),
            OutputEntryKind::File if besides == Some(entry.name.as_str()) => {}
            OutputEntryKind::Folder | OutputEntryKind::File | OutputEntryKind::Other => {
                foreign.push(entry.display_name());
            }
        }
    }
    Ok((own, foreign))
}

fn union_names<'n, T>(
    there: &'n BTreeSet<String>,
    desired: &'n std::collections::BTreeMap<Arc<str>, T>,
) -> BTreeSet<&'n str> {
    there.iter().map(String::as_str).chain(desired.keys().map(|name| &**name)).collect()
}

fn open_subfolder(parent: Option<BorrowedFd<'_>>, name: &str, path: &Path) -> Result<Option<OwnedFd>, Error> {
    parent.map(|parent| entries::open_folder(parent, name)).transpose().map_err(Error::io_error("open", path))
}

/// Compares a file with the existing one by reading it.
fn compare_file<'t>(
    folder: BorrowedFd<'_>,
    file: &'t OutputFile,
    index: &FileIndex<'_>,
    buffer: &mut Vec<u8>,
    path: &Path,
) -> Result<ComparedFile<'t>, Error> {
    let stamp = index.stat_before_read(folder, file);
    let state = compare_text(folder, file.name(), file.text(), buffer, path)?;
    Ok(ComparedFile { file, state, stamp, read: true })
}

fn compare_text(
    folder: BorrowedFd<'_>,
    name: &str,
    text: &str,
    buffer: &mut Vec<u8>,
    path: &Path,
) -> Result<FileState, Error> {
    match entries::has_text(folder, name, text, buffer) {
        Ok(true) => Ok(FileState::Same),
        Ok(false) => Ok(FileState::Changed),
        Err(error) => Err(Error::io_error("read", path.join(name))(error)),
    }
}

impl<'t> FolderComparison<'t> {
    /// What changes when the tree is put in place.
    pub(super) fn to_summary(&self) -> Summary {
        Summary {
            clusters: self.clusters.par_iter().map(ComparedCluster::to_summary).collect(),
            plan_written: self.placements != FileState::Same,
        }
    }

    /// Every namespace with the folder of its cluster.
    pub(super) fn all_namespaces(&self) -> impl Iterator<Item = (&str, &ComparedNamespace<'t>)> + Send {
        self.clusters.iter().flat_map(|cluster| cluster.namespaces.iter().map(|part| (&*cluster.name, part)))
    }

    /// Whether a file had to be read to know that it is unchanged.
    pub(super) fn has_read(&self) -> bool {
        self.all_namespaces().any(|(_, namespace)| namespace.files.iter().any(|compared| compared.read))
    }
}

impl ComparedCluster<'_> {
    fn to_summary(&self) -> ClusterSummary {
        let mut summary = ClusterSummary { cluster: self.name.clone(), ..ClusterSummary::default() };
        for namespace in &self.namespaces {
            let folder = format!("{}/{}", self.name, namespace.name);
            for ComparedFile { file, state, .. } in &namespace.files {
                match state {
                    FileState::New => summary.created.push(format!("{folder}/{}", file.name())),
                    FileState::Changed => summary.updated.push(format!("{folder}/{}", file.name())),
                    FileState::Same => summary.unchanged += 1,
                }
            }
            summary.removed.extend(namespace.removed.iter().map(|file| format!("{folder}/{file}")));
        }
        summary
    }
}
