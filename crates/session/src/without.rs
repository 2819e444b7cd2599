//! A source without one of its folders.

use federate_repo::Source;
use federate_repo::source::Entry;

/// A source without one of its folders.
pub(crate) struct ExcludingSource<'s> {
    /// The source.
    pub(crate) source: &'s dyn Source,
    /// The path of the folder.
    pub(crate) folder: String,
}

impl Source for ExcludingSource<'_> {
    fn list(&self, folder: &str) -> Result<Vec<Entry>, String> {
        let mut entries = self.source.list(folder)?;
        let (above, name) = self.folder.rsplit_once('/').unwrap_or(("", &self.folder));
        if folder == above {
            entries.retain(|entry| entry.name != name);
        }
        Ok(entries)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.source.read(path)
    }
}
