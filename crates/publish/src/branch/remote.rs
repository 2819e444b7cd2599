//! The remote of `--push`: reads its branches, and moves them without force.
//!
//! The `git` program fetches and pushes, so that its credentials, proxies and SSH configuration apply. Facts:
//! git-ls-remote(1), git-fetch(1), git-push(1) (`--porcelain`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::Duration;

use git2::{ErrorCode, Oid, Repository};

use super::notes::NOTES_REF;
use super::update::{find_tip, to_ref_name};
use super::{BranchUpdate, Error, find_excluding};
use federate_source::git::program::{self, GitCommand};

/// A remote repository.
#[derive(Clone, Debug)]
pub struct GitRemote {
    address: String,
    variables: Vec<(String, OsString)>,
    timeout: Option<Duration>,
}

/// The branches of a remote that matter for a commit.
#[derive(Clone, Debug, Default)]
pub struct RemoteBranches {
    /// The commits of those that are written.
    pub tips: BTreeMap<String, Oid>,
    /// The commit of [`NOTES_REF`].
    pub notes: Option<Oid>,
    /// The names of these and of branches that may exclude them.
    names: BTreeSet<String>,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushResult {
    /// The remote accepted all updates.
    Done,
    /// A branch moved in the meantime; no update was accepted.
    Moved,
}

impl GitRemote {
    /// A remote, by its configured name or its URL.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), variables: Vec::new(), timeout: None }
    }

    /// Sets environment variables for `git`, and a time limit for each call of it.
    #[must_use]
    pub fn with_connection(self, variables: Vec<(String, OsString)>, timeout: Duration) -> Self {
        Self { variables, timeout: Some(timeout), ..self }
    }

    fn git_command<'r>(&self, repository: &'r Repository, what: &str) -> GitCommand<'r> {
        let mut git = GitCommand::new(repository, what);
        for (name, value) in &self.variables {
            git = git.env(name, value);
        }
        match self.timeout {
            Some(timeout) => git.with_timeout(timeout),
            None => git,
        }
    }

    /// The remote's branches, fetched. `pattern` is a branch, or a pattern with `*`; `others` are further branches, patterns,
    /// or [`NOTES_REF`], which nothing excludes.
    pub fn fetch_branches(
        &self,
        repository: &Repository,
        pattern: &str,
        others: &[String],
    ) -> Result<RemoteBranches, Error> {
        self.check_exists(repository)?;
        let mut git =
            self.git_command(repository, "ls-remote").arg("--").arg(&self.address).arg(to_ref_name(pattern));
        // Branches that exclude those of the pattern: its folders, and what is below it.
        for folder in pattern.match_indices('/').filter_map(|(at, _)| pattern.get(..at)) {
            git = git.arg(to_ref_name(folder));
        }
        for other in others {
            git = git.arg(to_ref_name(other));
        }
        let listed = git.arg(to_ref_name(&format!("{pattern}/*"))).run()?;
        let mut found = RemoteBranches::default();
        for line in listed.lines() {
            let Some((id, name)) = line.split_once('\t') else { continue };
            if name == NOTES_REF {
                found.notes = Some(Oid::from_str(id)?);
            }
            // The pattern also matches the ends of longer names.
            let Some(branch) = name.strip_prefix("refs/heads/") else { continue };
            found.names.insert(branch.to_owned());
            let patterns = std::iter::once(pattern).chain(others.iter().map(String::as_str));
            if patterns.into_iter().any(|pattern| matches_pattern(pattern, branch)) {
                found.tips.insert(branch.to_owned(), Oid::from_str(id)?);
            }
        }
        let odb = repository.odb()?;
        let notes = found.notes.iter().map(|id| (NOTES_REF, *id));
        let wanted = found.tips.iter().map(|(branch, id)| (branch.as_str(), *id)).chain(notes);
        let missing: Vec<&str> = wanted.filter(|(_, id)| !odb.exists(*id)).map(|(name, _)| name).collect();
        if !missing.is_empty() {
            self.fetch_into_repository(repository, &missing)?;
            odb.refresh()?;
        }
        Ok(found)
    }

    /// Refuses branches that cannot be stored together with one that the remote has.
    pub fn check_names<'w>(
        &self,
        remote_branches: &RemoteBranches,
        names: impl IntoIterator<Item = &'w str>,
    ) -> Result<(), Error> {
        match find_excluding(names, &remote_branches.names) {
            Some((branch, other)) => Err(Error::Excluded {
                branch: branch.to_owned(),
                other: other.to_owned(),
                remote: Some(program::without_credentials(&self.address)),
            }),
            None => Ok(()),
        }
    }

    /// Refuses a name that git would not find; URLs and paths are left to git.
    fn check_exists(&self, repository: &Repository) -> Result<(), Error> {
        let is_name = !self.address.contains(['/', ':', '\\']);
        match repository.find_remote(&self.address) {
            Err(e) if is_name && e.code() == ErrorCode::NotFound => {
                Err(Error::NoRemote(self.address.clone()))
            }
            _ => Ok(()),
        }
    }

    fn fetch_into_repository(&self, repository: &Repository, branches: &[&str]) -> Result<(), Error> {
        let mut git = self.git_command(repository, "fetch").arg("--no-tags").arg("--no-write-fetch-head");
        if repository.is_shallow() {
            // The history of rendered branches can be far larger than that of their source.
            git = git.arg("--depth=1");
        }
        git = git.arg("--").arg(&self.address);
        for branch in branches {
            git = git.arg(to_ref_name(branch));
        }
        git.run()?;
        Ok(())
    }

    /// Moves the remote's branches, all or none.
    pub fn push_updates(
        &self,
        repository: &Repository,
        updates: &[BranchUpdate],
    ) -> Result<PushResult, Error> {
        let mut git = self.git_command(repository, "push").arg("--porcelain").arg("--no-follow-tags");
        if updates.len() > 1 {
            git = git.arg("--atomic");
        }
        git = git.arg("--").arg(&self.address);
        for update in updates {
            git = git.arg(format!("{}:{}", update.to, to_ref_name(&update.branch)));
        }
        match git.run() {
            Ok(_) => Ok(PushResult::Done),
            Err(program::Error::Failed { said: stderr, .. }) if is_concurrent_update(&stderr) => {
                Ok(PushResult::Moved)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The commit to build on, if both the local repository and the remote have the branch: the one that is
    /// ahead.
    pub fn find_base(
        &self,
        repository: &Repository,
        branch: &str,
        fetched: Option<Oid>,
    ) -> Result<Option<Oid>, Error> {
        let local = find_tip(repository, branch)?;
        let (Some(local), Some(fetched)) = (local, fetched) else { return Ok(local.or(fetched)) };
        for (ahead, behind) in [(local, fetched), (fetched, local)] {
            if ahead == behind || repository.graph_descendant_of(ahead, behind).unwrap_or(false) {
                return Ok(Some(ahead));
            }
        }
        let remote = program::without_credentials(&self.address);
        Err(Error::Diverged { branch: branch.to_owned(), remote })
    }
}

/// Whether the remote refused because a branch has moved, or because of a concurrent push.
fn is_concurrent_update(stderr: &str) -> bool {
    // A name that excludes the branch stays: another attempt meets it again.
    let excluded = stderr.contains("; cannot create");
    let signs = [
        "[rejected]",
        "cannot lock ref",
        "failed to update ref",
        "incorrect old value",
        "reference already exists",
    ];
    !excluded && signs.iter().any(|sign| stderr.contains(sign))
}

/// Whether the name of a branch is a name or has the form `START*END`.
pub fn matches_pattern(pattern: &str, branch: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == branch,
        Some((before, after)) => {
            branch.len() > before.len() + after.len() && branch.starts_with(before) && branch.ends_with(after)
        }
    }
}
