//! [`FileTree`]: the trait for reading the files of a repo, and paths in it. The crate `federate-source` implements it for
//! folders and git revisions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A tree of files. Paths are relative to its root, with `/`; the root itself is the empty path.
///
/// A tree may be a folder of a larger one, such as a git repository. Links may lead from the folder to the rest of the larger
/// tree, whose paths begin with `/`: they are relative to the root of the larger tree. An entry there that is the folder itself
/// is a link to it.
pub trait FileTree: Sync {
    /// The entries of a folder, in any order.
    ///
    /// # Errors
    ///
    /// If there is no such folder, or it cannot be read.
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError>;

    /// What a folder is known by: folders of the same id have the same entries. `None` if nothing is known without listing it.
    fn folder_id(&self, _folder: &str) -> Option<[u8; 20]> {
        None
    }

    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// If there is no such file, it cannot be read, or it is too large to be read.
    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError>;
}

/// Why a folder or a file of a source is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// It does not exist.
    #[error("no such file or folder")]
    NotFound,
    /// The system forbids it.
    #[error("permission denied")]
    PermissionDenied,
    /// The file has more bytes than this.
    #[error("it is larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// Another reason, in words.
    #[error("{0}")]
    Unreadable(String),
}

/// A tree without files.
#[derive(Clone, Copy, Debug)]
pub struct EmptyTree;

impl FileTree for EmptyTree {
    fn list_folder(&self, _: &str) -> Result<Vec<TreeEntry>, TreeError> {
        Ok(Vec::new())
    }

    fn read_file(&self, _: &str) -> Result<Vec<u8>, TreeError> {
        Err(TreeError::NotFound)
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name; invalid UTF-8 is replaced.
    pub name: String,
    /// The kind of entry.
    pub kind: EntryKind,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link to the file at this path in the tree.
    LinkToFile(String),
    /// A symbolic link to the folder at this path in the tree.
    LinkToFolder(String),
    /// A symbolic link out of the tree, with its target.
    LinkOutside(String),
    /// An entry that cannot be read, with the reason.
    Unreadable(String),
    /// A file that git tracks here, and that a sparse checkout leaves out.
    SparseFile,
    /// A submodule whose files are not here.
    Submodule,
    /// Neither file, folder nor link, such as a socket or a device, or a link to one.
    Special,
}

/// A file in memory.
#[derive(Clone, Debug)]
pub struct RepoFile {
    /// The path.
    pub path: Arc<str>,
    /// The content.
    pub bytes: Arc<[u8]>,
}

/// Whether a path is a folder that no link leads to.
pub fn is_folder(tree: &dyn FileTree, folder: &str) -> bool {
    folder.is_empty() || matches!(find_entry(tree, folder), Some(EntryKind::Folder))
}

/// A tree whose folders are listed once.
pub struct CachedTree<'s> {
    tree: &'s dyn FileTree,
    folders: Mutex<BTreeMap<String, Result<Vec<TreeEntry>, TreeError>>>,
}

impl<'s> CachedTree<'s> {
    /// Reads this tree.
    pub fn new(tree: &'s dyn FileTree) -> Self {
        Self { tree, folders: Mutex::default() }
    }
}

impl FileTree for CachedTree<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.entry(folder.to_owned()).or_insert_with(|| self.tree.list_folder(folder)).clone()
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.tree.read_file(path)
    }
}

/// Why a path cannot be one of those to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPath {
    /// It starts at the root of the file system.
    Absolute,
    /// It leads out of the repo.
    Outside,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "it is absolute",
            Self::Outside => "it leads out of the repo",
        })
    }
}

/// A path relative to the repo without `.`, `..` and repeated slashes; empty for the repo itself.
pub fn normalize_path(path: &str) -> Result<String, InvalidPath> {
    if path.starts_with('/') {
        return Err(InvalidPath::Absolute);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or(InvalidPath::Outside)?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// The entry at a path, whose folders may be links.
pub fn find_entry(tree: &dyn FileTree, path: &str) -> Option<EntryKind> {
    let mut real = String::new();
    let mut kind = EntryKind::Folder;
    for part in path.split('/') {
        real = match kind {
            EntryKind::Folder => real,
            EntryKind::LinkToFolder(to) => to,
            _ => return None,
        };
        kind = tree.list_folder(&real).ok()?.into_iter().find(|entry| entry.name == part)?.kind;
        real = join_path(&real, part);
    }
    Some(match kind {
        // Found through a link, its own path is not the one that it was found by.
        EntryKind::File if real != path => EntryKind::LinkToFile(real),
        EntryKind::Folder if real != path => EntryKind::LinkToFolder(real),
        kind => kind,
    })
}

/// The path of an entry of a folder.
pub fn join_path(folder: &str, name: &str) -> String {
    // The root of the git repository is `/`.
    if folder.is_empty() || folder.ends_with('/') {
        format!("{folder}{name}")
    } else {
        format!("{folder}/{name}")
    }
}

/// Whether a path is a folder or in it; the empty folder is the repo's.
pub fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized() {
        for (path, normal) in [("", ""), (".", ""), ("./a//b/", "a/b"), ("a/../b", "b"), ("a/..", "")] {
            assert_eq!(normalize_path(path).as_deref(), Ok(normal), "{path}");
        }
        assert_eq!(normalize_path("a/../.."), Err(InvalidPath::Outside));
        assert_eq!(normalize_path("/a"), Err(InvalidPath::Absolute));
    }
}
