//! A source without one of its folders.

use federate_repo::FileTree;
use federate_repo::file_tree::{TreeEntry, TreeError};

/// A source without one of its folders.
pub(crate) struct ExcludingTree<'s> {
    /// The source.
    pub(crate) source: &'s dyn FileTree,
    /// The path of the folder.
    pub(crate) folder: String,
}

impl FileTree for ExcludingTree<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let mut entries = self.source.list_folder(folder)?;
        let (above, name) = self.folder.rsplit_once('/').unwrap_or(("", &self.folder));
        if folder == above {
            entries.retain(|entry| entry.name != name);
        }
        Ok(entries)
    }

    fn folder_id(&self, folder: &str) -> Option<[u8; 20]> {
        self.source.folder_id(folder)
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.source.read_file(path)
    }
}
