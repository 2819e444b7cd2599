//! A source without one of its folders.

use federate_repo::Source;
use federate_repo::source::{SourceError, TreeEntry};

/// A source without one of its folders.
pub(crate) struct ExcludingSource<'s> {
    /// The source.
    pub(crate) source: &'s dyn Source,
    /// The path of the folder.
    pub(crate) folder: String,
}

impl Source for ExcludingSource<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, SourceError> {
        let mut entries = self.source.list_folder(folder)?;
        let (above, name) = self.folder.rsplit_once('/').unwrap_or(("", &self.folder));
        if folder == above {
            entries.retain(|entry| entry.name != name);
        }
        Ok(entries)
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, SourceError> {
        self.source.read_file(path)
    }
}
