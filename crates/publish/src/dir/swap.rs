//! Puts a finished tree in the place of the old one, and cleans up after killed runs.
//!
//! Linux and macOS can exchange two folders in one step. Other file systems need two renames; if the process
//! is killed between them, the folder does not exist until the next run, which starts by undoing the first
//! rename.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::Error;
use super::location::{MOUNT_POINT, OutputLocation};
use super::stage::NEW_FOLDER;

/// The suffix of the old tree between the two renames.
const OLD_FOLDER: &str = "old";

/// Puts the staged tree in place and removes the old one, if it exists.
pub(super) fn put_in_place(location: &OutputLocation, replaces: bool) -> Result<(), Error> {
    let (new, dir) = (location.path_beside(NEW_FOLDER), location.folder_path());
    if !replaces {
        return fs::rename(&new, &dir).map_err(Error::io_error("create", dir));
    }
    match rustix::fs::renameat_with(CWD, &new, CWD, &dir, RenameFlags::EXCHANGE) {
        // The path `new` now holds the old tree.
        Ok(()) => remove_folder(&new),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => in_two_steps(location),
        Err(Errno::BUSY) => Err(Error::Unsuitable { dir, why: MOUNT_POINT }),
        Err(error) => Err(Error::io_error("replace", dir)(error)),
    }
}

/// Replaces the old tree on file systems that cannot exchange folders.
pub(super) fn in_two_steps(location: &OutputLocation) -> Result<(), Error> {
    set_aside(location)?;
    fs::rename(location.path_beside(NEW_FOLDER), location.folder_path())
        .map_err(Error::io_error("replace", location.folder_path()))?;
    remove_folder(&location.path_beside(OLD_FOLDER))
}

/// The first of the two renames.
pub(super) fn set_aside(location: &OutputLocation) -> Result<(), Error> {
    let dir = location.folder_path();
    fs::rename(&dir, location.path_beside(OLD_FOLDER)).map_err(Error::io_error("replace", dir))
}

/// Restores the old tree if a run was killed between the two renames, and removes all leftovers.
pub(super) fn recover_killed_run(location: &OutputLocation) -> Result<(), Error> {
    let (old, dir) = (location.path_beside(OLD_FOLDER), location.folder_path());
    if fs::symlink_metadata(&dir).is_err() && fs::symlink_metadata(&old).is_ok() {
        fs::rename(&old, &dir).map_err(Error::io_error("restore", dir))?;
    }
    remove_folder(&old)?;
    remove_folder(&location.path_beside(NEW_FOLDER))
}

/// Removes a folder with its content, if it exists; in parallel if it is large.
fn remove_folder(root: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(meta) if !meta.is_dir() => return fs::remove_file(root).map_err(Error::io_error("remove", root)),
        // Other errors are reported by the removal.
        _ => {}
    }
    let namespaces: Vec<PathBuf> =
        list_subfolders(root).par_iter().flat_map(|cluster| list_subfolders(cluster)).collect();
    namespaces.par_iter().try_for_each(|namespace| {
        fs::remove_dir_all(namespace).map_err(Error::io_error("remove", namespace))
    })?;
    fs::remove_dir_all(root).map_err(Error::io_error("remove", root))
}

/// The folders directly inside one, without links. What cannot be read is left to the removal, which reports
/// it.
fn list_subfolders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
