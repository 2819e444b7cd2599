//! A revision of a git repository as a [`Source`]: files come from the object database, nothing is
//! checked out, so a bare repository serves as well.
//!
//! Facts: gitrevisions(7) for how revisions are named (libgit2 resolves them); gitglossary(7).
//! What needs the user's credentials, keys or hooks is left to the `git` program ([`program`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use federate_repo::source::{Entry, EntryKind, MAX_FILE_BYTES, Source};

mod link;
pub mod program;
#[cfg(test)]
mod tests;
pub mod verify;

/// Why a revision cannot be read.
#[derive(Debug, thiserror::Error)]
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
    #[error("revision `{rev}` has no folder `{folder}`")]
    NoFolder {
        /// The revision as it was named.
        rev: String,
        /// The folder, from the repository's root.
        folder: String,
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

/// A folder and the git repository that it belongs to.
#[derive(Clone, Debug)]
pub struct Place {
    /// The repository's own folder: `.git`, or the bare repository.
    pub git_dir: PathBuf,
    /// The root of the work tree; a bare repository has none.
    pub work_tree: Option<PathBuf>,
    /// The folder from the repository's root, with `/`; empty for the root itself.
    pub prefix: String,
}

impl Place {
    /// Finds the repository around a folder. The folder itself need not exist: a revision may have it.
    pub fn of(folder: &Path) -> Result<Self, Error> {
        let none = |why: String| Error::NoRepository { folder: folder.to_owned(), why };
        let absolute = std::path::absolute(folder).map_err(|e| none(e.to_string()))?;
        let existing = absolute
            .ancestors()
            .find_map(|parent| Some((fs::canonicalize(parent).ok()?, absolute.strip_prefix(parent).ok()?)));
        let Some((existing, rest)) = existing else { return Err(none(String::new())) };
        let repository = Repository::discover(&existing).map_err(|e| match e.code() {
            ErrorCode::NotFound => none(String::new()),
            _ => none(e.message().to_owned()),
        })?;
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let git_dir = real(repository.path());
        let work_tree = repository.workdir().map(real);
        let root = work_tree.as_ref().unwrap_or(&git_dir);
        // The folder `.git` itself stands for the whole repository.
        let below =
            existing.strip_prefix(root).ok().filter(|_| !existing.starts_with(&git_dir) || *root == git_dir);
        let prefix = below.map_or_else(|| rest.to_owned(), |below| below.join(rest));
        let parts: Option<Vec<&str>> = prefix.iter().map(|part| part.to_str()).collect();
        let prefix = parts.ok_or_else(|| none("its path is not UTF-8".to_owned()))?.join("/");
        Ok(Self { git_dir, work_tree, prefix })
    }

    /// Opens the repository.
    pub fn open(&self) -> Result<Repository, Error> {
        Repository::open(&self.git_dir).map_err(|e| self.unreadable(&e))
    }

    /// The commit that a revision names, through tags.
    pub fn resolve(&self, repository: &Repository, rev: &str) -> Result<Oid, Error> {
        let found = repository.revparse_single(rev).and_then(|object| object.peel_to_commit());
        found.map(|commit| commit.id()).map_err(|e| {
            let rev = rev.to_owned();
            if repository.is_shallow() && e.code() == ErrorCode::NotFound {
                return Error::Shallow { rev, repository: self.shown().to_owned() };
            }
            let why = match e.code() {
                ErrorCode::NotFound => remedy(repository, &rev),
                ErrorCode::UnbornBranch => "the branch has no commit yet".to_owned(),
                _ => e.message().to_owned(),
            };
            Error::NoRevision { rev, repository: self.shown().to_owned(), why }
        })
    }

    /// The folder that people know the repository by.
    pub fn shown(&self) -> &Path {
        self.work_tree.as_ref().unwrap_or(&self.git_dir)
    }

    fn unreadable(&self, error: &git2::Error) -> Error {
        Error::Unreadable { repository: self.shown().to_owned(), why: error.message().to_owned() }
    }
}

/// What a reader may have meant.
fn remedy(repository: &Repository, rev: &str) -> String {
    let remote = format!("origin/{rev}");
    if repository.revparse_single(&remote).is_ok() {
        return format!("there is `{remote}`");
    }
    let Ok(names) = repository.references_glob("refs/heads/*") else { return String::new() };
    let names = names.filter_map(Result::ok).filter_map(|r| Some(r.shorthand().ok()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => "it has no branch at all".to_owned(),
        names => format!("its branches are {}", federate_kubernetes::finding::list(names, 10)),
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
    /// Opens the folder of `place` as it is in revision `rev`.
    pub fn open(place: Place, rev: &str) -> Result<Self, Error> {
        let repository = place.open()?;
        let commit = place.resolve(&repository, rev)?;
        let root = tree(&repository, commit, &place.prefix).map_err(|e| match e.code() {
            ErrorCode::NotFound if !place.prefix.is_empty() => {
                Error::NoFolder { rev: rev.to_owned(), folder: place.prefix.clone() }
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

/// The contents of `REV:PATH`, in git's own notation.
pub fn blob(place: &Place, spec: &str) -> Result<Vec<u8>, Error> {
    let repository = place.open()?;
    let missing = |e: git2::Error| Error::NoRevision {
        rev: spec.to_owned(),
        repository: place.shown().to_owned(),
        why: e.message().to_owned(),
    };
    let blob = repository.revparse_single(spec).and_then(|object| object.peel_to_blob()).map_err(missing)?;
    Ok(blob.content().to_vec())
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
