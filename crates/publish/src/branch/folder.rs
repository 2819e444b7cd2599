//! The folder of a branch that holds the rendered tree, and the trees above it.

use std::path::Path;

use git2::{ObjectType, Oid, Repository};

use super::Error;
use federate_source::git::find_name_fault;

/// The mode of folders in git trees.
const FOLDER_MODE: i32 = 0o040_000;

/// A folder of a branch; the root by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchFolder(Vec<String>);

impl BranchFolder {
    /// Parses `a/b`, which must stay within the branch and avoid names reserved by git.
    pub fn parse_path(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if text.starts_with('/') {
            return Err(Error::Folder {
                folder: text.to_owned(),
                why: "write it as a path from the root of the branch",
            });
        }
        for part in &parts {
            let why = if *part == ".." || part.trim_end_matches(['.', ' ']).is_empty() {
                "it points outside of the branch"
            } else if find_name_fault(part).is_some() {
                "git reserves that name"
            } else if part.contains('\0') || part.contains('\\') {
                "it contains characters that are not allowed in folder names"
            } else {
                continue;
            };
            return Err(Error::Folder { folder: text.to_owned(), why });
        }
        Ok(Self(parts.into_iter().map(str::to_owned).collect()))
    }

    /// `a/b`; empty for the root.
    pub fn to_path(&self) -> String {
        self.0.join("/")
    }

    /// The folder's tree within a root tree, if it exists.
    pub(super) fn find_tree_in(&self, repository: &Repository, root: Oid) -> Result<Option<Oid>, Error> {
        let mut tree = root;
        for part in &self.0 {
            match find_entry(repository, tree, part)? {
                Some((oid, ObjectType::Tree)) => tree = oid,
                Some(_) => {
                    let why = "the branch has a file with that name";
                    return Err(Error::Folder { folder: self.to_path(), why });
                }
                None => return Ok(None),
            }
        }
        Ok(Some(tree))
    }

    /// The root tree with `folder` at this path, and everything else unchanged.
    pub(super) fn replace_tree_in(
        &self,
        repository: &Repository,
        root: Option<Oid>,
        folder: Oid,
    ) -> Result<Oid, Error> {
        let mut around = vec![root];
        for part in self.0.iter().take(self.0.len().saturating_sub(1)) {
            let parent = around.last().copied().flatten();
            let below = parent.map(|tree| find_entry(repository, tree, part)).transpose()?.flatten();
            around.push(below.map(|(oid, _)| oid));
        }
        let mut tree = folder;
        for (part, parent) in self.0.iter().rev().zip(around.into_iter().rev()) {
            let parent = parent.map(|oid| repository.find_tree(oid)).transpose()?;
            let mut builder = repository.treebuilder(parent.as_ref())?;
            builder.insert(part, tree, FOLDER_MODE)?;
            tree = builder.write()?;
        }
        Ok(tree)
    }
}

fn find_entry(repository: &Repository, tree: Oid, name: &str) -> Result<Option<(Oid, ObjectType)>, Error> {
    let tree = repository.find_tree(tree)?;
    let entry = tree.get_path(Path::new(name)).ok();
    Ok(entry.map(|entry| (entry.id(), entry.kind().unwrap_or(ObjectType::Any))))
}
