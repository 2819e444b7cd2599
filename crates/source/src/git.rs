//! A revision of a git repository as a [`Source`]: files come from the object database, nothing is
//! checked out, so a bare repository serves as well.
//!
//! Facts: gitrevisions(7) for how revisions are named (libgit2 resolves them); gitglossary(7).
//! What needs the user's credentials, keys or hooks is left to the `git` program ([`program`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use federate_repo::source::{Entry, EntryKind, MAX_FILE_BYTES, Source};

mod ancestry;
mod changed;
mod discover;
mod isolation;
mod link;
pub mod program;
mod resolve;
#[cfg(test)]
mod tests;
pub mod verify;

pub use ancestry::builds_on;
pub use changed::changed;
pub use resolve::{Resolved, Tag, rev_and_path};

/// Why a revision cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no git repository.
    #[error("{} is in no git repository{}", .folder.display(), reason(.why))]
    NoRepository {
        /// The folder named.
        folder: PathBuf,
        /// What git says, unless there is just none.
        why: String,
    },
    /// The repository has no such revision.
    #[error("no revision `{rev}` in {}: {why}", .repository.display())]
    NoRevision {
        /// The revision as it was named.
        rev: String,
        /// The repository.
        repository: PathBuf,
        /// What to do.
        why: String,
    },
    /// The clone is cut off before that revision.
    #[error(
        "no revision `{rev}` in {}: the clone is shallow, and its history ends before that; fetch more with \
         `git fetch --unshallow`, or clone with `fetch-depth: 0` (GitHub's checkout action) or `GIT_DEPTH: 0` \
         (GitLab)", .repository.display()
    )]
    Shallow {
        /// The revision as it was named.
        rev: String,
        /// The repository.
        repository: PathBuf,
    },
    /// The revision has no such folder.
    #[error("revision `{rev}` has no folder `{folder}`{}", passed_over(*.embedded))]
    NoFolder {
        /// The revision as it was named.
        rev: String,
        /// The folder, from the repository's root.
        folder: String,
        /// Whether a bare repository there was passed over.
        embedded: bool,
    },
    /// The object database cannot be read.
    #[error("cannot read the git repository {}: {why}", .repository.display())]
    Unreadable {
        /// The repository.
        repository: PathBuf,
        /// What git says.
        why: String,
    },
}

fn reason(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn passed_over(embedded: bool) -> &'static str {
    if embedded {
        "; the bare repository there lies in the work tree of another repository, so it may have come with that \
         one's files: set GIT_DIR to its path if it is the one to read"
    } else {
        ""
    }
}

/// A folder and the git repository that it belongs to.
#[derive(Clone, Debug)]
pub struct Place {
    /// The repository's own folder: `.git`, or the bare repository.
    pub git_dir: PathBuf,
    /// The root of the work tree; a bare repository has none.
    pub work_tree: Option<PathBuf>,
    /// The folder from the repository's root, with `/`; empty for the root itself.
    pub prefix: String,
    /// Whether a bare repository around the folder was passed over, because it lies in this work tree.
    pub embedded: bool,
}

impl Place {
    /// Opens the repository.
    pub fn open(&self) -> Result<Repository, Error> {
        Repository::open(&self.git_dir).map_err(|e| self.unreadable(&e))
    }

    /// The folder that people know the repository by.
    pub fn shown(&self) -> &Path {
        self.work_tree.as_ref().unwrap_or(&self.git_dir)
    }

    fn unreadable(&self, error: &git2::Error) -> Error {
        Error::Unreadable { repository: self.shown().to_owned(), why: error.message().to_owned() }
    }
}

/// A folder as it is in one revision.
pub struct Revision {
    place: Place,
    commit: Oid,
    root: Oid,
    /// Handles that no thread uses at the moment: one serves only one thread at a time.
    idle: Mutex<Vec<Repository>>,
    /// The objects by path, of all folders that were listed.
    known: Mutex<BTreeMap<String, Oid>>,
}

impl Revision {
    /// Opens the folder of `place` as it is in a revision.
    pub fn open(place: Place, resolved: &Resolved) -> Result<Self, Error> {
        let repository = place.open()?;
        let commit = resolved.commit;
        let root = tree(&repository, commit, &place.prefix).map_err(|e| match e.code() {
            ErrorCode::NotFound if !place.prefix.is_empty() => {
                let (rev, embedded) = (resolved.rev.clone(), place.embedded);
                Error::NoFolder { rev, folder: place.prefix.clone(), embedded }
            }
            _ => place.unreadable(&e),
        })?;
        let (idle, known) = (Mutex::new(vec![repository]), Mutex::default());
        Ok(Self { place, commit, root, idle, known })
    }

    /// The commit.
    pub fn commit(&self) -> Oid {
        self.commit
    }

    /// The repository and the folder.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Runs with a handle of this thread's own.
    fn with<T>(&self, run: impl FnOnce(&Repository) -> Result<T, git2::Error>) -> Result<T, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let repository = match idle {
            Some(repository) => repository,
            None => self.place.open().map_err(|e| e.to_string())?,
        };
        let result = run(&repository).map_err(|e| e.message().to_owned());
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(repository);
        result
    }

    fn object(&self, repository: &Repository, path: &str) -> Result<Oid, git2::Error> {
        if path.is_empty() {
            return Ok(self.root);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        match known {
            Some(oid) => Ok(oid),
            None => Ok(repository.find_tree(self.root)?.get_path(Path::new(path))?.id()),
        }
    }
}

/// The tree of a folder in a commit.
fn tree(repository: &Repository, commit: Oid, prefix: &str) -> Result<Oid, git2::Error> {
    let root = repository.find_commit(commit)?.tree()?;
    if prefix.is_empty() {
        return Ok(root.id());
    }
    let entry = root.get_path(Path::new(prefix))?;
    match entry.kind() {
        Some(ObjectType::Tree) => Ok(entry.id()),
        _ => Err(git2::Error::new(ErrorCode::NotFound, git2::ErrorClass::Tree, "it is no folder")),
    }
}

impl Source for Revision {
    fn list(&self, folder: &str) -> Result<Vec<Entry>, String> {
        self.with(|repository| {
            let tree = repository.find_tree(self.object(repository, folder)?)?;
            let root = repository.find_tree(self.root)?;
            let mut entries = Vec::with_capacity(tree.len());
            let mut known = Vec::with_capacity(tree.len());
            for entry in &tree {
                let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                let kind = match entry.filemode() {
                    _ if std::str::from_utf8(entry.name_bytes()).is_err() => {
                        EntryKind::Unreadable("its name is not UTF-8".to_owned())
                    }
                    TREE => EntryKind::Folder,
                    LINK => link::kind(repository, &root, &path),
                    SUBMODULE => {
                        EntryKind::Unreadable("it is a submodule, kept in another repository".to_owned())
                    }
                    _ => EntryKind::File,
                };
                known.push((path, entry.id()));
                entries.push(Entry { name, kind });
            }
            self.known.lock().unwrap_or_else(PoisonError::into_inner).extend(known);
            Ok(entries)
        })
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let read = self.with(|repository| {
            let oid = self.object(repository, path)?;
            let odb = repository.odb()?;
            let (size, _) = odb.read_header(oid)?;
            if size as u64 > MAX_FILE_BYTES {
                return Ok(None);
            }
            Ok(Some(odb.read(oid)?.data().to_vec()))
        })?;
        read.ok_or_else(|| format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20))
    }
}

const TREE: i32 = 0o040_000;
const LINK: i32 = 0o120_000;
const SUBMODULE: i32 = 0o160_000;

/// The contents of one file of a revision. The path is from the repository's root.
pub fn blob(place: &Place, resolved: &Resolved, path: &str) -> Result<Vec<u8>, Error> {
    let repository = place.open()?;
    let read = || {
        let tree = repository.find_commit(resolved.commit)?.tree()?;
        let blob = tree.get_path(Path::new(path))?.to_object(&repository)?.peel_to_blob()?;
        Ok(blob.content().to_vec())
    };
    read().map_err(|e: git2::Error| Error::NoRevision {
        rev: format!("{}:{path}", resolved.rev),
        repository: place.shown().to_owned(),
        why: e.message().to_owned(),
    })
}

/// Whether files below the folder differ from the last commit, or are not in it.
pub fn is_modified(place: &Place) -> Result<bool, Error> {
    let repository = place.open()?;
    let mut options = git2::StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(false).exclude_submodules(true);
    if !place.prefix.is_empty() {
        options.pathspec(&place.prefix).disable_pathspec_match(true);
    }
    let statuses = repository.statuses(Some(&mut options)).map_err(|e| place.unreadable(&e))?;
    Ok(!statuses.is_empty())
}

/// The entry's target in a tree, by path.
fn lookup<'r>(repository: &'r Repository, root: &Tree<'r>, path: &str) -> Option<(Oid, i32)> {
    if path.is_empty() {
        return Some((root.id(), TREE));
    }
    let entry = root.get_path(Path::new(path)).ok()?;
    repository.odb().ok()?.exists(entry.id()).then(|| (entry.id(), entry.filemode()))
}
