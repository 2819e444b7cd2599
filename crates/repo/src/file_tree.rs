//! [`FileTree`]: the trait for reading the files of a repo. The crate `federate-source` implements it for
//! folders and git revisions.

use std::sync::Arc;

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
