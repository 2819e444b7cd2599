//! Makes a branch of a git repository equal to a rendered tree. Blobs and trees are written directly to the
//! object database, without a work tree or an index, and unchanged ones are not written.
//!
//! [`BranchContent`] is the content of the branch, [`write_tree`] writes the objects of the new content,
//! [`create_commit`] creates a commit of them, and [`update_branches`] moves the branches, all or none, if they have not
//! moved in the meantime.
//! Until then, nothing that was written is reachable: if the process is killed, the branch is at the old
//! commit or at the new one. `remote` pushes.
//!
//! Facts: gitformat-pack(5), and "Git Objects" in the book Pro Git for the form of trees and commits.

use std::fmt;

use git2::{Oid, Repository};

use super::foreign_files;
use super::summary::Summary;
use super::tree::OutputTree;

mod base;
mod commit;
mod comparison;
mod folder;
pub mod hydrator;
mod layout;
mod names;
mod notes;
mod objects;
mod pack;
mod remote;
mod update;

pub use base::{BranchContent, BranchTip};
pub use commit::{CommitContent, Identity, create_commit};
pub use folder::BranchFolder;
pub use hydrator::DryCommit;
pub use layout::{BranchContents, BranchLayout, BuiltBranch, FileLayout};
pub use names::{check_local_names, find_excluding};
pub use notes::{NOTES_REF, write_notes};
pub use remote::{GitRemote, PushResult, RemoteBranches, matches_pattern};
pub use update::{BranchUpdate, find_tip, not_checked_out, update_branches};

/// A branch and folder, for messages: `branch rendered`, `folder out of branch main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchLocation {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The folder, empty for the root.
    pub folder: String,
}

impl fmt::Display for BranchLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folder.as_str() {
            "" => write!(f, "branch {}", self.branch),
            folder => write!(f, "folder {folder} of branch {}", self.branch),
        }
    }
}

/// Why a branch could not be written. No branch has moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The branch contains files that federate did not write.
    #[error("{}", foreign_files::explain_foreign_files(.name, .foreign, *.plan, "choose a new branch, or an empty folder of it with --branch-path"))]
    NotOwned {
        /// The branch.
        name: BranchLocation,
        /// The other files, sorted.
        foreign: Vec<String>,
        /// Whether it has a plan written by federate.
        plan: bool,
    },
    /// The `placements.yaml` is not a plan.
    #[error(
        "the placements.yaml of {name} is not a plan that federate can read ({why}), and federate only \
         replaces what it wrote: restore that file, or choose another branch or --branch-path"
    )]
    NotAPlan {
        /// The branch.
        name: BranchLocation,
        /// What is wrong with it.
        why: String,
    },
    /// The folder is not a valid path in a git tree, or is a file there.
    #[error("invalid folder `{folder}`: {why}")]
    Folder {
        /// The folder as it was given.
        folder: String,
        /// The reason.
        why: &'static str,
    },
    /// The branch name is invalid.
    #[error("`{0}` is not a valid branch name")]
    BranchName(String),
    /// A work tree has checked out the branch.
    #[error(
        "branch `{0}` is checked out, and its work tree would not be updated: choose another branch, or check out \
         another one first"
    )]
    CheckedOut(String),
    /// Another process holds the lock of the reference.
    #[error(
        "{reference} is locked: if no other git or federate is at work, one that was killed has left \
         `{0}.lock` in the repository's folder; remove that file", reference = describe_reference(.0)
    )]
    Locked(String),
    /// The names of two branches exclude each other.
    #[error(
        "git cannot store branch `{branch}` together with branch `{other}`{}, because one name is a folder of the other: \
         choose another name, or delete `{other}`{}", describe_remote(.remote.as_deref()), format_delete_command(.remote.as_deref(), .other)
    )]
    Excluded {
        /// The branch.
        branch: String,
        /// The existing branch.
        other: String,
        /// The remote that has it; `None` for a local branch.
        remote: Option<String>,
    },
    /// The repository has no such remote.
    #[error("the git repository has no remote `{0}` to push to: `git remote add {0} URL` adds it")]
    NoRemote(String),
    /// The branch moved in the meantime.
    #[error("branch `{0}` moved in the meantime")]
    Moved(String),
    /// The local branch and the remote branch have diverged.
    #[error(
        "branch `{branch}` and that of {remote} have diverged: bring the local one \
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

fn describe_remote(remote: Option<&str>) -> String {
    remote.map_or_else(String::new, |remote| format!(" of {remote}"))
}

/// A branch, or another reference, of a full name.
fn describe_reference(name: &str) -> String {
    match name.strip_prefix("refs/heads/") {
        Some(branch) => format!("branch `{branch}`"),
        None => format!("`{name}`"),
    }
}

/// The command that deletes a branch.
fn format_delete_command(remote: Option<&str>, branch: &str) -> String {
    match remote {
        Some(remote) => format!(" (`git push {remote} --delete {branch}`)"),
        None => format!(" (`git branch -D {branch}`)"),
    }
}

/// Writes the objects of `tree` that the repository does not have. Returns the tree of the new commit, and
/// what it changes; if nothing differs, writes nothing and returns the base's tree.
pub fn write_tree(
    repository: &Repository,
    base: &BranchContent,
    tree: &OutputTree,
) -> Result<(Oid, Summary), Error> {
    let desired = objects::DesiredTree::from_tree(tree)?;
    let (summary, new) = comparison::compare_trees(repository, base, &desired)?;
    if !summary.is_unchanged() {
        pack::store_objects(repository, &new)?;
    }
    let root = base.folder().replace_tree_in(repository, base.root(), desired.id())?;
    Ok((root, summary))
}
