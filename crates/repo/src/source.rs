//! [`Source`]: the trait for reading the files of a repo. The crate `federate-source` implements it for
//! folders and git revisions.

use std::sync::Arc;

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A tree of files. Paths are relative to its root, with `/`; the root itself is the empty path.
pub trait Source: Sync {
    /// The entries of a folder, in any order; the error is the reason.
    fn list(&self, folder: &str) -> Result<Vec<Entry>, String>;

    /// The bytes of a file; the error is the reason.
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
        Err("no such file".to_owned())
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
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
pub struct File {
    /// The path.
    pub path: Arc<str>,
    /// The content.
    pub bytes: Arc<[u8]>,
}
