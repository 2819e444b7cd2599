//! What git tracks in a folder, but its work tree lacks: files that a sparse checkout leaves out, and submodules that are
//! not checked out. Without them, a part of the repo would silently not be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use git2::{Oid, Repository, TreeWalkMode, TreeWalkResult};

use crate::git::GitLocation;
use crate::git::index::{SkippedEntry, read_skipped_entries};
use federate_repo::file_tree::{EntryKind, TreeEntry};

/// The entries that each folder lacks, by the folder's path.
pub(crate) type MissingEntries = BTreeMap<String, Vec<TreeEntry>>;

/// What git tracks below `root`, but is not there.
pub(crate) fn find_missing_entries(root: &Path) -> MissingEntries {
    let mut missing = MissingEntries::new();
    let Ok(location) = GitLocation::discover_around(root) else { return missing };
    let Some(work_tree) = &location.work_tree else { return missing };
    let Ok(bytes) = fs::read(location.git_dir.join("index")) else { return missing };
    let mut folders = BTreeSet::new();
    for skipped in read_skipped_entries(&bytes).unwrap_or_default() {
        for path in paths_of(&location, &skipped) {
            let Some(below) = path_below(&location.prefix, &path) else { continue };
            let here = work_tree.join(&path);
            let (is_there, kind) = if skipped.is_submodule {
                (fs::symlink_metadata(here.join(".git")).is_ok(), EntryKind::Submodule)
            } else {
                (fs::symlink_metadata(&here).is_ok(), EntryKind::SparseFile)
            };
            if !is_there {
                add_missing(&mut missing, &mut folders, root, below, kind);
            }
        }
    }
    missing
}

/// The paths of an entry: those of its files, if a folder is skipped as a whole.
fn paths_of(location: &GitLocation, skipped: &SkippedEntry) -> Vec<String> {
    let Some(folder) = skipped.path.strip_suffix('/') else { return vec![skipped.path.clone()] };
    let Ok(repository) = location.open_repository() else { return Vec::new() };
    let mut paths = Vec::new();
    let all = files_of(&repository, skipped.id, |path| paths.push(format!("{folder}/{path}")));
    all.map(|()| paths).unwrap_or_default()
}

fn files_of(repository: &Repository, tree: Oid, mut add: impl FnMut(String)) -> Result<(), git2::Error> {
    repository.find_tree(tree)?.walk(TreeWalkMode::PreOrder, |folder, entry| {
        let name = String::from_utf8_lossy(entry.name_bytes());
        if let (Some(git2::ObjectType::Blob), Ok(folder)) =
            (entry.kind(), std::str::from_utf8(folder.as_ref()))
        {
            add(format!("{folder}{name}"));
        }
        TreeWalkResult::Ok
    })
}

/// A path relative to a folder.
fn path_below(folder: &str, path: &str) -> Option<String> {
    if folder.is_empty() {
        return Some(path.to_owned());
    }
    path.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned)
}

/// Adds a missing entry to its folder, and the folders that are missing with it to theirs.
fn add_missing(
    missing: &mut MissingEntries,
    folders: &mut BTreeSet<String>,
    root: &Path,
    mut path: String,
    mut kind: EntryKind,
) {
    loop {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let (folder, name) = (folder.to_owned(), name.to_owned());
        // An empty folder stands in place of a submodule.
        missing.entry(folder.clone()).or_default().push(TreeEntry { name, kind });
        if folder.is_empty()
            || fs::symlink_metadata(root.join(&folder)).is_ok()
            || !folders.insert(folder.clone())
        {
            return;
        }
        (path, kind) = (folder, EntryKind::Folder);
    }
}
