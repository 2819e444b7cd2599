//! Sources: a folder, or a revision of a git repository. A repository is polled by one `ls-remote` and fetched, without
//! history, into a bare cache below the state folder.
//!
//! The fetched commit is read by its id: if the branch moves meanwhile, the next reconciliation reads that. The cache holds
//! nothing that cannot be fetched again; a cache that is damaged is created again.
//!
//! Facts: git-ls-remote(1), git-fetch(1), gitglossary(7) ("refspec").

pub mod credentials;
pub(crate) mod github_app;
pub(crate) mod poll;
pub(crate) mod server;
pub(crate) mod submodules;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Oid, Reference as GitReference, Repository};

use federate_publish::branch::matches_pattern;
use federate_semver::VersionConstraint;
use federate_source::git::program::{self, GitCommand, GitLimits, without_credentials};
use federate_source::git::{self, AllowedSigners, GitLocation, ResolvedRevision, verify};
use federate_sync_api::{SourceRef, SyncSource, VerificationMode};

use crate::counters::MetricCounters;

/// Where the fetched commit is, in the cache.
const FETCHED_REF: &str = "refs/federate/source";
/// Where a former commit is, if it was fetched again.
const FORMER_REF: &str = "refs/federate/former";
/// Packs that the cache may have; then it is created again. Each fetch adds about one.
const MAX_PACKS: usize = 50;

/// What git may use to ask for references, and to fetch: those who choose the server need not be trusted.
const POLL_LIMITS: GitLimits = GitLimits { memory: 256 << 20, file: 16 << 20 };
pub(crate) const FETCH_LIMITS: GitLimits = GitLimits { memory: 1 << 30, file: 1 << 30 };
/// The bytes that the packs of a cache may have. A larger one is created again; submodules may not exceed it.
const MAX_CACHE_BYTES: u64 = 2 << 30;

/// Commits that are fetched of a reference that was fetched before.
const HISTORY_DEPTH: usize = 20;

/// Where a source is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceAddress {
    /// A folder.
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
    /// The repository does not have the reference.
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
    Refused(#[from] verify::VerifyError),
    /// A submodule is not fetched.
    #[error("the submodule {path}: {why}")]
    Submodule {
        /// Where it is in its repository.
        path: String,
        /// Why not.
        why: String,
    },
    /// The cache cannot be created.
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
pub struct AdvertisedRefs {
    /// The revision that is to be read: the commit, or the tag object.
    pub tip: String,
    /// The reference; of a range of versions, the tag that was chosen.
    pub reference: Option<SourceRef>,
    /// The branches that were asked about, without `refs/heads/`.
    pub branches: BTreeMap<String, String>,
}

/// What was fetched.
#[derive(Debug)]
pub struct FetchedRevision {
    /// Where the source was when it was fetched: the commit, or the tag object.
    pub tip: String,
    /// The repository, and the folder in it.
    pub location: GitLocation,
    /// The commit.
    pub resolved: ResolvedRevision,
    /// The commit that was fetched before.
    pub before: Option<Oid>,
    /// Whether this commit does not build on it: a branch was rewritten, or a tag was moved to other history.
    pub rewritten: bool,
    /// The commits of the submodules that are read.
    pub submodules: BTreeSet<Oid>,
}

/// A git repository that is polled and fetched.
#[derive(Debug)]
pub struct SourceRemote<'r> {
    /// Its address.
    pub address: &'r str,
    /// The source that names it.
    pub source: &'r SyncSource,
    /// The bare repository that holds what was fetched.
    pub cache: &'r Path,
    /// How long a call of git may take.
    pub timeout: Duration,
    /// Variables of the environment that give it credentials.
    pub variables: Vec<(String, OsString)>,
    /// Counts the git commands.
    pub counters: Option<&'r MetricCounters>,
}

impl SourceAddress {
    /// Where a source is; paths start at `folder`.
    pub fn from_source(source: &SyncSource, folder: &Path) -> Result<Self, String> {
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

impl SourceAddress {
    /// The folder, if it is one.
    pub(crate) fn as_folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) => Some(path),
            Self::Git(_) => None,
        }
    }
}

/// Whether git reads it as an address, not as a path: `scheme://…`, or `host:path`.
fn is_remote(url: &str) -> bool {
    let before_slash = url.split('/').next().unwrap_or_default();
    url.contains("://") || before_slash.contains(':')
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Git(address) => f.write_str(&without_credentials(address)),
        }
    }
}

/// Checks that exactly one reference is named, and that its name is valid.
pub(crate) fn check_reference(reference: &SourceRef) -> Result<(), String> {
    if reference.named_references().count() != 1 {
        return Err("name exactly one of `branch`, `tag`, `semver`, `name` and `commit`".to_owned());
    }
    if let Some(range) = &reference.semver {
        let error =
            format!("`{range}` is not a range of versions: write `1.2.x`, `~1.2` or `>=1.0.0 <2.0.0`");
        return VersionConstraint::parse(range).map(drop).ok_or(error);
    }
    if let Some(commit) = &reference.commit {
        let full = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        return if full { Ok(()) } else { Err(format!("`{commit}` is not the full hash of a commit")) };
    }
    let full = reference.full_name();
    if GitReference::is_valid_name(&full) {
        Ok(())
    } else {
        Err(format!("no reference can be called `{full}`"))
    }
}

impl SourceRemote<'_> {
    /// Where the source and some branches are: one `ls-remote`.
    pub fn poll_refs(&self, branches: &str) -> Result<AdvertisedRefs, Error> {
        let repository = self.open_cache()?;
        let reference = self.source.reference.clone().unwrap_or_default();
        let full = reference.full_name();
        let mut advertised =
            AdvertisedRefs { reference: self.source.reference.clone(), ..AdvertisedRefs::default() };
        let range = reference.semver.as_deref().and_then(VersionConstraint::parse);
        let mut tags: BTreeMap<String, String> = BTreeMap::new();
        let mut git = self.git_command(&repository, "ls-remote").with_limits(POLL_LIMITS);
        // The server is asked only for references that begin alike.
        let is_tag = range.is_some() || full.starts_with("refs/tags/");
        let is_branch = full.starts_with("refs/heads/") && !is_tag;
        if reference.commit.is_some() || is_tag || is_branch {
            let of_branches = is_branch && reference.commit.is_none() || !branches.is_empty();
            for (flag, asks) in [("--heads", of_branches), ("--tags", is_tag)] {
                git = if asks { git.arg(flag) } else { git };
            }
        }
        git = git.arg("--").arg(self.address);
        if let Some(commit) = &reference.commit {
            advertised.tip.clone_from(&commit.to_ascii_lowercase());
            if branches.is_empty() {
                return Ok(advertised);
            }
        } else if range.is_some() {
            git = git.arg("refs/tags/*");
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
            if let Some(tag) = name.strip_prefix("refs/tags/").filter(|tag| !tag.ends_with("^{}")) {
                tags.insert(tag.to_owned(), id.to_owned());
            }
            // The pattern also matches the ends of longer names.
            if let Some(branch) =
                name.strip_prefix("refs/heads/").filter(|name| matches_pattern(branches, name))
            {
                advertised.branches.insert(branch.to_owned(), id.to_owned());
            }
        }
        if let Some(range) = range
            && let Some(tag) = range.find_newest(tags.keys().map(String::as_str))
        {
            advertised.tip = tags.get(tag).cloned().unwrap_or_default();
            advertised.reference = Some(SourceRef { tag: Some(tag.to_owned()), ..SourceRef::default() });
        }
        if advertised.tip.is_empty() {
            return Err(self.absent_error(&reference));
        }
        Ok(advertised)
    }

    /// Fetches the revision unless the cache has it, and verifies it if the source asks for that. `tip` is where it was a
    /// moment ago.
    pub fn fetch_revision(
        &self,
        tip: &str,
        allowed_signers: AllowedSigners<'_>,
    ) -> Result<FetchedRevision, Error> {
        let repository = self.open_cache()?;
        let before = self.fetched_commit(&repository);
        if !self.has_revision(&repository, tip)
            && let Err(error) = self.fetch_into_cache(&repository)
        {
            drop(repository);
            if is_limit(&error) {
                self.remove_unfinished();
                return Err(error);
            }
            // A killed run may have left the cache damaged.
            tracing::debug!(%error, "fetching again");
            self.remove_cache()?;
            if let Err(error) = self.fetch_into_cache(&self.open_cache()?) {
                self.remove_unfinished();
                return Err(error);
            }
        }
        let repository = self.open_cache()?;
        let reference = self.source.reference.clone().unwrap_or_default();
        let location = self.cache_location();
        let mut resolved = location.resolve_revision(&repository, &self.fetched_reference())?;
        reference.display_name().clone_into(&mut resolved.rev);
        self.verify_signature(&location, &resolved, allowed_signers)?;
        let rewritten = self.can_move()
            && before
                .is_some_and(|before| git::builds_on(&repository, before, resolved.commit) == Some(false));
        let submodules = self.wanted_submodules(&repository, &location, &resolved)?;
        // The source may have moved since it was asked.
        let tip = self.fetched_tip(&repository).unwrap_or_else(|| tip.to_owned());
        Ok(FetchedRevision { tip, location, resolved, before, rewritten, submodules })
    }

    /// A revision that was read before, by its id; fetched again if the cache has lost it.
    pub fn open_former(&self, id: &str) -> Result<(GitLocation, ResolvedRevision, BTreeSet<Oid>), Error> {
        let location = self.cache_location();
        let repository = self.open_cache()?;
        if location.resolve_revision(&repository, id).is_err() {
            let git = self.git_command(&repository, "fetch").arg("--depth=1").arg("--no-tags");
            let git = git.arg("--no-write-fetch-head").with_limits(FETCH_LIMITS).arg("--").arg(self.address);
            git.arg(format!("+{id}:{FORMER_REF}")).run()?;
        }
        let resolved = location.resolve_revision(&repository, id)?;
        let submodules = self.wanted_submodules(&repository, &location, &resolved)?;
        Ok((location, resolved, submodules))
    }

    fn wanted_submodules(
        &self,
        repository: &Repository,
        location: &GitLocation,
        resolved: &ResolvedRevision,
    ) -> Result<BTreeSet<Oid>, Error> {
        if !self.source.recurse_submodules {
            return Ok(BTreeSet::new());
        }
        self.fetch_submodules(repository, resolved.commit, &location.prefix)
    }

    /// The same repository, as another source names it.
    pub(crate) fn with_source<'o>(&'o self, source: &'o SyncSource) -> SourceRemote<'o> {
        SourceRemote { source, variables: self.variables.clone(), ..*self }
    }

    fn cache_location(&self) -> GitLocation {
        GitLocation {
            git_dir: self.cache.to_owned(),
            work_tree: None,
            prefix: normalize_folder(&self.source.path),
            embedded: false,
        }
    }

    pub(crate) fn git_command<'g>(&self, repository: &'g Repository, what: &str) -> GitCommand<'g> {
        if let Some(tally) = self.counters {
            tally.count_git_command(what);
        }
        let git = GitCommand::new(repository, what).with_timeout(self.timeout).hide_remote_text();
        self.variables.iter().fold(git, |git, (name, value)| git.env(name, value))
    }

    /// The commit that was fetched last, also if a tag names it.
    fn fetched_commit(&self, repository: &Repository) -> Option<Oid> {
        let reference = repository.find_reference(&self.fetched_reference()).ok()?;
        Some(reference.peel_to_commit().ok()?.id())
    }

    /// Whether the reference may lead to another commit than before: a branch, which normally moves only forward, or a tag, which
    /// should not move.
    fn can_move(&self) -> bool {
        self.source.reference.as_ref().is_none_or(|reference| reference.commit.is_none())
    }

    /// The reference that is fetched to. A tag keeps its name, which its signature covers.
    fn fetched_reference(&self) -> String {
        match self.source.reference.as_ref().and_then(|reference| reference.tag.as_ref()) {
            Some(tag) => format!("refs/tags/{tag}"),
            None => FETCHED_REF.to_owned(),
        }
    }

    /// Whether the cache has the whole revision. Git moves a reference when everything that it leads to is there.
    fn has_revision(&self, repository: &Repository, tip: &str) -> bool {
        self.fetched_tip(repository).is_some_and(|id| id == tip)
    }

    /// Where the source was when it was fetched last.
    fn fetched_tip(&self, repository: &Repository) -> Option<String> {
        Some(repository.find_reference(&self.fetched_reference()).ok()?.target()?.to_string())
    }

    fn verify_signature(
        &self,
        location: &GitLocation,
        resolved: &ResolvedRevision,
        allowed: AllowedSigners<'_>,
    ) -> Result<(), Error> {
        let Some(verify) = &self.source.verify else { return Ok(()) };
        if matches!(verify.mode, VerificationMode::Head | VerificationMode::TagAndHead) {
            verify::verify_commit(location, resolved, allowed)?;
        }
        if matches!(verify.mode, VerificationMode::Tag | VerificationMode::TagAndHead) {
            verify::verify_tag(location, resolved, allowed)?;
        }
        Ok(())
    }

    fn fetch_into_cache(&self, repository: &Repository) -> Result<(), Error> {
        let reference = self.source.reference.clone().unwrap_or_default();
        let full = reference.full_name();
        let to = self.fetched_reference();
        let git = self.git_command(repository, "fetch").with_limits(FETCH_LIMITS);
        // The last commits tell whether the branch was rewritten, or the tag replaced.
        let depth =
            if self.can_move() && self.fetched_commit(repository).is_some() { HISTORY_DEPTH } else { 1 };
        let git =
            git.arg(format!("--depth={depth}")).arg("--no-tags").arg("--no-write-fetch-head").arg("--force");
        git.arg("--").arg(self.address).arg(format!("+{full}:{to}")).run()?;
        Ok(())
    }

    /// Opens the cache. It is created again if it is too large or cannot be read.
    fn open_cache(&self) -> Result<Repository, Error> {
        let packs = fs::read_dir(self.cache.join("objects/pack")).map_or(0, Iterator::count);
        // A pack is two or three files.
        if packs > 3 * MAX_PACKS || self.cache_size() > MAX_CACHE_BYTES {
            self.remove_cache()?;
        }
        if let Ok(repository) = Repository::open_bare(self.cache) {
            return Ok(repository);
        }
        self.remove_cache()?;
        Repository::init_bare(self.cache).map_err(|e| self.cache_error(e.message()))
    }

    fn remove_cache(&self) -> Result<(), Error> {
        match fs::remove_dir_all(self.cache) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(self.cache_error(&error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The bytes of the packs of the cache.
    fn cache_size(&self) -> u64 {
        let files = fs::read_dir(self.cache.join("objects/pack")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Refuses to fetch more into a cache that is full.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        if self.cache_size() > MAX_CACHE_BYTES {
            return Err(self.cache_error(&format!(
                "the repository and its submodules have more than {} GiB, the limit",
                MAX_CACHE_BYTES >> 30
            )));
        }
        Ok(())
    }

    /// Removes what a fetch that was stopped has left behind.
    fn remove_unfinished(&self) {
        let objects = self.cache.join("objects");
        let folders = fs::read_dir(&objects).into_iter().flatten().flatten().map(|folder| folder.path());
        let files = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        for file in files.filter(|file| file.file_name().to_string_lossy().starts_with("tmp_")) {
            // One that stays counts for the size of the cache.
            let _ = fs::remove_file(file.path());
        }
    }

    fn cache_error(&self, why: &str) -> Error {
        Error::Cache { folder: self.cache.to_owned(), why: why.to_owned() }
    }

    fn absent_error(&self, reference: &SourceRef) -> Error {
        let what = match (&reference.branch, &reference.tag) {
            (Some(branch), _) => format!("branch `{branch}`"),
            (_, Some(tag)) => format!("tag `{tag}`"),
            _ if reference.semver.is_some() => format!("tag in the range `{}`", reference.display_name()),
            _ => format!("reference `{}`", reference.display_name()),
        };
        Error::Absent { repository: without_credentials(self.address), reference: what }
    }
}

/// A revision as Flux writes it: `main@sha1:…`.
pub fn format_revision(source: &SyncSource, commit: Oid) -> String {
    match source.reference.as_ref().filter(|reference| reference.commit.is_none()) {
        Some(reference) => format!("{}@sha1:{commit}", reference.display_name()),
        None => format!("sha1:{commit}"),
    }
}

/// A folder from a repository's root.
pub fn normalize_folder(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

/// Whether a call of git has exceeded a limit, which it would again.
fn is_limit(error: &Error) -> bool {
    matches!(error, Error::Program(program::Error::Late { .. } | program::Error::TooLarge { .. }))
}
