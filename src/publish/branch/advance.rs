//! Moves branches: all that are given or none, each only if it is still where it was.

use git2::{ErrorCode, Oid, Repository};

use super::Error;

/// A branch that is to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// Where it is; `None` when it does not exist.
    pub from: Option<Oid>,
    /// Where it goes.
    pub to: Oid,
}

/// Moves the branches. The first that is elsewhere, or that another process moves, stops all.
pub fn advance(repository: &Repository, updates: &[Update], why: &str) -> Result<(), Error> {
    let mut transaction = repository.transaction()?;
    for update in updates {
        let name = full(&update.branch);
        transaction.lock_ref(&name).map_err(|e| match e.code() {
            ErrorCode::Locked => Error::Locked(update.branch.clone()),
            _ => Error::Git(e),
        })?;
        if tip(repository, &update.branch)? != update.from {
            return Err(Error::Moved(update.branch.clone()));
        }
        transaction.set_target(&name, update.to, None, why)?;
    }
    Ok(transaction.commit()?)
}

/// The commit that a local branch is at.
pub fn tip(repository: &Repository, branch: &str) -> Result<Option<Oid>, Error> {
    match repository.find_reference(&full(branch)) {
        Ok(reference) => Ok(Some(reference.peel_to_commit()?.id())),
        Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Refuses a branch that a work tree shows.
pub fn not_checked_out(repository: &Repository, branch: &str) -> Result<(), Error> {
    let shows = |repository: &Repository| {
        let head = repository.find_reference("HEAD").ok();
        let target = head.and_then(|head| head.symbolic_target().ok().flatten().map(str::to_owned));
        !repository.is_bare() && target == Some(full(branch))
    };
    let names = repository.worktrees()?;
    let names = names.iter().filter_map(|name| name.ok().flatten());
    let linked = names.filter_map(|name| repository.find_worktree(name).ok());
    let mut linked = linked.filter_map(|worktree| Repository::open_from_worktree(&worktree).ok());
    let main = Repository::open(repository.commondir());
    if shows(repository) || main.is_ok_and(|main| shows(&main)) || linked.any(|linked| shows(&linked)) {
        return Err(Error::CheckedOut(branch.to_owned()));
    }
    Ok(())
}

pub(super) fn full(branch: &str) -> String {
    format!("refs/heads/{branch}")
}
