//! Notes about commits, in which hydrators say what they have rendered, also where the rendering did not change.
//!
//! Facts: git-notes(1); the tree of a notes commit, whose names are the ids of the commits, split after two digits at any
//! level; `refs/notes/hydrator.metadata` of Argo CD's source hydrator, which GitOps Promoter reads.

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
    let mut tree = before;
    for commit in commits {
        tree = Some(insert_note(repository, tree, &commit.to_string(), blob)?);
    }
    let Some(tree) = tree.filter(|tree| Some(*tree) != before) else { return Ok(None) };
    let message = "Notes added by federate";
    let commit = CommitContent { tree, parent: base, identity: &identity.without_signature(), message };
    create_commit(repository, &commit).map(Some)
}

/// The tree with a note where git would look for it: in the place of an older one, or below an existing folder.
fn insert_note(repository: &Repository, tree: Option<Oid>, name: &str, blob: Oid) -> Result<Oid, Error> {
    let tree = tree.map(|tree| repository.find_tree(tree)).transpose()?;
    let mut builder = repository.treebuilder(tree.as_ref())?;
    let folder = name.split_at_checked(2).filter(|(_, rest)| !rest.is_empty());
    let is_flat = builder.get(name)?.is_some();
    match folder {
        Some((folder, rest)) if !is_flat => {
            let below = builder.get(folder)?.filter(|entry| entry.kind() == Some(ObjectType::Tree));
            let below = below.map(|entry| entry.id());
            if below.is_some() || builder.len() >= MAX_FLAT_NOTES {
                let below = insert_note(repository, below, rest, blob)?;
                builder.insert(folder, below, FOLDER_MODE)?;
            } else {
                builder.insert(name, blob, FILE_MODE)?;
            }
        }
        _ => drop(builder.insert(name, blob, FILE_MODE)?),
    }
    Ok(builder.write()?)
}
