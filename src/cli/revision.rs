//! Which state of the repo is read: the work tree, or a revision of git.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Fault;
use federate_repo::Source;
use federate_session::Provenance;
use federate_source::WorkTree;
use federate_source::git::{self, Place, Resolved, Revision, verify};

/// Arguments that choose a revision.
#[derive(Debug, Args)]
pub(super) struct RevisionArgs {
    /// Read a git revision (branch, tag, hash, HEAD~3) rather than the work tree; nothing is checked out
    #[arg(long, value_name = "REV")]
    rev: Option<String>,

    /// Refuse revisions whose commit or tag has no good SSH signature by a key of the allowed signers
    #[arg(long)]
    verify_signatures: bool,

    /// The keys that may sign, in OpenSSH's format [default: git's `gpg.ssh.allowedSignersFile`]
    #[arg(long, value_name = "FILE", requires = "verify_signatures")]
    allowed_signers: Option<PathBuf>,
}

/// A state of the repo, to be read.
pub(super) enum Opened {
    WorkTree(WorkTree),
    Revision(Box<Revision>),
}

impl RevisionArgs {
    /// The work tree, or the revision that is named.
    pub(super) fn open(&self, repo: &Path) -> Result<Opened, Fault> {
        match &self.rev {
            Some(rev) => self.open_at(repo, rev),
            None if self.verify_signatures => Err(Fault::Failed(
                "--verify-signatures needs a revision: a work tree is not signed; name one, for example \
                 --rev HEAD"
                    .to_owned(),
            )),
            None => Ok(Opened::WorkTree(WorkTree::open(repo).map_err(|e| Fault::Failed(e.message))?)),
        }
    }

    /// The repo at a revision.
    pub(super) fn open_at(&self, repo: &Path, rev: &str) -> Result<Opened, Fault> {
        self.revision(repo, rev)?.map_err(|e| failed(&e))
    }

    /// The repo at an earlier revision; `None` where that does not have the repo's folder yet.
    pub(super) fn open_before(&self, repo: &Path, rev: &str) -> Result<Option<Opened>, Fault> {
        match self.revision(repo, rev)? {
            Ok(opened) => Ok(Some(opened)),
            Err(git::Error::NoFolder { .. }) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The contents of `REV:PATH`, which is verified like any other revision; `None` where that is no
    /// such name, but a file's.
    pub(super) fn file(&self, repo: &Path, spec: &str) -> Result<Option<Vec<u8>>, Fault> {
        let Some((rev, path)) = git::rev_and_path(spec).filter(|_| !is_path(spec)) else { return Ok(None) };
        let (place, resolved) = self.resolve(repo, rev)?;
        git::blob(&place, &resolved, path).map(Some).map_err(|e| failed(&e))
    }

    fn revision(&self, repo: &Path, rev: &str) -> Result<Result<Opened, git::Error>, Fault> {
        let (place, resolved) = self.resolve(repo, rev)?;
        Ok(Revision::open(place, &resolved).map(|revision| Opened::Revision(Box::new(revision))))
    }

    /// Resolves a revision, once, and verifies it where that is asked for.
    fn resolve(&self, repo: &Path, rev: &str) -> Result<(Place, Resolved), Fault> {
        let place = Place::of(repo).map_err(|e| failed(&e))?;
        let repository = place.open().map_err(|e| failed(&e))?;
        let resolved = place.resolve(&repository, rev).map_err(|e| failed(&e))?;
        if self.verify_signatures {
            verify::verify(&place, &resolved, self.allowed_signers.as_deref()).map_err(|e| failed(&e))?;
        }
        Ok((place, resolved))
    }
}

/// Whether a name with a colon in it is a file's all the same. What a file is called in the working
/// directory does not decide that: a repo could bring one that is called like a revision.
fn is_path(spec: &str) -> bool {
    spec.starts_with('/') || spec.starts_with("./") || spec.starts_with("../")
}

fn failed(error: &dyn std::fmt::Display) -> Fault {
    Fault::Failed(error.to_string())
}

impl Opened {
    /// What is read, for those who look at the result.
    pub(super) fn provenance(&self, place: &Place) -> Provenance {
        match self {
            Self::WorkTree(_) => Provenance::of_work_tree(place),
            Self::Revision(revision) => Provenance::of_commit(place, revision.commit()),
        }
    }

    /// Its files.
    pub(super) fn source(&self) -> &dyn Source {
        match self {
            Self::WorkTree(tree) => tree,
            Self::Revision(revision) => revision.as_ref(),
        }
    }

    /// A place of the file system as a path within the repo, if it is one.
    pub(super) fn relative(&self, path: &Path) -> Option<String> {
        match self {
            Self::WorkTree(tree) => tree.relative(path),
            Self::Revision(revision) => {
                let place = revision.place();
                let root = place.work_tree.as_ref()?.join(&place.prefix);
                // What the work tree does not have, it has no output folder in.
                WorkTree::open(&root).ok()?.relative(path)
            }
        }
    }
}
