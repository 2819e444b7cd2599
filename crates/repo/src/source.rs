//! Sources of a repo's files. The crate `federate-source` implements [`Source`] for folders and git revisions.

use std::sync::Arc;

/// The size of the largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A tree of files. Paths are relative to its root, with `/`. The path of the root is empty.
pub trait Source: Sync {
    /// Returns the entries of a folder, in any order. The error is the reason why it cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<Entry>, String>;

    /// Returns the bytes of a file. The error is the reason why it cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;
}

/// A tree without files.
#[derive(Clone, Copy, Debug)]
pub struct EmptySource;

impl Source for EmptySource {
    fn list(&self, _: &str) -> Result<Vec<Entry>, String> {
        Ok(Vec::new())
    }

    fn read(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("there is no such file".to_owned())
    }
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name. Bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The type of the entry.
    pub kind: EntryKind,
}

/// The type of an entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link to a file of the tree, with its path.
    LinkToFile(String),
    /// A symbolic link to a folder of the tree, with its path.
    LinkToFolder(String),
    /// A symbolic link out of the tree, with its target.
    LinkOutside(String),
    /// An entry that cannot be read, with the reason.
    Unreadable(String),
    /// A socket, a device or another special file, or a link to one.
    Special,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct File {
    /// The path.
    pub path: Arc<str>,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}
