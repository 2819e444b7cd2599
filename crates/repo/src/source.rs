//! Where a repo's bytes come from: whatever implements [`Source`]. Folders and git revisions are in the
//! crate `federate-source`.

use std::sync::Arc;

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// A tree of files. Paths are relative to its root, with `/`; the root itself is the empty path.
pub trait Source: Sync {
    /// What a folder holds, in any order; the error says why it cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<Entry>, String>;

    /// The bytes of a file; the error says why it cannot be read.
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
    /// Its name; what is not UTF-8 in it is replaced.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry of a folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link to the file at this path of the tree.
    LinkToFile(String),
    /// A symbolic link to the folder at this path of the tree.
    LinkToFolder(String),
    /// A symbolic link that leaves the tree, with where it leads.
    LinkOutside(String),
    /// Something that cannot be read, with the reason.
    Unreadable(String),
    /// Neither file nor folder nor link (a socket, a device), or a link to such.
    Special,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path.
    pub path: Arc<str>,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}
