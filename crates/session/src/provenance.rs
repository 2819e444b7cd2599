//! The origin of a rendering, and how a commit records it: in its message, and in trailers for scripts.

use git2::{Oid, Repository};

use federate_kubernetes::display_text::is_printable;
use federate_publish::Summary;
use federate_publish::artifact::compute_digest;
use federate_publish::branch::DryCommit;
use federate_reconcile::RepoRef;
use federate_source::git::{self, GitLocation};

/// The origin of a rendering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The commit, with `-dirty` if the work tree differs from it; `None` before the first commit.
    pub commit: Option<String>,
    /// The first line of its message.
    pub subject: String,
}

/// Why the commit that is rendered is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownCommit {
    /// There is no commit yet.
    #[error(
        "the layout `hydrator` names the commit that is rendered, and the repository has none yet: `git add -A` and `git commit` create one"
    )]
    NoCommit,
    /// The work tree differs from the commit.
    #[error(
        "the layout `hydrator` names the commit that is rendered, and the work tree has changes that are not committed: \
         commit them, or render a revision (--rev HEAD)"
    )]
    Dirty,
    /// The commit cannot be read.
    #[error("cannot read the commit {0}: {1}")]
    Unreadable(String, String),
}

impl Provenance {
    /// The origin of a work tree: the commit that is checked out, and whether files differ from it.
    pub fn from_work_tree(location: &GitLocation) -> Self {
        let head = location
            .open_repository()
            .ok()
            .and_then(|repository| Some(location.resolve_revision(&repository, "HEAD").ok()?.commit));
        // If the state is unknown, it counts as dirty.
        head.map_or_else(Self::default, |id| {
            Self::from_revision(location, id, git::is_modified(location).unwrap_or(true))
        })
    }

    /// The origin of a commit.
    pub fn from_commit(location: &GitLocation, id: Oid) -> Self {
        Self::from_revision(location, id, false)
    }

    fn from_revision(location: &GitLocation, id: Oid, dirty: bool) -> Self {
        let repository = location.open_repository().ok();
        let commit = repository.as_ref().and_then(|repository| repository.find_commit(id).ok());
        let subject = commit.and_then(|commit| Some(commit.summary().ok()??.to_owned()));
        let commit = Some(format!("{id}{}", if dirty { "-dirty" } else { "" }));
        Self { commit, subject: subject.unwrap_or_default() }
    }

    /// The repo's identity, which all its clones share; `None` if its remote `origin` has no address.
    pub fn find_repo(&self, location: &GitLocation) -> Option<RepoRef> {
        let repository = location.open_repository().ok()?;
        let remote = repository.find_remote("origin").ok()?;
        let url = remote.url().ok().filter(|url| !url.is_empty())?;
        Some(RepoRef::from_url(url, &location.prefix, self.commit.clone()))
    }

    /// The commit that was rendered, with what metadata says of it. `address` is that of its repository; by default, that of the
    /// remote `origin`.
    pub(crate) fn read_dry_commit(
        &self,
        repository: &Repository,
        location: &GitLocation,
        address: Option<&str>,
    ) -> Result<DryCommit, UnknownCommit> {
        let commit = self.commit.as_deref().ok_or(UnknownCommit::NoCommit)?;
        let id = Oid::from_str(commit).map_err(|_| UnknownCommit::Dirty)?;
        let origin = repository.find_remote("origin").ok();
        let origin = origin.as_ref().and_then(|remote| remote.url().ok());
        let address = git::program::without_credentials(address.or(origin).unwrap_or_default());
        DryCommit::read_commit(repository, id, &address, &location.prefix)
            .map_err(|error| UnknownCommit::Unreadable(commit.to_owned(), error.to_string()))
    }

    /// The commit that was rendered, without what follows its id if the work tree differs from it.
    pub fn commit_id(&self) -> Option<&str> {
        self.commit.as_deref()?.split('-').next()
    }

    /// The default commit message.
    pub(crate) fn format_message(&self, summary: &Summary) -> String {
        let Some(commit) = &self.commit else { return format!("Render the work tree\n\n{summary}") };
        let (id, dirty) =
            commit.split_once('-').map_or((commit.as_str(), ""), |(id, _)| (id, ", with changes"));
        let short: String = id.chars().take(8).collect();
        let subject: String = self.subject.chars().filter(|c| is_printable(*c)).take(60).collect();
        let subject = if subject.is_empty() { subject } else { format!(": {subject}") };
        format!("Render {short}{dirty}{subject}\n\n{summary}")
    }

    /// The trailers, one per line.
    pub(crate) fn format_trailers(&self, plan: &str) -> String {
        let source = self.commit.as_ref().map_or_else(String::new, |id| format!("Federate-Source: {id}\n"));
        let digest = compute_digest(plan.as_bytes());
        let version = env!("CARGO_PKG_VERSION");
        format!("{source}Federate-Version: {version}\nFederate-Plan: {digest}\n")
    }
}

/// Appends trailers to a message: to its existing trailers, or as a new paragraph.
pub(crate) fn with_trailers(message: &str, trailers: &str) -> String {
    let message = message.trim_end();
    let last = message.rsplit_once("\n\n").map(|(_, last)| last);
    let has_trailers = last.is_some_and(|last| {
        last.lines().all(|line| {
            let key = line.split_once(": ").map(|(key, _)| key);
            key.is_some_and(|key| {
                !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            })
        })
    });
    format!("{message}{}{trailers}", if has_trailers { "\n" } else { "\n\n" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_join_those_that_are_there() {
        let with = |message: &str| with_trailers(message, "Federate-Version: 1\n");
        assert_eq!(with("Render"), "Render\n\nFederate-Version: 1\n");
        assert_eq!(with("fix: a\n\nBody: of\ntext"), "fix: a\n\nBody: of\ntext\n\nFederate-Version: 1\n");
        assert_eq!(with("a\n\nSigned-off-by: b\n"), "a\n\nSigned-off-by: b\nFederate-Version: 1\n");
        assert_eq!(with("fix: subject only"), "fix: subject only\n\nFederate-Version: 1\n");
    }
}
