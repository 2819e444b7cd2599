//! Makes a folder hold exactly a rendered tree, in one atomic step.
//!
//! The new tree is built beside the folder, files that stay the same as hard links to those that are
//! there, and then exchanged with it: a kill at any moment leaves the old tree or the new one, and at
//! worst litter beside it that the next run removes. The folder's own `placements.yaml` says which
//! files federate wrote; a folder that holds any other is left alone.
//!
//! A power cut is another matter. Only `placements.yaml` is forced to the disk, after all other files
//! and before the exchange: it is the scheduler's memory, and proof that the folder is federate's.
//! Every other file can be rendered again, and is, because the next run compares contents.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::foreign;
use super::lock::Lock;
use super::paths::{Place, cluster_folder};
use super::summary::Summary;
use super::tree::Tree;
use federate_dialect::Plan;
use federate_kubernetes::ObjectRef;

mod at;
mod compare;
mod index;
mod location;
mod previous;
mod stage;
mod swap;
#[cfg(test)]
mod tests;

use compare::{Comparison, Owned};
use index::{Index, Recorder, Time};
use location::Location;

/// A folder that is, or is to become, a rendered tree; nobody else publishes to it meanwhile.
#[derive(Debug)]
pub struct Folder {
    // Fields are dropped in this order: the lock's file goes before the folders made for it.
    lock: Lock,
    location: Location,
    root: Option<OwnedFd>,
    previous: Option<Plan>,
    /// Where indexes of folders lie.
    cache: Option<PathBuf>,
}

/// Why nothing could be published. Unless it was [`Error::Io`], nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder holds files that federate did not write.
    #[error("{}", foreign::refusal(&.dir.display(), .foreign, *.plan, "choose a new or empty folder"))]
    NotOwned {
        /// The folder.
        dir: PathBuf,
        /// What else it holds, sorted, folders with a `/` at the end.
        foreign: Vec<String>,
        /// Whether it has a plan of federate's.
        plan: bool,
    },
    /// There is a `placements.yaml`, but it is no plan.
    #[error(
        "{} is no plan that federate can read ({why}), so {} may not be federate's to replace: restore that \
         file, or choose a new or empty folder", .dir.join(super::paths::PLACEMENTS).display(), .dir.display()
    )]
    NotAPlan {
        /// The folder.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// This folder cannot be replaced as a whole.
    #[error("cannot publish to {}: {why}; choose a folder of its own, for example {}", .dir.display(), .dir.join("rendered").display())]
    Unsuitable {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// There is something that is no folder.
    #[error("cannot publish to {}: it is not a folder", .dir.display())]
    NotAFolder {
        /// The path.
        dir: PathBuf,
    },
    /// Two names that this file system takes for one.
    #[error(
        "cannot write {}: this file system takes its name and another one, different only in case, for the \
         same; rename one of the objects, or publish to a case-sensitive file system", .path.display()
    )]
    SameName {
        /// The second of the two files.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// A verb, e.g. `read`.
        doing: &'static str,
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    fn io<E: Into<io::Error>>(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, path: path.into(), source: source.into() }
    }
}

impl Folder {
    /// Takes hold of the folder at `path`, which need not exist, and reads the plan it holds.
    ///
    /// It must not be one of the folders in `keep`, or around one of them: the repo, the working
    /// directory. A symlink to a folder stands for that folder. While another process publishes to
    /// the same folder this waits, and calls `waiting` first. What an earlier run that was killed
    /// left behind is cleared away.
    pub fn open(path: &Path, keep: &[&Path], waiting: impl FnOnce()) -> Result<Self, Error> {
        let location = Location::resolve(path, keep)?;
        let lock_path = location.beside("lock");
        let lock = Lock::take(&lock_path, waiting).map_err(Error::io("lock", lock_path))?;
        swap::recover(&location)?;
        let root = location.open()?;
        let previous = root.as_ref().map(|root| previous::read(root.as_fd(), &location.dir())).transpose()?;
        Ok(Self { lock, location, root, previous: previous.flatten(), cache: None })
    }

    /// Keeps an index of the folder in `cache`, a folder that is made when it is needed: a file that has
    /// not been modified since an earlier run wrote it is then not read again.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<PathBuf>) -> Self {
        self.cache = cache;
        self
    }

    /// The plan that the folder holds; `None` when the folder is missing or empty.
    pub fn previous(&self) -> Option<&Plan> {
        self.previous.as_ref()
    }

    /// The text that an earlier run wrote of an object for a cluster, if it did.
    pub fn earlier(&self, object: &ObjectRef, cluster: &str) -> Option<Arc<str>> {
        let rows = &self.previous.as_ref()?.placements;
        rows.iter().find(|row| row.object == *object && row.reaches(cluster))?;
        let root = self.root.as_ref()?.as_fd();
        previous::text(root, &cluster_folder(cluster), &Place::of(object)).map(Into::into)
    }

    /// Replaces what the folder holds by `tree`. Where nothing differs, nothing is touched.
    pub fn publish(self, tree: &Tree) -> Result<Summary, Error> {
        let dir = self.location.dir();
        let root = self.root.as_ref().map(AsFd::as_fd);
        let index = self.index(tree);
        let compared = self.now()?;
        let owned = Owned::new(self.previous.as_ref(), &index);
        let comparison = compare::compare(&dir, root, tree, &owned)?;
        let summary = comparison.summary();
        if let Some(root) = root.filter(|_| summary.is_unchanged()) {
            if comparison.has_read() {
                Recorder { index: &index, compared, written: None }.record(root, &comparison);
            }
            return Ok(summary);
        }
        let written = self.replace(tree, &comparison).inspect_err(|_| {
            // Leaves no litter if it can; what stopped the run is what the user must hear of.
            let _ = swap::recover(&self.location);
        })?;
        if let Ok(Some(root)) = self.location.open() {
            Recorder { index: &index, compared, written: Some(written) }.record(root.as_fd(), &comparison);
        }
        Ok(summary)
    }

    /// Builds the tree and puts it in place. Returns a time between the two.
    fn replace(&self, tree: &Tree, comparison: &Comparison<'_>) -> Result<Time, Error> {
        stage::stage(&self.location, self.root.as_ref().map(AsFd::as_fd), tree, comparison)?;
        let written = self.now()?;
        swap::put_in_place(&self.location, self.root.is_some())?;
        Ok(written)
    }

    fn index(&self, tree: &Tree) -> Index {
        let path = self.cache.as_ref().map(|cache| cache.join(index::name(&self.location.dir())));
        path.map(|path| Index::read(path, tree)).unwrap_or_default()
    }

    /// The time by the clock of the file system that holds the folder.
    fn now(&self) -> Result<Time, Error> {
        self.lock.now().map_err(Error::io("set the time of", self.location.beside("lock")))
    }
}
