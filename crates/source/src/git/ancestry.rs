//! How two commits are related, in possibly shallow clones: whether one descends from the other, and where two
//! branches parted.

use std::collections::BTreeSet;

use git2::{Oid, Repository};

/// The largest number of commits that are visited.
const MAX_COMMITS: usize = 10_000;

/// Whether `to` descends from `from`. `None` if the clone is too shallow to know.
pub fn builds_on(repository: &Repository, from: Oid, to: Oid) -> Option<bool> {
    let mut seen = BTreeSet::from([to]);
    let mut open = vec![to];
    let mut whole = true;
    while let Some(next) = open.pop() {
        if next == from {
            return Some(true);
        }
        match read_parents(repository, next) {
            Some(parents) => open.extend(parents.into_iter().filter(|parent| seen.insert(*parent))),
            None => whole = false,
        }
        if seen.len() > MAX_COMMITS {
            whole = false;
            break;
        }
    }
    // A commit that descends from a parent of `from` but not from `from` has dropped it.
    let aside = read_parents(repository, from)?.iter().any(|parent| seen.contains(parent));
    (whole || aside).then_some(false)
}

/// The commit where the histories of `from` and `to` parted; `from` itself if `to` descends from it. `None` if the clone
/// has no such commit.
pub fn merge_base(repository: &Repository, from: Oid, to: Oid) -> Option<Oid> {
    let found = repository.merge_base(from, to).ok();
    found.or_else(|| (builds_on(repository, from, to) == Some(true)).then_some(from))
}

/// The default branch of the remote, as a revision: `origin/main`. It is the branch that the clone recorded
/// (`origin/HEAD`), or else `main` or `master` of origin, or of the clone itself.
pub fn default_branch(repository: &Repository) -> Option<String> {
    recorded_default_branch(repository).or_else(|| {
        let usual = ["origin/main", "origin/master", "main", "master"];
        usual.into_iter().find(|name| repository.revparse_single(name).is_ok()).map(str::to_owned)
    })
}

/// The default branch of the remote `origin` as a clone recorded it, such as `origin/main`.
pub fn recorded_default_branch(repository: &Repository) -> Option<String> {
    let head = repository.find_reference("refs/remotes/origin/HEAD").ok()?;
    let name = head.symbolic_target().ok().flatten()?.strip_prefix("refs/remotes/")?.to_owned();
    repository.revparse_single(&name).ok().map(|_| name)
}

/// The branch that is checked out, which need not have a commit yet; `None` if a commit is checked out without one.
pub fn current_branch(repository: &Repository) -> Option<String> {
    let head = repository.find_reference("HEAD").ok()?;
    head.symbolic_target().ok().flatten()?.strip_prefix("refs/heads/").map(str::to_owned)
}

/// The names of branches, of remote branches and of tags, sorted.
pub fn names_of_revisions(repository: &Repository) -> Vec<String> {
    let Ok(references) = repository.references() else { return Vec::new() };
    let names = references.filter_map(Result::ok).filter_map(|one| Some(one.shorthand().ok()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The parents named in a commit, whether or not they exist in the clone.
fn read_parents(repository: &Repository, commit: Oid) -> Option<Vec<Oid>> {
    let odb = repository.odb().ok()?;
    let object = odb.read(commit).ok()?;
    let text = String::from_utf8_lossy(object.data());
    let lines = text.lines().take_while(|line| !line.is_empty());
    Some(lines.filter_map(|line| Oid::from_str(line.strip_prefix("parent ")?).ok()).collect())
}
