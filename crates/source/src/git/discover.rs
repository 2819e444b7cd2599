//! Finds the git repository of a folder.
//!
//! Like git, this looks for `.git` in the folder and its parents, and for a bare repository. A bare
//! repository consists only of files (`HEAD`, `objects`, `refs`, `config`), which a commit can contain.
//! Therefore a bare repository in the work tree of another repository counts as content of that one, as in
//! git with `safe.bareRepository=explicit`. It is only opened if `GIT_DIR` names it. git never allows a path
//! named `.git` in a commit.
//!
//! Facts: `safe.bareRepository` of git-config(1), `GIT_DIR` and `GIT_CEILING_DIRECTORIES` of git(1), gitrepository-layout(5).

use std::fs;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository, RepositoryOpenFlags};

use super::{Error, GitLocation};

impl Error {
    fn no_repository(folder: &Path, why: String) -> Self {
        Self::NoRepository { folder: folder.to_owned(), why }
    }
}

impl GitLocation {
    /// Finds the repository around a folder. The folder itself need not exist, because a revision may have
    /// it.
    pub fn discover_around(folder: &Path) -> Result<Self, Error> {
        let absolute =
            std::path::absolute(folder).map_err(|e| Error::no_repository(folder, e.to_string()))?;
        let existing = absolute
            .ancestors()
            .find_map(|parent| Some((fs::canonicalize(parent).ok()?, absolute.strip_prefix(parent).ok()?)));
        let Some((existing, rest)) = existing else {
            return Err(Error::no_repository(folder, String::new()));
        };
        let (repository, embedded) =
            find_repository(&existing).map_err(|why| Error::no_repository(folder, why))?;
        let git_dir = canonicalize_or_keep(repository.path());
        let work_tree = repository.workdir().map(canonicalize_or_keep);
        let root = work_tree.as_ref().unwrap_or(&git_dir);
        // The folder `.git` itself stands for the whole repository.
        let below =
            existing.strip_prefix(root).ok().filter(|_| !existing.starts_with(&git_dir) || *root == git_dir);
        let prefix = below.map_or_else(|| rest.to_owned(), |below| below.join(rest));
        let parts: Option<Vec<&str>> = prefix.iter().map(|part| part.to_str()).collect();
        let prefix =
            parts.ok_or_else(|| Error::no_repository(folder, "the path is not UTF-8".to_owned()))?.join("/");
        Ok(Self { git_dir, work_tree, prefix, embedded })
    }
}

/// The repository around a folder, and whether a bare one within its work tree was ignored. The error is
/// git's message, empty if there is no repository.
fn find_repository(folder: &Path) -> Result<(Repository, bool), String> {
    let mut bare: Option<Repository> = None;
    let ceilings = read_ceilings();
    for parent in folder.ancestors() {
        // As in git, a ceiling does not concern a search that begins there.
        if parent != folder && ceilings.iter().any(|ceiling| ceiling == parent) {
            let why = format!("GIT_CEILING_DIRECTORIES ends the search below {}", parent.display());
            return bare.map(|bare| (bare, false)).ok_or(why);
        }
        let has_git = fs::symlink_metadata(parent.join(".git")).is_ok();
        let none: [&Path; 0] = [];
        match Repository::open_ext(parent, RepositoryOpenFlags::NO_SEARCH, none) {
            Ok(found) if canonicalize_or_keep(found.path()) != parent => {
                return Ok(match bare {
                    Some(bare) if is_content(&bare, &found) => (found, true),
                    Some(bare) => (bare, false),
                    None => (found, false),
                });
            }
            Ok(found) => bare = bare.or(Some(found)),
            Err(e) if has_git && e.code() != ErrorCode::NotFound => return Err(e.message().to_owned()),
            Err(_) => {}
        }
    }
    bare.map(|bare| (bare, false)).ok_or_else(String::new)
}

/// The folders of `GIT_CEILING_DIRECTORIES`, at which the search ends. Links in those after an empty one are not resolved.
fn read_ceilings() -> Vec<PathBuf> {
    let Some(list) = std::env::var_os("GIT_CEILING_DIRECTORIES") else { return Vec::new() };
    let mut resolves = true;
    let mut ceilings = Vec::new();
    for path in std::env::split_paths(&list) {
        if path.as_os_str().is_empty() {
            resolves = false;
        } else if path.is_absolute() {
            ceilings.push(if resolves { canonicalize_or_keep(&path) } else { path });
        }
    }
    ceilings
}

/// Whether a bare repository counts as files of the work tree around it.
fn is_content(bare: &Repository, around: &Repository) -> bool {
    let path = canonicalize_or_keep(bare.path());
    let named = std::env::var_os("GIT_DIR").and_then(|named| fs::canonicalize(named).ok());
    named.as_ref() != Some(&path) && !path.starts_with(canonicalize_or_keep(around.commondir()))
}

fn canonicalize_or_keep(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
