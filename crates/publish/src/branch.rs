//! Makes a branch of a git repository hold exactly a rendered tree: blobs and trees go straight to the
//! object database, without work tree or index, and what stays the same is not touched.
//!
//! [`Base`] is what the branch holds, [`build`] writes the objects of what it is to hold, [`commit`]
//! makes a commit of them, and [`advance`] moves the branches, all or none, if they are still where
//! they were. Until then nothing that was written is reachable: a kill at any moment leaves the
//! branch at the old commit or at the new one. `remote` pushes.
//!
//! Facts: gitformat-pack(5), and "Git Objects" of the book Pro Git for the form of trees and commits.

use std::fmt;

use git2::{Oid, Repository};

use super::foreign;
use super::summary::Summary;
use super::tree::Tree;

mod advance;
mod base;
mod commit;
mod compare;
mod folder;
mod layout;
mod objects;
mod pack;
mod remote;

pub use advance::{Update, advance, not_checked_out, tip};
pub use base::Base;
pub use commit::{Commit, Identity, commit};
pub use folder::Folder;
pub use layout::{Bases, Built, Layout};
pub use remote::{Pushed, Remote};

/// A place within a branch, for messages: `branch rendered`, `folder out of branch main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The folder, empty for the root.
    pub folder: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folder.as_str() {
            "" => write!(f, "branch {}", self.branch),
            folder => write!(f, "folder {folder} of branch {}", self.branch),
        }
    }
}

/// Why a branch could not be written. No branch has moved then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It holds files that federate did not write.
    #[error("{}", foreign::refusal(.name, .foreign, *.plan, "choose a new branch, or an empty folder of it with --path"))]
    NotOwned {
        /// The branch.
        name: Name,
        /// What else it holds, sorted.
        foreign: Vec<String>,
        /// Whether it has a plan of federate's.
        plan: bool,
    },
    /// There is a `placements.yaml`, but it is no plan.
    #[error(
        "the placements.yaml of {name} is no plan that federate can read ({why}), so it may not be federate's \
         to replace: restore that file, or choose another branch or --path"
    )]
    NotAPlan {
        /// The branch.
        name: Name,
        /// What is wrong with it.
        why: String,
    },
    /// The folder cannot be one of a git tree, or something else stands there.
    #[error("`{folder}` cannot be a folder of a branch: {why}")]
    Folder {
        /// The folder as it was named.
        folder: String,
        /// Why not.
        why: &'static str,
    },
    /// No branch can have that name.
    #[error("no branch can be called `{0}`")]
    BranchName(String),
    /// A work tree shows the branch.
    #[error(
        "branch `{0}` is checked out, and its work tree would not follow: choose another branch, or check out \
         another one first"
    )]
    CheckedOut(String),
    /// Another process holds the branch's lock.
    #[error(
        "branch `{0}` is locked: if no other git or federate is at work, one that was killed has left \
         `refs/heads/{0}.lock` in the repository's folder; remove that file"
    )]
    Locked(String),
    /// The branch moved meanwhile.
    #[error("branch `{0}` moved meanwhile")]
    Moved(String),
    /// The local branch and the remote's went different ways.
    #[error(
        "branch `{branch}` and that of {remote} each have commits that the other has not: bring the local one \
         to where it belongs (`git branch -f {branch} …`, or `git branch -D {branch}` if it can go)"
    )]
    Diverged {
        /// The branch.
        branch: String,
        /// The remote.
        remote: String,
    },
    /// The `git` program failed.
    #[error(transparent)]
    Program(#[from] federate_source::git::program::Error),
    /// The repository cannot be read or written.
    #[error("git: {}", .0.message())]
    Git(#[from] git2::Error),
    /// The operating system refused.
    #[error("cannot write to the git repository: {0}")]
    Io(#[from] std::io::Error),
}

/// Writes whatever of `tree` the repository does not have yet. Gives the tree of the commit that is to
/// be made, and what it changes; where nothing differs, nothing is written, and it is the base's own.
pub fn build(repository: &Repository, base: &Base, tree: &Tree) -> Result<(Oid, Summary), Error> {
    let wanted = objects::DesiredTree::of(tree)?;
    let (summary, new) = compare::compare(repository, base, &wanted)?;
    if !summary.is_unchanged() {
        pack::store(repository, &new)?;
    }
    let root = base.folder().put(repository, base.root(), wanted.id())?;
    Ok((root, summary))
}
