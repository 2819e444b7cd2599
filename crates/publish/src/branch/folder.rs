//! The folder of a branch below which the rendered tree stands, and the trees around it.

use git2::{ObjectType, Oid, Repository};

use super::Error;

/// Mode of folders in git trees.
const FOLDER: i32 = 0o040_000;

/// A folder of a branch; the root by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder(Vec<String>);

impl Folder {
    /// Reads `a/b`; it stays within the branch and away from what git keeps for itself.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why| Error::Folder { folder: text.to_owned(), why };
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if text.starts_with('/') {
            return Err(wrong("it is no path from the branch's root"));
        }
        for part in &parts {
            // What file systems take for `.git`, git refuses as well.
            let plain = part.trim_end_matches(['.', ' ']).to_ascii_lowercase();
            if *part == ".." || plain.is_empty() {
                return Err(wrong("it leads out of the branch"));
            }
            if plain == ".git" || plain.starts_with(".git:") || plain.starts_with("git~") {
                return Err(wrong("git keeps that name for itself"));
            }
            if part.contains('\0') || part.contains('\\') {
                return Err(wrong("it has characters that no folder can have"));
            }
        }
        Ok(Self(parts.into_iter().map(str::to_owned).collect()))
    }

    /// `a/b`; empty for the root.
    pub fn path(&self) -> String {
        self.0.join("/")
    }

    /// The folder's tree within a root tree, if it is there.
    pub(super) fn find(&self, repository: &Repository, root: Oid) -> Result<Option<Oid>, Error> {
        let mut tree = root;
        for part in &self.0 {
            match child(repository, tree, part)? {
                Some((oid, ObjectType::Tree)) => tree = oid,
                Some(_) => {
                    let why = "the branch has a file there";
                    return Err(Error::Folder { folder: self.path(), why });
                }
                None => return Ok(None),
            }
        }
        Ok(Some(tree))
    }

    /// A root tree with `folder` in this place, and all else as in `root`.
    pub(super) fn put(&self, repository: &Repository, root: Option<Oid>, folder: Oid) -> Result<Oid, Error> {
        let mut around = vec![root];
        for part in self.0.iter().take(self.0.len().saturating_sub(1)) {
            let parent = around.last().copied().flatten();
            let below = parent.map(|tree| child(repository, tree, part)).transpose()?.flatten();
            around.push(below.map(|(oid, _)| oid));
        }
        let mut tree = folder;
        for (part, parent) in self.0.iter().rev().zip(around.into_iter().rev()) {
            let parent = parent.map(|oid| repository.find_tree(oid)).transpose()?;
            let mut builder = repository.treebuilder(parent.as_ref())?;
            builder.insert(part, tree, FOLDER)?;
            tree = builder.write()?;
        }
        Ok(tree)
    }
}

fn child(repository: &Repository, tree: Oid, name: &str) -> Result<Option<(Oid, ObjectType)>, Error> {
    let tree = repository.find_tree(tree)?;
    let entry = tree.get_name(name);
    Ok(entry.map(|entry| (entry.id(), entry.kind().unwrap_or(ObjectType::Any))))
}
