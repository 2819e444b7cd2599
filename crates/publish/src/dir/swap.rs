//! Puts a finished tree in the place of the old one, and clears up after runs that were killed.
//!
//! Linux and macOS exchange two folders in one step. A file system that cannot needs two renames; a
//! kill between them leaves no folder at all until the next run, which starts by undoing the first.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::Error;
use super::location::{Location, MOUNT_POINT};
use super::stage::NEW;

/// What the old tree is called beside its folder between two renames.
const OLD: &str = "old";

/// Puts the staged tree in place and removes the old one, if there is one.
pub(super) fn put_in_place(location: &Location, replaces: bool) -> Result<(), Error> {
    let (new, dir) = (location.beside(NEW), location.dir());
    if !replaces {
        return fs::rename(&new, &dir).map_err(Error::io("create", dir));
    }
    match rustix::fs::renameat_with(CWD, &new, CWD, &dir, RenameFlags::EXCHANGE) {
        // What is called new holds the old tree now.
        Ok(()) => remove(&new),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => in_two_steps(location),
        Err(Errno::BUSY) => Err(Error::Unsuitable { dir, why: MOUNT_POINT }),
        Err(error) => Err(Error::io("replace", dir)(error)),
    }
}

/// Replaces the old tree where folders cannot be exchanged.
pub(super) fn in_two_steps(location: &Location) -> Result<(), Error> {
    set_aside(location)?;
    fs::rename(location.beside(NEW), location.dir()).map_err(Error::io("replace", location.dir()))?;
    remove(&location.beside(OLD))
}

/// The first of two renames.
pub(super) fn set_aside(location: &Location) -> Result<(), Error> {
    let dir = location.dir();
    fs::rename(&dir, location.beside(OLD)).map_err(Error::io("replace", dir))
}

/// Brings back the old tree where a run was killed between two renames; removes every leftover.
pub(super) fn recover(location: &Location) -> Result<(), Error> {
    let (old, dir) = (location.beside(OLD), location.dir());
    if fs::symlink_metadata(&dir).is_err() && fs::symlink_metadata(&old).is_ok() {
        fs::rename(&old, &dir).map_err(Error::io("restore", dir))?;
    }
    remove(&old)?;
    remove(&location.beside(NEW))
}

/// Removes a folder and all it holds, if it is there; in parallel where that pays.
fn remove(root: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(meta) if !meta.is_dir() => return fs::remove_file(root).map_err(Error::io("remove", root)),
        // Whatever else is wrong, removing it says.
        _ => {}
    }
    let namespaces: Vec<PathBuf> = inner(root).par_iter().flat_map(|cluster| inner(cluster)).collect();
    let remove_all = |folder: &Path| fs::remove_dir_all(folder).map_err(Error::io("remove", folder));
    namespaces.par_iter().try_for_each(|namespace| remove_all(namespace))?;
    remove_all(root)
}

/// The folders, not links to any, directly inside one. What cannot be read is left to the removal,
/// which reports it.
fn inner(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_folder).map(|entry| entry.path()).collect()
}
