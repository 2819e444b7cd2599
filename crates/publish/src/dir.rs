//! Makes a folder equal to a rendered tree, in one atomic step.
//!
//! The new tree is built next to the folder, with hard links to the unchanged files, and then exchanged with
//! it. If the process is killed, the folder holds the old tree or the new one, with at most leftovers next to
//! it, which the next run removes. The `placements.yaml` in the folder says which files federate wrote; a
//! folder that contains any other file is refused.
//!
//! After a power failure, files may be damaged. Only `placements.yaml` is forced to the disk, after all other
//! files and before the exchange, because it is the previous plan of the next run and shows that the folder belongs to
//! federate. All other files can be rendered again, and are, because the next run compares contents.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::lock::FileLock;
use super::paths::{ObjectPath, cluster_folder};
use super::summary::Summary;
use super::tree::OutputTree;
use super::{cache, foreign_files};
use federate_dialect::Plan;
use federate_kubernetes::ObjectRef;

mod comparison;
mod entries;
mod index;
mod location;
mod previous_output;
mod repo_copy;
mod stage;
mod swap;
#[cfg(test)]
mod tests;

use comparison::{FolderComparison, OwnedFiles};
use index::{FileIndex, FileTime, IndexRecorder, StoredIndex};
use location::OutputLocation;
pub use repo_copy::RepoCopy;

/// A folder that is, or will become, a rendered tree, locked against other publishers.
#[derive(Debug)]
pub struct OutputFolder {
    // Fields are dropped in this order: the lock file is removed before the folders created for it.
    lock: FileLock,
    location: OutputLocation,
    root: Option<OwnedFd>,
    previous: Option<Plan>,
    index: Option<StoredIndex>,
}

/// A locked folder that is not read yet.
#[derive(Debug)]
pub struct LockedOutputFolder {
    // Held as long as the folder may be written.
    lock: FileLock,
    location: OutputLocation,
}

/// Why nothing was published. Except for [`Error::Io`], nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder contains files that federate did not write.
    #[error("{}", foreign_files::explain_foreign_files(&.dir.display(), .foreign, *.plan, "choose a new or empty folder"))]
    NotOwned {
        /// The folder.
        dir: PathBuf,
        /// The other files, sorted; folders end in `/`.
        foreign: Vec<String>,
        /// Whether it has a plan written by federate.
        plan: bool,
    },
    /// The `placements.yaml` is not a plan.
    #[error(
        "{} is not a plan that federate can read ({why}), so {} may not have been written by federate: restore that \
         file, or choose a new or empty folder", .dir.join(super::paths::PLACEMENTS).display(), .dir.display()
    )]
    NotAPlan {
        /// The folder.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The folder cannot be replaced as a whole.
    #[error("cannot publish to {}: {why}; choose a folder of its own, for example {}", .dir.display(), .dir.join("rendered").display())]
    Unsuitable {
        /// The folder.
        dir: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// The path is not a folder.
    #[error("cannot publish to {}: it is not a folder", .dir.display())]
    NotAFolder {
        /// The path.
        dir: PathBuf,
    },
    /// The folder has files, and is not a copy of a repo that federate wrote.
    #[error(
        "{} contains files that federate did not write: replacing them would delete them; choose a new or empty folder",
        .dir.display()
    )]
    NotACopy {
        /// The folder.
        dir: PathBuf,
    },
    /// The copy of a repo was changed after federate wrote it.
    #[error(
        "files in {} have changed since federate wrote them, by the record in {record}: replacing them would delete these \
         changes; choose a new or empty folder", .dir.display()
    )]
    ChangedCopy {
        /// The folder.
        dir: PathBuf,
        /// The name of the file with the record.
        record: String,
    },
    /// Two names that the file system treats as equal.
    #[error(
        "cannot write {}: this file system takes its name and another one, different only in case, for the \
         same; rename one of the objects, or publish to a case-sensitive file system", .path.display()
    )]
    SameName {
        /// The second of the two files.
        path: PathBuf,
    },
    /// The operating system reported an error.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// A verb, e.g. `read`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl Error {
    fn io_error<E: Into<io::Error>>(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, path: path.into(), source: source.into() }
    }
}

impl LockedOutputFolder {
    /// Reads the plan in the folder.
    ///
    /// An index of the folder is kept in `cache`, which is created if needed. Files that have not been modified since
    /// an earlier run wrote them are then not read again.
    pub fn read_plan(self, cache: Option<PathBuf>) -> Result<OutputFolder, Error> {
        let dir = self.location.folder_path();
        let root = self.location.open_folder()?;
        let name = cache::file_name(dir.as_os_str().as_encoded_bytes(), "index");
        let (previous, index) = rayon::join(
            || root.as_ref().map(|root| previous_output::read_plan(root.as_fd(), &dir)).transpose(),
            || cache.map(|cache| StoredIndex::read_index(cache.join(name))),
        );
        let previous = previous?.flatten();
        Ok(OutputFolder { lock: self.lock, location: self.location, root, previous, index })
    }
}

impl OutputFolder {
    /// Locks the folder at `path`, which need not exist.
    ///
    /// It must not be, or contain, one of the folders in `keep`: the repo and the working directory. A
    /// symlink to a folder stands for that folder. If another process is publishing to the same folder, calls
    /// `waiting` and waits. Removes what a killed run left behind.
    pub fn lock_path(
        path: &Path,
        keep: &[&Path],
        waiting: impl FnOnce(),
    ) -> Result<LockedOutputFolder, Error> {
        let location = OutputLocation::resolve_path(path, keep)?;
        let lock_path = location.path_beside("lock");
        let lock = FileLock::lock_file(&lock_path, waiting).map_err(Error::io_error("lock", lock_path))?;
        swap::recover_killed_run(&location)?;
        Ok(LockedOutputFolder { lock, location })
    }

    /// The plan in the folder; `None` if the folder is missing or empty.
    pub fn previous_plan(&self) -> Option<&Plan> {
        self.previous.as_ref()
    }

    /// The manifest of an object for a cluster that an earlier run wrote.
    pub fn read_previous_manifest(&self, object: &ObjectRef, cluster: &str) -> Option<Arc<str>> {
        self.previous.as_ref()?.find_placement(object).filter(|row| row.reaches_cluster(cluster))?;
        let root = self.root.as_ref()?.as_fd();
        previous_output::read_manifest(root, &cluster_folder(cluster), &ObjectPath::from_object(object))
            .map(Into::into)
    }

    /// Replaces the content of the folder by `tree`. If nothing differs, nothing is written.
    pub fn publish_tree(self, tree: &OutputTree) -> Result<Summary, Error> {
        self.publish_checked(tree, |_| Ok(()))
    }

    /// Like [`publish_tree`](Self::publish_tree), unless `check` refuses the changes.
    pub fn publish_checked<E: From<Error>>(
        self,
        tree: &OutputTree,
        check: impl FnOnce(&Summary) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let dir = self.location.folder_path();
        let root = self.root.as_ref().map(AsFd::as_fd);
        let index = self.index.as_ref().map(|stored| FileIndex::new(stored, tree)).unwrap_or_default();
        let compared = self.file_system_time()?;
        let owned = OwnedFiles::new(self.previous.as_ref(), &index);
        let comparison = comparison::compare_tree(&dir, root, tree, &owned)?;
        let summary = comparison.to_summary();
        if let Some(root) = root.filter(|_| summary.is_unchanged()) {
            if comparison.has_read() {
                IndexRecorder { index: &index, compared, written: None }.record_tree(root, &comparison);
            }
            return Ok(summary);
        }
        check(&summary)?;
        let written = self.replace_content(tree, &comparison).inspect_err(|_| {
            // Removes leftovers if possible; the user needs the original error.
            let _ = swap::recover_killed_run(&self.location);
        })?;
        if let Ok(Some(root)) = self.location.open_folder() {
            IndexRecorder { index: &index, compared, written: Some(written) }
                .record_tree(root.as_fd(), &comparison);
        }
        Ok(summary)
    }

    /// Builds the tree and puts it in place. Returns a time between the two steps.
    fn replace_content(
        &self,
        tree: &OutputTree,
        comparison: &FolderComparison<'_>,
    ) -> Result<FileTime, Error> {
        stage::stage_tree(&self.location, self.root.as_ref().map(AsFd::as_fd), tree, comparison)?;
        let written = self.next_tick()?;
        swap::put_in_place(&self.location, self.root.is_some())?;
        Ok(written)
    }

    /// Waits until the clock of the folder's file system moves on, so that the files just written are older than this
    /// time and can be recorded. Where it ticks more slowly than usual, the last files are read again by the next run.
    fn next_tick(&self) -> Result<FileTime, Error> {
        let before = self.file_system_time()?;
        for _ in 0..if self.index.is_some() { 10 } else { 0 } {
            thread::sleep(Duration::from_millis(1));
            let now = self.file_system_time()?;
            if now > before {
                return Ok(now);
            }
        }
        Ok(before)
    }

    /// The time by the clock of the folder's file system.
    fn file_system_time(&self) -> Result<FileTime, Error> {
        self.lock
            .file_system_time()
            .map_err(Error::io_error("set the time of", self.location.path_beside("lock")))
    }
}
