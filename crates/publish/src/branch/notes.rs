//! Notes about commits, in which hydrators say what they have rendered, also where the rendering did not change.
//!
//! Facts: git-notes(1); the tree of a notes commit, whose names are the ids of the commits, split after two digits at any
//! level; `refs/notes/hydrator.metadata` of Argo CD's source hydrator, which GitOps Promoter reads.

use std::collections::BTreeMap;

use git2::{ObjectType, Oid, Repository};

use super::Error;
use super::commit::{CommitContent, Identity, create_commit};

/// The reference of the notes.
pub const NOTES_REF: &str = "refs/notes/hydrator.metadata";

/// From this number of notes on, new ones are put into folders, as git does.
const MAX_FLAT_NOTES: usize = 256;

/// The mode of files in git trees.
const FILE_MODE: i32 = 0o100_644;

/// The mode of folders in git trees.
const FOLDER_MODE: i32 = 0o040_000;

/// Adds to the notes of `base` that `commits` have been rendered from `source`. Returns the new notes commit; `None` if the
/// notes say so already. Moves no reference.
pub fn write_notes(
    repository: &Repository,
    base: Option<Oid>,
    commits: &[Oid],
    source: &str,
    identity: &Identity,
) -> Result<Option<Oid>, Error> {
    let before = base.map(|base| Ok::<_, Error>(repository.find_commit(base)?.tree_id())).transpose()?;
    let blob = repository.blob(format!("{}\n", serde_json::json!({ "drySha": source })).as_bytes())?;
    let names: Vec<String> = commits.iter().map(Oid::to_string).collect();
    let tree = insert_notes(repository, before, &names.iter().map(String::as_str).collect::<Vec<_>>(), blob)?;
    let Some(tree) = Some(tree).filter(|tree| Some(*tree) != before) else { return Ok(None) };
    let message = "Notes added by federate";
    let commit = CommitContent { tree, parent: base, identity: &identity.without_signature(), message };
    create_commit(repository, &commit).map(Some)
}

/// The tree with notes where git would look for them: in the place of older ones, or below existing folders. Each tree is written
/// once, with all of its notes.
fn insert_notes(repository: &Repository, tree: Option<Oid>, names: &[&str], blob: Oid) -> Result<Oid, Error> {
    let tree = tree.map(|tree| repository.find_tree(tree)).transpose()?;
    let mut builder = repository.treebuilder(tree.as_ref())?;
    let mut below: BTreeMap<&str, NotesFolder<'_>> = BTreeMap::new();
    for name in names {
        let parts = name.split_at_checked(2).filter(|(_, rest)| !rest.is_empty());
        let Some((folder, rest)) = parts.filter(|_| !matches!(builder.get(name), Ok(Some(_)))) else {
            builder.insert(name, blob, FILE_MODE)?;
            continue;
        };
        let existing = builder.get(folder)?.filter(|entry| entry.kind() == Some(ObjectType::Tree));
        let tree = existing.map(|entry| entry.id());
        if tree.is_some() || below.contains_key(folder) || builder.len() + below.len() >= MAX_FLAT_NOTES {
            below.entry(folder).or_insert_with(|| NotesFolder { tree, names: Vec::new() }).names.push(rest);
        } else {
            builder.insert(name, blob, FILE_MODE)?;
        }
    }
    for (folder, NotesFolder { tree, names }) in below {
        builder.insert(folder, insert_notes(repository, tree, &names, blob)?, FOLDER_MODE)?;
    }
    Ok(builder.write()?)
}

/// The notes to insert below a folder.
struct NotesFolder<'n> {
    tree: Option<Oid>,
    names: Vec<&'n str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tree_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        let blob = repository.blob(b"x").unwrap();
        let mut names: Vec<String> = (0..1000_u32)
            .map(|number| format!("{:08x}{number:032x}", number.wrapping_mul(2_654_435_761)))
            .collect();
        names.sort();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let count_objects = || {
            let mut count = 0;
            repository
                .odb()
                .unwrap()
                .foreach(|_| {
                    count += 1;
                    true
                })
                .unwrap();
            count
        };
        let flat = insert_notes(&repository, None, &names[..100], blob).unwrap();
        assert_eq!((repository.find_tree(flat).unwrap().len(), count_objects()), (100, 2));
        let all = insert_notes(&repository, None, &names, blob).unwrap();
        let mut found = Vec::new();
        repository
            .find_tree(all)
            .unwrap()
            .walk(git2::TreeWalkMode::PreOrder, |root, entry| {
                if entry.kind() == Some(ObjectType::Blob) {
                    found.push(root.replace('/', "") + entry.name().unwrap());
                }
                git2::TreeWalkResult::Ok
            })
            .unwrap();
        found.sort();
        assert_eq!(found, names);
        assert_eq!(insert_notes(&repository, Some(all), &names, blob).unwrap(), all, "nothing is doubled");
    }
}
