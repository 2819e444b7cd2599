//! Builds a new tree next to the folder that it will replace.
//!
//! Folders are built in parallel; a file costs one open, one write and one close, or one hard link.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rayon::prelude::*;
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;

use super::comparison::{ComparedCluster, ComparedFile, ComparedNamespace, FileState, FolderComparison};
use super::location::OutputLocation;
use super::{Error, entries};
use crate::paths::PLACEMENTS;
use crate::tree::OutputTree;

/// The suffix of the tree being built.
pub(super) const NEW_FOLDER: &str = "new";

/// Builds `tree`, with hard links to unchanged files in `old`, whose mode the new root gets.
pub(super) fn stage_tree(
    location: &OutputLocation,
    old: Option<BorrowedFd<'_>>,
    tree: &OutputTree,
    comparison: &FolderComparison<'_>,
) -> Result<(), Error> {
    let path = location.path_beside(NEW_FOLDER);
    let root = entries::create_folder(CWD, &path).map_err(Error::io_error("create", &path))?;
    let mode =
        old.map(rustix::fs::fstat).transpose().map_err(Error::io_error("read", location.folder_path()))?;
    if let Some(old) = mode {
        // Set before anything is in it, so that the new tree is never more readable than the old one.
        rustix::fs::fchmod(&root, Mode::from_raw_mode(old.st_mode))
            .map_err(Error::io_error("set the mode of", &path))?;
    }
    comparison.clusters.par_iter().try_for_each(|part| stage_cluster(&path, root.as_fd(), old, part))?;
    let path = path.join(PLACEMENTS);
    match old.filter(|_| comparison.placements == FileState::Same) {
        Some(old) => entries::link_or_copy(old, root.as_fd(), PLACEMENTS, tree.placements())
            .map_err(Error::io_error("write", path)),
        None => entries::create_file(&root, PLACEMENTS, tree.placements())
            .and_then(rustix::fs::fsync)
            .map_err(Error::io_error("write", path)),
    }
}

fn stage_cluster(
    path: &Path,
    root: BorrowedFd<'_>,
    old: Option<BorrowedFd<'_>>,
    part: &ComparedCluster<'_>,
) -> Result<(), Error> {
    if part.namespaces.iter().all(|namespace| namespace.files.is_empty()) {
        return Ok(());
    }
    let path = path.join(&part.name);
    let folder =
        entries::create_folder(root, part.name.as_str()).map_err(Error::io_error("create", &path))?;
    // If the folder is missing or a link by now, every file is written again.
    let old = old.and_then(|old| entries::open_folder(old, part.name.as_str()).ok());
    part.namespaces
        .par_iter()
        .try_for_each(|part| stage_namespace(&path, folder.as_fd(), old.as_ref().map(AsFd::as_fd), part))
}

fn stage_namespace(
    path: &Path,
    cluster: BorrowedFd<'_>,
    old: Option<BorrowedFd<'_>>,
    part: &ComparedNamespace<'_>,
) -> Result<(), Error> {
    if part.files.is_empty() {
        return Ok(());
    }
    let path = path.join(&part.name);
    let folder =
        entries::create_folder(cluster, part.name.as_str()).map_err(Error::io_error("create", &path))?;
    let old = old.and_then(|old| entries::open_folder(old, part.name.as_str()).ok());
    for ComparedFile { file, state, .. } in &part.files {
        let done = match old.as_ref().filter(|_| *state == FileState::Same) {
            Some(old) => entries::link_or_copy(old.as_fd(), folder.as_fd(), file.name(), file.text()),
            None => entries::create_file(&folder, file.name(), file.text()).map(drop).map_err(Into::into),
        };
        done.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::EXIST) => Error::SameName { path: path.join(file.name()) },
            _ => Error::io_error("write", path.join(file.name()))(error),
        })?;
    }
    Ok(())
}
