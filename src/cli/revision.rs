//! Which state of the repo is read: the work tree, or a git revision.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::{Fault, complete};
use federate_repo::Source;
use federate_session::Provenance;
use federate_source::WorkTree;
use federate_source::git::{self, GitLocation, Resolved, Revision, verify};

/// Arguments that choose a revision.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repo options")]
pub(super) struct RevisionArgs {
    /// Read a git revision (branch, tag, hash, HEAD~3) instead of the work tree; nothing is checked out
    #[arg(long, value_name = "REV", add = ArgValueCompleter::new(complete::revisions))]
    rev: Option<String>,

    /// Refuse revisions without a valid SSH signature by an allowed signer
    #[arg(long, hide_short_help = true)]
    verify_signatures: bool,

    /// The allowed signers: OpenSSH's format, armored OpenPGP keys [default: git's gpg.ssh.allowedSignersFile]
    #[arg(long, value_name = "FILE", requires = "verify_signatures", hide_short_help = true)]
    allowed_signers: Option<PathBuf>,
}

/// An opened state of the repo.
pub(super) enum Opened {
    WorkTree(WorkTree),
    Revision(Box<Revision>),
}

impl RevisionArgs {
    /// Opens the work tree, or the revision given with `--rev`.
    pub(super) fn open(&self, repo: &Path) -> Result<Opened, Fault> {
        match &self.rev {
            Some(rev) => self.open_at(repo, rev),
            None if self.verify_signatures => Err(Fault::Failed(
                "--verify-signatures needs a revision, because a work tree is not signed: add one, for example \
                 --rev HEAD"
                    .to_owned(),
            )),
            None => Ok(Opened::WorkTree(WorkTree::open(repo).map_err(|e| Fault::Failed(e.message))?)),
        }
    }

    /// Whether the work tree is read.
    pub(super) fn is_work_tree(&self) -> bool {
        self.rev.is_none()
    }

    /// Opens the repo at a revision.
    pub(super) fn open_at(&self, repo: &Path, rev: &str) -> Result<Opened, Fault> {
        self.revision(repo, rev)?.map_err(|e| failed(&e))
    }

    /// Opens the repo at an earlier revision; `None` if the repo's folder does not exist there yet.
    pub(super) fn open_before(&self, repo: &Path, rev: &str) -> Result<Option<Opened>, Fault> {
        match self.revision(repo, rev)? {
            Ok(opened) => Ok(Some(opened)),
            Err(git::Error::NoFolder { .. }) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The contents of `REV:PATH`, verified like any other revision; `None` if `spec` is a file path.
    pub(super) fn file(&self, repo: &Path, spec: &str) -> Result<Option<Vec<u8>>, Fault> {
        let Some((rev, path)) = git::rev_and_path(spec).filter(|_| !is_path(spec)) else { return Ok(None) };
        let (place, resolved) = self.resolve(repo, rev)?;
        git::blob(&place, &resolved, path).map(Some).map_err(|e| failed(&e))
    }

    /// The folder `REV:PATH`, verified like any other revision; `None` if `spec` is a file path.
    pub(super) fn folder(&self, repo: &Path, spec: &str) -> Result<Option<Opened>, Fault> {
        let Some((rev, path)) = git::rev_and_path(spec).filter(|_| !is_path(spec)) else { return Ok(None) };
        let (mut place, resolved) = self.resolve(repo, rev)?;
        path.trim_matches('/').trim_start_matches("./").clone_into(&mut place.prefix);
        let opened = Revision::open(place, &resolved).map_err(|e| failed(&e))?;
        Ok(Some(Opened::Revision(Box::new(opened))))
    }

    fn revision(&self, repo: &Path, rev: &str) -> Result<Result<Opened, git::Error>, Fault> {
        let (place, resolved) = self.resolve(repo, rev)?;
        let revision = Revision::open(place, &resolved).and_then(Revision::with_local_submodules);
        Ok(revision.map(|revision| Opened::Revision(Box::new(revision))))
    }

    /// Resolves a revision once, and verifies it with `--verify-signatures`.
    fn resolve(&self, repo: &Path, rev: &str) -> Result<(GitLocation, Resolved), Fault> {
        let place = GitLocation::discover_around(repo).map_err(|e| failed(&e))?;
        let repository = place.open().map_err(|e| failed(&e))?;
        let resolved = place.resolve(&repository, rev).map_err(|e| failed(&e))?;
        if self.verify_signatures {
            verify::verify(&place, &resolved, self.allowed_signers.as_deref().into())
                .map_err(|e| failed(&e))?;
        }
        Ok((place, resolved))
    }
}

/// Whether a name with a colon is a file path. Existing files do not decide this: otherwise a repo could
/// contain a file that shadows a revision.
fn is_path(spec: &str) -> bool {
    spec.starts_with('/') || spec.starts_with("./") || spec.starts_with("../")
}

fn failed(error: &dyn std::fmt::Display) -> Fault {
    Fault::Failed(error.to_string())
}

impl Opened {
    /// Where the source comes from: the commit, or the state of the work tree.
    pub(super) fn provenance(&self, place: &GitLocation) -> Provenance {
        match self {
            Self::WorkTree(_) => Provenance::of_work_tree(place),
            Self::Revision(revision) => Provenance::of_commit(place, revision.commit()),
        }
    }

    /// The source to read files from.
    pub(super) fn source(&self) -> &dyn Source {
        match self {
            Self::WorkTree(tree) => tree,
            Self::Revision(revision) => revision.as_ref(),
        }
    }

    /// A file system path relative to the repo, if it is inside it.
    pub(super) fn relative(&self, path: &Path) -> Option<String> {
        match self {
            Self::WorkTree(tree) => tree.relative(path),
            Self::Revision(revision) => {
                let place = revision.place();
                let root = place.work_tree.as_ref()?.join(&place.prefix);
                // If the work tree does not have the folder, the output folder cannot be inside it.
                WorkTree::open(&root).ok()?.relative(path)
            }
        }
    }
}
