//! Moves branches, all or none, each only if it has not moved in the meantime.
//!
//! A branch is locked while it moves, by a lock file as git defines it. A process that is killed at that time
//! would leave the lock file behind and block the branch. Therefore the process first records what it locks,
//! and the next run removes the locks that a killed process left.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use git2::{ErrorCode, Oid, Repository};

use super::Error;
use super::names::check_local_names;
use super::notes::NOTES_REF;
use crate::lock::FileLock;

/// The file in the repository's folder that records what is locked.
const NOTE_FILE: &str = "federate.lock";

/// How long a running process may hold a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A branch to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchUpdate {
    /// The branch, without `refs/heads/`; or [`NOTES_REF`].
    pub branch: String,
    /// The current commit; `None` if the branch does not exist.
    pub from: Option<Oid>,
    /// The new commit.
    pub to: Oid,
}

/// Moves the branches. If one has moved, or another process is moving it, none is moved.
pub fn update_branches(repository: &Repository, updates: &[BranchUpdate], why: &str) -> Result<(), Error> {
    if updates.is_empty() {
        return Ok(());
    }
    let mut lock = FileLock::lock_file(&repository.commondir().join(NOTE_FILE), || {})?;
    for branch in lock.read_note()?.lines() {
        remove_stale_lock(repository, branch)?;
    }
    let names: Vec<&str> = updates.iter().map(|update| update.branch.as_str()).collect();
    lock.write_note(&names.join("\n"))?;
    let moved = carry_out(repository, updates, why);
    lock.write_note("")?;
    moved
}

/// Removes the lock of a branch that a killed run left; other processes release theirs soon.
fn remove_stale_lock(repository: &Repository, branch: &str) -> Result<(), Error> {
    let path: PathBuf = repository.commondir().join(format!("{}.lock", to_ref_name(branch)));
    let mut left = LOCK_TIMEOUT;
    while fs::symlink_metadata(&path).is_ok() {
        if left.is_zero() {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
                _ => break,
            }
        }
        let pause = LOCK_TIMEOUT / 20;
        std::thread::sleep(pause);
        left = left.saturating_sub(pause);
    }
    Ok(())
}

fn carry_out(repository: &Repository, updates: &[BranchUpdate], why: &str) -> Result<(), Error> {
    let mut transaction = repository.transaction()?;
    for update in updates {
        let name = to_ref_name(&update.branch);
        transaction.lock_ref(&name).map_err(|e| {
            match (e.code(), check_local_names(repository, [&*update.branch])) {
                (ErrorCode::Locked, _) => Error::Locked(name.clone()),
                (_, Err(excluded @ Error::Excluded { .. })) => excluded,
                _ => Error::Git(e),
            }
        })?;
        if find_tip(repository, &update.branch)? != update.from {
            return Err(Error::Moved(update.branch.clone()));
        }
        transaction.set_target(&name, update.to, None, why)?;
    }
    Ok(transaction.commit()?)
}

/// The commit of a local branch, or of [`NOTES_REF`].
pub fn find_tip(repository: &Repository, branch: &str) -> Result<Option<Oid>, Error> {
    match repository.find_reference(&to_ref_name(branch)) {
        Ok(reference) => Ok(Some(reference.peel_to_commit()?.id())),
        Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Refuses a branch that is checked out in a work tree.
pub fn not_checked_out(repository: &Repository, branch: &str) -> Result<(), Error> {
    let names = repository.worktrees()?;
    let names = names.iter().filter_map(|name| name.ok().flatten());
    let linked = names.filter_map(|name| repository.find_worktree(name).ok());
    let mut linked = linked.filter_map(|worktree| Repository::open_from_worktree(&worktree).ok());
    let main = Repository::open(repository.commondir());
    if has_checked_out(repository, branch)
        || main.is_ok_and(|main| has_checked_out(&main, branch))
        || linked.any(|linked| has_checked_out(&linked, branch))
    {
        return Err(Error::CheckedOut(branch.to_owned()));
    }
    Ok(())
}

/// Whether the work tree of a repository shows a branch.
fn has_checked_out(repository: &Repository, branch: &str) -> bool {
    let head = repository.find_reference("HEAD").ok();
    let target = head.and_then(|head| head.symbolic_target().ok().flatten().map(str::to_owned));
    !repository.is_bare() && target == Some(to_ref_name(branch))
}

/// The full name of a branch, or of [`NOTES_REF`], which no branch is named like.
pub(super) fn to_ref_name(branch: &str) -> String {
    if branch == NOTES_REF { branch.to_owned() } else { format!("refs/heads/{branch}") }
}
