//! Which files differ between two commits.
//!
//! A few small trees can stand for any number of files, if each holds the next one several times, or for a path of any
//! depth. So trees are compared without recursion, up to a limit.

use std::collections::{BTreeMap, BTreeSet};

use git2::{Oid, Repository};

use super::{Error, GitLocation, LINK_MODE, TREE_MODE, find_folder_tree, find_tree};

/// How many bytes of paths are compared.
const MAX_PATH_BYTES: usize = 16 << 20;

/// What a path counts in addition to its length.
const ENTRY_OVERHEAD: usize = 32;

/// The files below the folder of `place` that differ between two commits, relative to that folder. `None` if they are
/// too many, or if paths are not enough to know, because a symbolic link makes a file appear under another path.
pub fn changed_files(location: &GitLocation, from: Oid, to: Oid) -> Result<Option<Vec<String>>, Error> {
    let repository = location.open_repository()?;
    compare_commits(&repository, location, from, to).map_err(|error| location.to_unreadable(&error))
}

fn compare_commits(
    repository: &Repository,
    location: &GitLocation,
    from: Oid,
    to: Oid,
) -> Result<Option<Vec<String>>, git2::Error> {
    let (from, to) = (
        find_folder_tree(repository, from, &location.prefix)?,
        find_folder_tree(repository, to, &location.prefix)?,
    );
    if has_links(repository, [from, to])? {
        return Ok(None);
    }
    let mut paths = BTreeSet::new();
    let mut budget = MAX_PATH_BYTES;
    let mut open = vec![(String::new(), Some(from), Some(to))];
    while let Some((folder, from, to)) = open.pop() {
        let Some(entries) = list_both(repository, from, to)? else { return Ok(None) };
        for (name, sides) in entries {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let Some(left) = budget.checked_sub(path.len() + ENTRY_OVERHEAD) else { return Ok(None) };
            budget = left;
            let [from, to] = sides;
            if from == to {
                continue;
            }
            let [from_tree, to_tree] =
                sides.map(|side| side.filter(|(_, mode)| *mode == TREE_MODE).map(|(id, _)| id));
            if [from, to].iter().flatten().any(|(_, mode)| *mode != TREE_MODE) {
                paths.insert(path.clone());
            }
            if from_tree.is_some() || to_tree.is_some() {
                open.push((path, from_tree, to_tree));
            }
        }
    }
    Ok(Some(paths.into_iter().collect()))
}

/// The object and mode of an entry in each of two trees.
type Sides = [Option<(Oid, i32)>; 2];

/// The entries of two trees by name. `None` if a name is not UTF-8, or is in a tree twice.
fn list_both(
    repository: &Repository,
    from: Option<Oid>,
    to: Option<Oid>,
) -> Result<Option<BTreeMap<String, Sides>>, git2::Error> {
    let mut entries: BTreeMap<String, Sides> = BTreeMap::new();
    for (number, side) in [from, to].into_iter().enumerate() {
        let Some(id) = side else { continue };
        let tree = find_tree(repository, id)?;
        for entry in &tree {
            let Ok(name) = std::str::from_utf8(entry.name_bytes()) else { return Ok(None) };
            let sides = entries.entry(name.to_owned()).or_default();
            if sides.get_mut(number).and_then(|side| side.replace((entry.id(), entry.filemode()))).is_some() {
                return Ok(None);
            }
        }
    }
    Ok(Some(entries))
}

/// Whether there is a symbolic link below one of the trees. Each tree is read once, however often it occurs.
fn has_links(repository: &Repository, trees: [Oid; 2]) -> Result<bool, git2::Error> {
    let mut seen = BTreeSet::from(trees);
    let mut open = trees.to_vec();
    while let Some(id) = open.pop() {
        for entry in &find_tree(repository, id)? {
            match entry.filemode() {
                LINK_MODE => return Ok(true),
                TREE_MODE if seen.insert(entry.id()) => open.push(entry.id()),
                _ => {}
            }
        }
    }
    Ok(false)
}
