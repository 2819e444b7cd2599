//! Whether a branch was moved to a commit that does not build on the one before, in clones that may be cut off.

use std::collections::BTreeSet;

use git2::{Oid, Repository};

/// The most commits that are looked at.
const MOST: usize = 10_000;

/// Whether `to` builds on `from`. `None` where the clone is cut off before that can be told.
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
    // What builds on a parent of the commit, and not on the commit, has left it out.
    let aside = parents(repository, from)?.iter().any(|parent| seen.contains(parent));
    (whole || aside).then_some(false)
}

/// The parents that a commit names, whether or not they are there.
fn parents(repository: &Repository, commit: Oid) -> Option<Vec<Oid>> {
    let odb = repository.odb().ok()?;
    let object = odb.read(commit).ok()?;
    let text = String::from_utf8_lossy(object.data());
    let lines = text.lines().take_while(|line| !line.is_empty());
    Some(lines.filter_map(|line| Oid::from_str(line.strip_prefix("parent ")?).ok()).collect())
}
