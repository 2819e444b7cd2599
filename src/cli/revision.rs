//! Which state of the repo is read: the work tree, or a git revision.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::{CommandError, completers};
use federate_repo::FileTree;
use federate_session::Provenance;
use federate_source::WorkTree;
use federate_source::git::{self, GitLocation, GitRevision, ResolvedRevision, verify};

/// Arguments that choose a revision.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repo options")]
pub(super) struct RevisionArgs {
    /// Read a git revision (branch, tag, hash, HEAD~3) instead of the work tree; nothing is checked out
    #[arg(long, value_name = "REV", add = ArgValueCompleter::new(completers::complete_revisions))]
    rev: Option<String>,

    /// Refuse revisions without a valid SSH signature by an allowed signer
    #[arg(long, hide_short_help = true)]
    verify_signatures: bool,

    /// The allowed signers: OpenSSH's format, armored OpenPGP keys [default: git's gpg.ssh.allowedSignersFile]
    #[arg(long, value_name = "FILE", requires = "verify_signatures", hide_short_help = true)]
    allowed_signers: Option<PathBuf>,
}

/// An opened state of the repo.
pub(super) enum RepoSource {
    WorkTree(WorkTree),
    Revision(Box<GitRevision>),
}

impl RevisionArgs {
    /// Opens the work tree, or the revision given with `--rev`.
    pub(super) fn open_repo(&self, repo: &Path) -> Result<RepoSource, CommandError> {
        match &self.rev {
            Some(rev) => self.open_at(repo, rev),
            None if self.verify_signatures => Err(CommandError::Failed(
                "--verify-signatures needs a revision, because a work tree is not signed: add one, for example \
                 --rev HEAD"
                    .to_owned(),
            )),
            None => Ok(RepoSource::WorkTree(WorkTree::open(repo).map_err(|e| CommandError::Failed(e.message))?)),
        }
    }

    /// The revision given with `--rev`.
    pub(super) fn name(&self) -> Option<&str> {
        self.rev.as_deref()
    }

    /// Whether the work tree is read.
    pub(super) fn is_work_tree(&self) -> bool {
        self.rev.is_none()
    }

    /// Opens the repo at a revision.
    pub(super) fn open_at(&self, repo: &Path, rev: &str) -> Result<RepoSource, CommandError> {
        self.open_revision(repo, rev)?.map_err(|e| to_command_error(&e))
    }

    /// Opens the repo at an earlier revision; `None` if the repo's folder does not exist there yet.
    pub(super) fn open_before(&self, repo: &Path, rev: &str) -> Result<Option<RepoSource>, CommandError> {
        match self.open_revision(repo, rev)? {
            Ok(opened) => Ok(Some(opened)),
            Err(git::Error::NoFolder { .. }) => Ok(None),
            Err(error) => Err(to_command_error(&error)),
        }
    }

    /// The contents of `REV:PATH`, verified like any other revision; `None` if `spec` is a file path.
    pub(super) fn read_file(&self, repo: &Path, spec: &str) -> Result<Option<Vec<u8>>, CommandError> {
        let Some((rev, path)) = git::rev_and_path(spec).filter(|_| !is_path(spec)) else { return Ok(None) };
        let (location, resolved) = self.resolve_revision(repo, rev)?;
        git::read_blob(&location, &resolved, path).map(Some).map_err(|e| to_command_error(&e))
    }

    /// The folder `REV:PATH`, verified like any other revision; `None` if `spec` is a file path.
    pub(super) fn open_folder(&self, repo: &Path, spec: &str) -> Result<Option<RepoSource>, CommandError> {
        let Some((rev, path)) = git::rev_and_path(spec).filter(|_| !is_path(spec)) else { return Ok(None) };
        let (mut location, resolved) = self.resolve_revision(repo, rev)?;
        path.trim_matches('/').trim_start_matches("./").clone_into(&mut location.prefix);
        let opened = GitRevision::open_folder(location, &resolved).map_err(|e| to_command_error(&e))?;
        Ok(Some(RepoSource::Revision(Box::new(opened))))
    }

    fn open_revision(&self, repo: &Path, rev: &str) -> Result<Result<RepoSource, git::Error>, CommandError> {
        let (location, resolved) = self.resolve_revision(repo, rev)?;
        let revision =
            GitRevision::open_folder(location, &resolved).and_then(GitRevision::with_local_submodules);
        Ok(revision.map(|revision| RepoSource::Revision(Box::new(revision))))
    }

    /// Resolves a revision once, and verifies it with `--verify-signatures`.
    fn resolve_revision(
        &self,
        repo: &Path,
        rev: &str,
    ) -> Result<(GitLocation, ResolvedRevision), CommandError> {
        let location = GitLocation::discover_around(repo).map_err(|e| to_command_error(&e))?;
        let repository = location.open_repository().map_err(|e| to_command_error(&e))?;
        let resolved = location.resolve_revision(&repository, rev).map_err(|e| to_command_error(&e))?;
        if self.verify_signatures {
            verify::verify_revision(&location, &resolved, self.allowed_signers.as_deref().into())
                .map_err(|e| to_command_error(&e))?;
        }
        Ok((location, resolved))
    }
}

/// Whether a name with a colon is a file path. Existing files do not decide this: otherwise a repo could
/// contain a file that shadows a revision.
fn is_path(spec: &str) -> bool {
    spec.starts_with('/') || spec.starts_with("./") || spec.starts_with("../")
}

fn to_command_error(error: &dyn std::fmt::Display) -> CommandError {
    CommandError::Failed(error.to_string())
}

impl RepoSource {
    /// Where the source comes from: the commit, or the state of the work tree.
    pub(super) fn find_provenance(&self, location: &GitLocation) -> Provenance {
        match self {
            Self::WorkTree(_) => Provenance::from_work_tree(location),
            Self::Revision(revision) => Provenance::from_commit(location, revision.commit()),
        }
    }

    /// The source to read files from.
    pub(super) fn source(&self) -> &dyn FileTree {
        match self {
            Self::WorkTree(tree) => tree,
            Self::Revision(revision) => revision.as_ref(),
        }
    }

    /// A file system path relative to the repo, if it is inside it.
    pub(super) fn relative_path(&self, path: &Path) -> Option<String> {
        match self {
            Self::WorkTree(tree) => tree.relative_path(path),
            Self::Revision(revision) => {
                let location = revision.location();
                let root = location.work_tree.as_ref()?.join(&location.prefix);
                // If the work tree does not have the folder, the output folder cannot be inside it.
                WorkTree::open(&root).ok()?.relative_path(path)
            }
        }
    }
}
