//! Whether a branch was moved to a commit that does not descend from the previous one, in possibly shallow
//! clones.

use std::collections::BTreeSet;

use git2::{Oid, Repository};

/// The largest number of commits that are visited.
const MOST: usize = 10_000;

/// Whether `to` descends from `from`. `None` if the clone is too shallow to know.
pub fn builds_on(repository: &Repository, from: Oid, to: Oid) -> Option<bool> {
    let mut seen = BTreeSet::from([to]);
    let mut open = vec![to];
    let mut whole = true;
    while let Some(next) = open.pop() {
        if next == from {
            return Some(true);
        }
        match parents(repository, next) {
            Some(parents) => open.extend(parents.into_iter().filter(|parent| seen.insert(*parent))),
            None => whole = false,
        }
        if seen.len() > MOST {
            whole = false;
            break;
        }
    }
    // A commit that descends from a parent of `from` but not from `from` has dropped it.
    let aside = parents(repository, from)?.iter().any(|parent| seen.contains(parent));
    (whole || aside).then_some(false)
}

/// The parents named in a commit, whether or not they exist in the clone.
fn parents(repository: &Repository, commit: Oid) -> Option<Vec<Oid>> {
    let odb = repository.odb().ok()?;
    let object = odb.read(commit).ok()?;
    let text = String::from_utf8_lossy(object.data());
    let lines = text.lines().take_while(|line| !line.is_empty());
    Some(lines.filter_map(|line| Oid::from_str(line.strip_prefix("parent ")?).ok()).collect())
}
