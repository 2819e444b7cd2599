//! A revision of a git repository as a [`FileTree`]. Files are read from the object database without a
//! checkout, so bare repositories work too.
//!
//! Facts: gitrevisions(7) for the names of revisions, which libgit2 resolves; gitglossary(7). What needs the
//! user's credentials, keys or hooks is done by the `git` program ([`program`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use federate_kubernetes::hex::to_hex;
use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};
use sha2::{Digest as _, Sha256};

use federate_repo::file_tree::{EntryKind, FileTree, MAX_FILE_BYTES, TreeEntry, TreeError};
use federate_repo::pointer_file::LfsPointer;
use listings::{Listings, MAX_DEPTH};

mod ancestry;
mod commit_diff;
mod discover;
mod entry_names;
pub(crate) mod index;
mod isolation;
mod leftovers;
mod link;
mod listings;
mod openpgp;
mod packs;
pub mod program;
mod resolve;
mod signers;
#[cfg(test)]
mod tests;
pub mod verify;
mod verify_error;

pub use ancestry::{
    builds_on, current_branch, default_branch, merge_base, names_of_revisions, recorded_default_branch,
};
pub use commit_diff::changed_files;
pub use entry_names::find_name_fault;
pub use resolve::{AnnotatedTag, ResolvedRevision, has_commits, rev_and_path};
pub use signers::AllowedSigners;

/// Why a revision cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder is not in a git repository.
    #[error("{} is not in a git repository{}", .folder.display(), format_reason(.why))]
    NoRepository {
        /// The folder.
        folder: PathBuf,
        /// git's error, if there is more to say.
        why: String,
    },
    /// The repository does not have the revision.
    #[error("no revision `{rev}` in {}: {why}", .repository.display())]
    NoRevision {
        /// The revision as given.
        rev: String,
        /// The repository.
        repository: PathBuf,
        /// The next step.
        why: String,
    },
    /// The clone is too shallow for that revision.
    #[error(
        "no revision `{rev}` in {}: there is no branch or tag of that name; if it is an older commit, the clone is \
         shallow, and its history ends before that: fetch more with `git fetch --unshallow`, or clone with \
         `fetch-depth: 0` (GitHub's checkout action) or `GIT_DEPTH: 0` (GitLab)", .repository.display()
    )]
    Shallow {
        /// The revision as given.
        rev: String,
        /// The repository.
        repository: PathBuf,
    },
    /// The revision does not have the folder.
    #[error("revision `{rev}` has no folder `{folder}` in {}{}", .repository.display(), ignored_repository(*.embedded))]
    NoFolder {
        /// The revision as given.
        rev: String,
        /// The repository, which may be one that was found above the folder.
        repository: PathBuf,
        /// The folder, from the repository's root.
        folder: String,
        /// Whether a bare repository there was ignored.
        embedded: bool,
    },
    /// The object database cannot be read.
    #[error("cannot read the git repository {}: {why}", .repository.display())]
    Unreadable {
        /// The repository.
        repository: PathBuf,
        /// git's error.
        why: String,
    },
}

fn format_reason(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn ignored_repository(embedded: bool) -> &'static str {
    if embedded {
        "; the bare repository there is in the work tree of another repository, so it may have come with that \
         repository's files: to read it, set GIT_DIR to its path"
    } else {
        ""
    }
}

/// A folder and the git repository that it belongs to.
#[derive(Clone, Debug)]
pub struct GitLocation {
    /// The repository's folder: `.git`, or the bare repository.
    pub git_dir: PathBuf,
    /// The root of the work tree; `None` for a bare repository.
    pub work_tree: Option<PathBuf>,
    /// The folder relative to the repository's root, with `/`; empty for the root itself.
    pub prefix: String,
    /// Whether a bare repository around the folder was ignored, because it is in this work tree.
    pub embedded: bool,
}

impl GitLocation {
    /// Opens the repository, if libgit2 can read its packs safely.
    pub fn open_repository(&self) -> Result<Repository, Error> {
        let repository = self.open_again().map_err(|e| self.to_unreadable(&e))?;
        packs::check_objects(&repository.commondir().join("objects"))
            .map_err(|why| Error::Unreadable { repository: self.display_folder().to_owned(), why })?;
        Ok(repository)
    }

    /// Opens a repository whose packs have been checked.
    fn open_again(&self) -> Result<Repository, git2::Error> {
        Repository::open(&self.git_dir)
    }

    /// Whether the last commit does not contain the folder, as if it were not meant to be in this repository.
    pub fn is_outside_of_commit(&self) -> bool {
        !self.prefix.is_empty()
            && self.open_repository().is_ok_and(|repository| {
                let commit = repository.head().and_then(|head| head.peel_to_commit());
                commit
                    .and_then(|commit| resolve::contains_path(&repository, commit.id(), &self.prefix))
                    .is_ok_and(|is_contained| !is_contained)
            })
    }

    /// The folder to show in messages.
    pub fn display_folder(&self) -> &Path {
        self.work_tree.as_ref().unwrap_or(&self.git_dir)
    }

    fn to_unreadable(&self, error: &git2::Error) -> Error {
        Error::Unreadable { repository: self.display_folder().to_owned(), why: error.message().to_owned() }
    }
}

/// The names in a folder with their objects.
type FolderEntries = Vec<(Box<str>, Oid)>;

/// A folder in one revision.
pub struct GitRevision {
    location: GitLocation,
    commit: Oid,
    /// The tree of the folder.
    root: Oid,
    /// The tree of the commit.
    whole: Oid,
    /// Unused repository handles; each serves only one thread at a time.
    idle: Mutex<Vec<Repository>>,
    /// The objects in listed folders, by folder and name.
    known: Mutex<BTreeMap<String, FolderEntries>>,
    listings: Mutex<Listings>,
    links: link::LinkResolver,
    /// The commits of submodules that the repository has, too.
    submodules: BTreeSet<Oid>,
    /// The object databases of the submodules that the user has checked out.
    alternates: Vec<PathBuf>,
}

impl GitRevision {
    /// Opens the folder of `place` in a revision.
    pub fn open_folder(location: GitLocation, resolved: &ResolvedRevision) -> Result<Self, Error> {
        let repository = location.open_repository()?;
        let commit = resolved.commit;
        let root = find_folder_tree(&repository, commit, &location.prefix).map_err(|e| match e.code() {
            ErrorCode::NotFound if !location.prefix.is_empty() => {
                let (rev, embedded) = (resolved.rev.clone(), location.embedded);
                let repository = location.display_folder().to_owned();
                Error::NoFolder { rev, repository, folder: location.prefix.clone(), embedded }
            }
            _ => location.to_unreadable(&e),
        })?;
        let whole = find_folder_tree(&repository, commit, "").map_err(|e| location.to_unreadable(&e))?;
        let (idle, known, listings) = (Mutex::new(vec![repository]), Mutex::default(), Mutex::default());
        let (links, submodules) = (link::LinkResolver::default(), BTreeSet::new());
        let alternates = Vec::new();
        Ok(Self { location, commit, root, whole, idle, known, listings, links, submodules, alternates })
    }

    /// Also reads submodules, as folders, whose commits the user's clone has.
    pub fn with_local_submodules(self) -> Result<Self, Error> {
        let repository = self.location.open_again().map_err(|e| self.location.to_unreadable(&e))?;
        let alternates = find_submodule_objects(&repository.commondir().join("modules"));
        for objects in &alternates {
            packs::check_objects(objects)
                .map_err(|why| Error::Unreadable { repository: objects.clone(), why })?;
        }
        // The handles that are idle do not know the alternates.
        Ok(Self { alternates, idle: Mutex::default(), ..self })
    }

    /// Also reads submodules, as folders, if they are at these commits. The repository must have the commits.
    #[must_use]
    pub fn with_submodules(self, submodules: BTreeSet<Oid>) -> Self {
        Self { submodules, ..self }
    }

    /// The commit.
    pub fn commit(&self) -> Oid {
        self.commit
    }

    /// The repository and the folder.
    pub fn location(&self) -> &GitLocation {
        &self.location
    }

    /// Runs with a repository handle of this thread's own.
    fn with_repository<T>(
        &self,
        run: impl FnOnce(&Repository) -> Result<T, git2::Error>,
    ) -> Result<T, TreeError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let repository = match idle {
            Some(repository) => repository,
            None => self.open_with_alternates().map_err(|error| to_source_error(&error))?,
        };
        let result = run(&repository).map_err(|error| to_source_error(&error));
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(repository);
        result
    }

    /// Opens the repository together with those of its submodules.
    fn open_with_alternates(&self) -> Result<Repository, git2::Error> {
        let repository = self.location.open_again()?;
        for objects in self.alternates.iter().filter_map(|objects| objects.to_str()) {
            repository.odb()?.add_disk_alternate(objects)?;
        }
        Ok(repository)
    }

    fn find_object(&self, repository: &Repository, path: &str) -> Result<Oid, git2::Error> {
        // Links may lead to the rest of the repository.
        let (root, below) = match path.strip_prefix('/') {
            Some(path) => (self.whole, path),
            None => (self.root, path),
        };
        if below.is_empty() {
            return Ok(root);
        }
        match self.find_known(path) {
            Some(oid) => Ok(oid),
            None if self.submodules.is_empty() && self.alternates.is_empty() => {
                Ok(repository.find_tree(root)?.get_path(Path::new(below))?.id())
            }
            None => below.split('/').try_fold(root, |folder, name| {
                let tree = find_tree(repository, folder)?;
                let entry = tree.get_path(Path::new(name))?;
                let submodule = self.submodule_tree(repository, entry.filemode(), entry.id())?;
                Ok(submodule.unwrap_or_else(|| entry.id()))
            }),
        }
    }

    /// The object at a path whose folder was listed.
    fn find_known(&self, path: &str) -> Option<Oid> {
        let (folder, name) = match path.rsplit_once('/') {
            // What is in the root of the repository, from a folder of it.
            Some(("", name)) => ("/", name),
            Some(parts) => parts,
            None => ("", path),
        };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = known.get(folder)?;
        let at = entries.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        entries.get(at).map(|(_, id)| *id)
    }

    /// Keeps the objects of a folder, so that its files need not be looked up from the root.
    fn keep_known(&self, folder: &str, mut entries: Vec<(Box<str>, Oid)>) {
        entries.sort_unstable();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned(), entries);
    }

    /// Counts the entries of a folder.
    fn count_listing(&self, folder: &str, tree: &Tree<'_>) -> Result<(), git2::Error> {
        let counted = self.listings.lock().unwrap_or_else(PoisonError::into_inner).count_tree(tree);
        if counted.is_err() || folder.split('/').count() > MAX_DEPTH {
            let why = "the repo has too many files and folders, or too deep ones";
            return Err(git2::Error::new(ErrorCode::GenericError, git2::ErrorClass::Tree, why));
        }
        Ok(())
    }

    /// The target of a link, which may be anywhere in the repository.
    fn resolve_link(&self, repository: &Repository, path: &str, link: Oid) -> EntryKind {
        let prefix = self.location.prefix.as_str();
        let from_root = match path.strip_prefix('/') {
            Some(path) => path.to_owned(),
            None if prefix.is_empty() => path.to_owned(),
            None => format!("{prefix}/{path}"),
        };
        match self.links.resolve_kind(repository, self.whole, &from_root, link) {
            EntryKind::LinkToFile(to) => EntryKind::LinkToFile(relative_to_folder(prefix, to)),
            EntryKind::LinkToFolder(to) => EntryKind::LinkToFolder(relative_to_folder(prefix, to)),
            kind => kind,
        }
    }

    /// The tree of a submodule, if it is one that is read.
    fn submodule_tree(
        &self,
        repository: &Repository,
        mode: i32,
        id: Oid,
    ) -> Result<Option<Oid>, git2::Error> {
        if mode != SUBMODULE_MODE {
            return Ok(None);
        }
        let is_readable = self.submodules.contains(&id)
            || (!self.alternates.is_empty() && repository.odb().is_ok_and(|odb| odb.exists(id)));
        if !is_readable {
            return Ok(None);
        }
        repository.find_commit(id).map(|commit| Some(commit.tree_id()))
    }
}

/// The largest tree that is read, in bytes: a small pack can hold a tree of any size, as a delta that repeats one entry.
const MAX_TREE_BYTES: usize = 16 << 20;

/// A tree of a size that can be held in memory.
fn find_tree(repository: &Repository, id: Oid) -> Result<Tree<'_>, git2::Error> {
    let (size, _) = repository.odb()?.read_header(id)?;
    if size > MAX_TREE_BYTES {
        let why = format!("the entries of a folder have more than {} MiB", MAX_TREE_BYTES >> 20);
        return Err(git2::Error::new(ErrorCode::GenericError, git2::ErrorClass::Tree, why));
    }
    repository.find_tree(id)
}

/// The tree of a folder in a commit.
fn find_folder_tree(repository: &Repository, commit: Oid, prefix: &str) -> Result<Oid, git2::Error> {
    let root = repository.find_commit(commit)?.tree()?;
    if prefix.is_empty() {
        return Ok(root.id());
    }
    let entry = root.get_path(Path::new(prefix))?;
    match entry.kind() {
        Some(ObjectType::Tree) => Ok(entry.id()),
        _ => Err(git2::Error::new(ErrorCode::NotFound, git2::ErrorClass::Tree, "it is not a folder")),
    }
}

/// Why an object of the repository was not read.
fn to_source_error(error: &git2::Error) -> TreeError {
    match error.code() {
        ErrorCode::NotFound => TreeError::NotFound,
        _ => TreeError::Unreadable(error.message().to_owned()),
    }
}

impl FileTree for GitRevision {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        self.with_repository(|repository| {
            let tree = find_tree(repository, self.find_object(repository, folder)?)?;
            self.count_listing(folder, &tree)?;
            entry_names::check_names(&tree)?;
            let mut entries = Vec::with_capacity(tree.len());
            let mut known = Vec::with_capacity(tree.len());
            for entry in &tree {
                let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
                let submodule = self.submodule_tree(repository, entry.filemode(), entry.id())?;
                let path = if folder.is_empty() || folder == "/" {
                    format!("{folder}{name}")
                } else {
                    format!("{folder}/{name}")
                };
                let kind = match entry.filemode() {
                    _ if std::str::from_utf8(entry.name_bytes()).is_err() => {
                        EntryKind::Unreadable("the name is not UTF-8".to_owned())
                    }
                    // The folder itself, from outside.
                    TREE_MODE if path.strip_prefix('/') == Some(&self.location.prefix) => {
                        EntryKind::LinkToFolder(String::new())
                    }
                    TREE_MODE => EntryKind::Folder,
                    SUBMODULE_MODE if submodule.is_some() => EntryKind::Folder,
                    LINK_MODE => self.resolve_link(repository, &path, entry.id()),
                    SUBMODULE_MODE => EntryKind::Submodule,
                    _ => EntryKind::File,
                };
                known.push((name.as_str().into(), submodule.unwrap_or_else(|| entry.id())));
                entries.push(TreeEntry { name, kind });
            }
            self.keep_known(folder, known);
            Ok(entries)
        })
    }

    fn folder_id(&self, folder: &str) -> Option<[u8; 20]> {
        let id = self.with_repository(|repository| self.find_object(repository, folder)).ok()?;
        id.as_bytes().try_into().ok()
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        let read = self.with_repository(|repository| {
            let oid = self.find_object(repository, path)?;
            let odb = repository.odb()?;
            let (size, _) = odb.read_header(oid)?;
            if size as u64 > MAX_FILE_BYTES {
                return Ok(None);
            }
            let bytes = odb.read(oid)?.data().to_vec();
            Ok(Some(read_lfs_content(repository, &bytes).unwrap_or(bytes)))
        })?;
        read.ok_or(TreeError::TooLarge(MAX_FILE_BYTES))
    }
}

/// The content of a Git LFS pointer, if the clone has it.
fn read_lfs_content(repository: &Repository, bytes: &[u8]) -> Option<Vec<u8>> {
    let pointer = LfsPointer::parse(bytes).filter(|pointer| pointer.size <= MAX_FILE_BYTES)?;
    let id = pointer.sha256;
    let path = repository.commondir().join("lfs/objects").join(id.get(..2)?).join(id.get(2..4)?).join(id);
    let mut content = Vec::new();
    fs::File::open(path).ok()?.take(pointer.size + 1).read_to_end(&mut content).ok()?;
    let digest = to_hex(&Sha256::digest(&content));
    (content.len() as u64 == pointer.size && digest.eq_ignore_ascii_case(id)).then_some(content)
}

/// The object databases of submodules below a folder of git's `modules`, which may hold those of their submodules.
fn find_submodule_objects(modules: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![modules.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = entry.path();
            if path.join("HEAD").is_file() && path.join("objects").is_dir() {
                found.push(path.join("objects"));
                folders.push(path.join("modules"));
            } else {
                // A submodule's name may contain slashes.
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

const TREE_MODE: i32 = 0o040_000;
const LINK_MODE: i32 = 0o120_000;
const SUBMODULE_MODE: i32 = 0o160_000;

/// The content of a file in a revision. The path is relative to the repository's root.
pub fn read_blob(location: &GitLocation, resolved: &ResolvedRevision, path: &str) -> Result<Vec<u8>, Error> {
    let repository = location.open_repository()?;
    read_tree_entry(&repository, resolved.commit, path).map_err(|e| Error::NoRevision {
        rev: format!("{}:{path}", resolved.rev),
        repository: location.display_folder().to_owned(),
        why: e.message().to_owned(),
    })
}

fn read_tree_entry(repository: &Repository, commit: Oid, path: &str) -> Result<Vec<u8>, git2::Error> {
    let tree = repository.find_commit(commit)?.tree()?;
    let blob = tree.get_path(Path::new(path))?.to_object(repository)?.peel_to_blob()?;
    Ok(blob.content().to_vec())
}

/// A path in the repository as seen from a folder in it: absolute, if it is outside of the folder.
fn relative_to_folder(folder: &str, path: String) -> String {
    match path.strip_prefix(folder) {
        _ if folder.is_empty() => path,
        Some("") => String::new(),
        Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/').to_owned(),
        _ => format!("/{path}"),
    }
}

/// Whether files below the folder differ from the last commit, or are untracked.
pub fn is_modified(location: &GitLocation) -> Result<bool, Error> {
    let repository = location.open_repository()?;
    let mut options = git2::StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(false).exclude_submodules(true);
    if !location.prefix.is_empty() {
        options.pathspec(&location.prefix).disable_pathspec_match(true);
    }
    let statuses = repository.statuses(Some(&mut options)).map_err(|e| location.to_unreadable(&e))?;
    Ok(!statuses.is_empty())
}
