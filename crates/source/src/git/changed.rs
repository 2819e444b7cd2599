//! Which files differ between two commits.

use std::collections::BTreeSet;

use git2::{DiffOptions, Oid, Repository, Tree, TreeWalkMode, TreeWalkResult};

use super::{Error, LINK, Place, tree};

/// The files below the folder of `place` that differ between two commits, relative to that folder. `None` if
/// paths are not enough to know, because a symbolic link makes a file appear under another path.
pub fn changed(place: &Place, from: Oid, to: Oid) -> Result<Option<Vec<String>>, Error> {
    let repository = place.open()?;
    difference(&repository, place, from, to).map_err(|error| place.unreadable(&error))
}

fn difference(
    repository: &Repository,
    place: &Place,
    from: Oid,
    to: Oid,
) -> Result<Option<Vec<String>>, git2::Error> {
    let root = |commit| repository.find_tree(tree(repository, commit, &place.prefix)?);
    let (from, to) = (root(from)?, root(to)?);
    if has_links(&from)? || has_links(&to)? {
        return Ok(None);
    }
    let mut options = DiffOptions::new();
    options.ignore_submodules(false);
    let diff = repository.diff_tree_to_tree(Some(&from), Some(&to), Some(&mut options))?;
    let mut paths = BTreeSet::new();
    for delta in diff.deltas() {
        for file in [delta.old_file(), delta.new_file()] {
            let Some(path) = file.path().and_then(|path| path.to_str()) else { return Ok(None) };
            paths.insert(path.to_owned());
        }
    }
    Ok(Some(paths.into_iter().collect()))
}

fn has_links(tree: &Tree<'_>) -> Result<bool, git2::Error> {
    let mut found = false;
    let walked = tree.walk(TreeWalkMode::PreOrder, |_, entry| {
        found = found || entry.filemode() == LINK;
        if found { TreeWalkResult::Abort } else { TreeWalkResult::Ok }
    });
    // libgit2 treats stopping early as an error.
    if found { Ok(true) } else { walked.map(|()| false) }
}
