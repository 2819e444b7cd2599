//! Where what is watched is: a folder as it stands, or a revision of a git repository, which is polled by one
//! `ls-remote` and fetched, shallow, into a bare cache below the state folder.
//!
//! What is read is the commit that was fetched, by its id: a branch that moves meanwhile is the next round's. The
//! cache holds nothing that cannot be fetched again, so whenever it is in the way it is made anew.
//!
//! Facts: git-ls-remote(1), git-fetch(1), gitglossary(7) ("refspec").

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Oid, Reference as GitReference, Repository};

use federate_source::git::program::{self, Git, without_credentials};
use federate_source::git::{self, Place, Resolved, verify};

use crate::api::{Reference, Source, VerifyMode};

/// Where the fetched commit is, in the cache.
const FETCHED: &str = "refs/federate/source";
/// Packs that the cache may have; then it is made anew. Each fetch adds about one.
const MOST_PACKS: usize = 50;

/// Commits that are fetched of a branch that was fetched before.
const HISTORY: usize = 20;

/// Where a source is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A folder that is read as it stands.
    Folder(PathBuf),
    /// A git repository, as `git` names it.
    Git(String),
}

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `git` program failed.
    #[error(transparent)]
    Program(#[from] program::Error),
    /// The repository does not have what is to be read.
    #[error("{repository} has no {reference}")]
    Absent {
        /// The repository, without credentials.
        repository: String,
        /// The branch, tag, …
        reference: String,
    },
    /// The cache cannot be read.
    #[error(transparent)]
    Revision(#[from] git::Error),
    /// The revision is not signed as it must be.
    #[error(transparent)]
    Refused(#[from] verify::Refused),
    /// The cache cannot be made.
    #[error("the cache {}: {why}", .folder.display())]
    Cache {
        /// Its folder.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
}

/// Where the references of a repository are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// What is to be read: the commit, or the tag object.
    pub tip: String,
    /// The branches that were asked about, without `refs/heads/`.
    pub branches: BTreeMap<String, String>,
}

/// What was fetched.
#[derive(Debug)]
pub struct Fetched {
    /// The repository, and the folder in it.
    pub place: Place,
    /// The commit.
    pub resolved: Resolved,
    /// The commit, or tag, that was fetched before.
    pub before: Option<Oid>,
    /// Whether this commit does not build on it.
    pub rewritten: bool,
}

/// A git repository that is polled and fetched.
#[derive(Debug)]
pub struct Remote<'r> {
    /// Its address.
    pub address: &'r str,
    /// What of it is read.
    pub source: &'r Source,
    /// The bare repository that it is fetched to.
    pub cache: &'r Path,
    /// How long a call of git may take.
    pub patience: Duration,
    /// Variables of the environment that give it credentials.
    pub variables: Vec<(String, OsString)>,
}

impl Address {
    /// Where a source is; paths start at `folder`.
    pub fn of(source: &Source, folder: &Path) -> Result<Self, String> {
        let url = source.url.as_str();
        if url.is_empty() || url.starts_with('-') || url.contains(['\n', '\0']) {
            return Err(format!("`{}` is not the address of a repository", without_credentials(url)));
        }
        if is_remote(url) {
            return Ok(Self::Git(url.to_owned()));
        }
        let path = folder.join(url);
        let path = std::path::absolute(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        // A bare repository has no files to read but those of a revision.
        let bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
        if source.reference.is_none() && !bare {
            return Ok(Self::Folder(path));
        }
        path.to_str().map(|path| Self::Git(path.to_owned())).ok_or_else(|| "the path is not UTF-8".to_owned())
    }
}

impl Address {
    /// The folder, where it is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) => Some(path),
            Self::Git(_) => None,
        }
    }
}

/// Whether git takes it for an address and not for a path: `scheme://…`, or `host:path`.
fn is_remote(url: &str) -> bool {
    let before_slash = url.split('/').next().unwrap_or_default();
    url.contains("://") || before_slash.contains(':')
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Git(address) => f.write_str(&without_credentials(address)),
        }
    }
}

impl Reference {
    /// Whether exactly one thing is named, by a name that there can be.
    pub(crate) fn check(&self) -> Result<(), String> {
        let named = [&self.branch, &self.tag, &self.name, &self.commit];
        if named.iter().filter(|name| name.is_some()).count() != 1 {
            return Err("name exactly one of `branch`, `tag`, `name` and `commit`".to_owned());
        }
        if let Some(commit) = &self.commit {
            let full = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
            return if full { Ok(()) } else { Err(format!("`{commit}` is not the full hash of a commit")) };
        }
        let full = self.full();
        if GitReference::is_valid_name(&full) {
            Ok(())
        } else {
            Err(format!("no reference can be called `{full}`"))
        }
    }

    /// The full name.
    fn full(&self) -> String {
        match (&self.branch, &self.tag, &self.name, &self.commit) {
            (Some(branch), ..) => format!("refs/heads/{branch}"),
            (_, Some(tag), ..) => format!("refs/tags/{tag}"),
            (_, _, Some(name), _) => name.clone(),
            (.., Some(commit)) => commit.clone(),
            _ => "HEAD".to_owned(),
        }
    }

    /// What a person calls it.
    fn shown(&self) -> &str {
        let named = [&self.branch, &self.tag, &self.name, &self.commit];
        named.into_iter().flatten().next().map_or("HEAD", String::as_str)
    }
}

impl Remote<'_> {
    /// Where the source and some branches are: one `ls-remote`.
    pub fn poll(&self, branches: &str) -> Result<Advertised, Error> {
        let repository = self.open()?;
        let reference = self.source.reference.clone().unwrap_or_default();
        let full = reference.full();
        let mut advertised = Advertised { tip: String::new(), branches: BTreeMap::new() };
        let mut git = self.git(&repository, "ls-remote").arg("--").arg(self.address);
        if let Some(commit) = &reference.commit {
            advertised.tip.clone_from(&commit.to_ascii_lowercase());
            if branches.is_empty() {
                return Ok(advertised);
            }
        } else {
            git = git.arg(&full);
        }
        if !branches.is_empty() {
            git = git.arg(format!("refs/heads/{branches}"));
        }
        for line in git.run()?.lines() {
            let Some((id, name)) = line.split_once('\t') else { continue };
            if name == full {
                id.clone_into(&mut advertised.tip);
            }
            // The pattern also matches the ends of longer names.
            if let Some(branch) = name.strip_prefix("refs/heads/").filter(|name| matches(branches, name)) {
                advertised.branches.insert(branch.to_owned(), id.to_owned());
            }
        }
        if advertised.tip.is_empty() {
            return Err(self.absent(&reference));
        }
        Ok(advertised)
    }

    /// Fetches what is to be read unless the cache has it, and verifies it where that is asked for. `tip` is where it
    /// was a moment ago.
    pub fn fetch(&self, tip: &str, allowed_signers: Option<&Path>) -> Result<Fetched, Error> {
        let repository = self.open()?;
        let before = self.commit_of(&repository);
        if !self.has(&repository, tip)
            && let Err(error) = self.fetch_to(&repository)
        {
            // What a killed run has left in the cache may be in the way.
            tracing::debug!(%error, "fetching anew");
            drop(repository);
            self.remove()?;
            self.fetch_to(&self.open()?)?;
        }
        let repository = self.open()?;
        let reference = self.source.reference.clone().unwrap_or_default();
        let place = Place {
            git_dir: self.cache.to_owned(),
            work_tree: None,
            prefix: folder(&self.source.path),
            embedded: false,
        };
        let mut resolved = place.resolve(&repository, &self.fetched())?;
        reference.shown().clone_into(&mut resolved.rev);
        self.verify(&place, &resolved, allowed_signers)?;
        let left_out = |before| git::builds_on(&repository, before, resolved.commit) == Some(false);
        let rewritten = self.is_branch() && before.is_some_and(left_out);
        Ok(Fetched { place, resolved, before, rewritten })
    }

    fn git<'g>(&self, repository: &'g Repository, what: &str) -> Git<'g> {
        let git = Git::new(repository, what).timeout(self.patience);
        self.variables.iter().fold(git, |git, (name, value)| git.env(name, value))
    }

    /// The commit that was fetched last.
    fn commit_of(&self, repository: &Repository) -> Option<Oid> {
        repository.find_reference(&self.fetched()).ok()?.target()
    }

    /// Whether what is read moves, and by rights only forward.
    fn is_branch(&self) -> bool {
        self.source.reference.as_ref().is_none_or(|reference| reference.branch.is_some())
    }

    /// The reference that is fetched to. A tag keeps its name, which its signature covers.
    fn fetched(&self) -> String {
        match self.source.reference.as_ref().and_then(|reference| reference.tag.as_ref()) {
            Some(tag) => format!("refs/tags/{tag}"),
            None => FETCHED.to_owned(),
        }
    }

    /// Whether the cache has it all. Git moves a reference when everything that it leads to is there.
    fn has(&self, repository: &Repository, tip: &str) -> bool {
        let found = repository.find_reference(&self.fetched());
        found.is_ok_and(|found| found.target().is_some_and(|id| id.to_string() == tip))
    }

    fn verify(&self, place: &Place, resolved: &Resolved, allowed: Option<&Path>) -> Result<(), Error> {
        let Some(verify) = &self.source.verify else { return Ok(()) };
        if matches!(verify.mode, VerifyMode::Head | VerifyMode::TagAndHead) {
            verify::verify_commit(place, resolved, allowed)?;
        }
        if matches!(verify.mode, VerifyMode::Tag | VerifyMode::TagAndHead) {
            verify::verify_tag(place, resolved, allowed)?;
        }
        Ok(())
    }

    fn fetch_to(&self, repository: &Repository) -> Result<(), Error> {
        let reference = self.source.reference.clone().unwrap_or_default();
        let full = reference.full();
        let to = self.fetched();
        let git = self.git(repository, "fetch");
        // The last commits tell whether the branch was rewritten.
        let depth = if self.is_branch() && self.commit_of(repository).is_some() { HISTORY } else { 1 };
        let git =
            git.arg(format!("--depth={depth}")).arg("--no-tags").arg("--no-write-fetch-head").arg("--force");
        git.arg("--").arg(self.address).arg(format!("+{full}:{to}")).run()?;
        Ok(())
    }

    /// Opens the cache, making it anew where it is too large or cannot be read.
    fn open(&self) -> Result<Repository, Error> {
        let packs = fs::read_dir(self.cache.join("objects/pack")).map_or(0, Iterator::count);
        // A pack is two or three files.
        if packs > 3 * MOST_PACKS {
            self.remove()?;
        }
        if let Ok(repository) = Repository::open_bare(self.cache) {
            return Ok(repository);
        }
        self.remove()?;
        Repository::init_bare(self.cache).map_err(|e| self.failed(e.message()))
    }

    fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(self.cache) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(self.failed(&error.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn failed(&self, why: &str) -> Error {
        Error::Cache { folder: self.cache.to_owned(), why: why.to_owned() }
    }

    fn absent(&self, reference: &Reference) -> Error {
        let what = match (&reference.branch, &reference.tag) {
            (Some(branch), _) => format!("branch `{branch}`"),
            (_, Some(tag)) => format!("tag `{tag}`"),
            _ => format!("reference `{}`", reference.shown()),
        };
        Error::Absent { repository: without_credentials(self.address), reference: what }
    }
}

/// A revision as Flux writes it: `main@sha1:…`.
pub fn revision(source: &Source, commit: Oid) -> String {
    match source.reference.as_ref().filter(|reference| reference.commit.is_none()) {
        Some(reference) => format!("{}@sha1:{commit}", reference.shown()),
        None => format!("sha1:{commit}"),
    }
}

/// A folder from a repository's root.
pub fn folder(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

fn matches(pattern: &str, branch: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == branch,
        Some((before, after)) => {
            branch.len() > before.len() + after.len() && branch.starts_with(before) && branch.ends_with(after)
        }
    }
}
