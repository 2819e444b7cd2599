//! The files of a repo with the edits of a migration.

use std::collections::BTreeMap;

use federate_repo::FileTree;
use federate_repo::file_tree::{EntryKind, TreeEntry, TreeError};

use crate::FileEdit;

/// The files of a repo with the edits of a migration. Links stay as they are.
pub struct MigratedTree<'s> {
    source: &'s dyn FileTree,
    edits: BTreeMap<&'s str, &'s FileEdit>,
    /// What the edits add to each folder, or take from it (`None`), by name.
    entries: BTreeMap<String, BTreeMap<String, Option<EntryKind>>>,
}

impl<'s> MigratedTree<'s> {
    /// The files of `source` with `edits`.
    pub fn new(source: &'s dyn FileTree, edits: &'s [FileEdit]) -> Self {
        let mut entries: BTreeMap<String, BTreeMap<String, Option<EntryKind>>> = BTreeMap::new();
        for edit in edits {
            let (folder, name) = split_path(&edit.path);
            let kind = edit.content.is_some().then_some(EntryKind::File);
            entries.entry(folder.to_owned()).or_default().insert(name.to_owned(), kind);
            let mut below = folder;
            while edit.content.is_some() && !below.is_empty() {
                let (above, name) = split_path(below);
                entries.entry(above.to_owned()).or_default().insert(name.to_owned(), Some(EntryKind::Folder));
                below = above;
            }
        }
        Self { source, edits: edits.iter().map(|edit| (edit.path.as_ref(), edit)).collect(), entries }
    }
}

/// The folder of a path, and its name there.
fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl FileTree for MigratedTree<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let Some(changed) = self.entries.get(folder) else { return self.source.list_folder(folder) };
        // A folder that only edits make is not in the source.
        let mut entries = self.source.list_folder(folder).unwrap_or_default();
        entries.retain(|entry| match changed.get(&entry.name) {
            Some(None | Some(EntryKind::File)) => false,
            Some(Some(_)) => entry.kind != EntryKind::Folder,
            None => true,
        });
        let added = changed
            .iter()
            .filter_map(|(name, kind)| Some(TreeEntry { name: name.clone(), kind: kind.clone()? }));
        entries.extend(added);
        Ok(entries)
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        match self.edits.get(path) {
            Some(FileEdit { content: Some(content), .. }) => Ok(content.to_vec()),
            Some(_) => Err(TreeError::NotFound),
            None => self.source.read_file(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use federate_repo::EmptyTree;

    #[test]
    fn edits_make_folders_and_files() {
        let edits = [
            FileEdit { path: "a/b/web.yaml".into(), content: Some(Vec::from("web").into()) },
            FileEdit { path: "gone.yaml".into(), content: None },
        ];
        let source = MigratedTree::new(&EmptyTree, &edits);
        let names = |folder: &str| {
            let listed = source.list_folder(folder).unwrap_or_default();
            listed.into_iter().map(|entry| (entry.name, entry.kind)).collect::<Vec<_>>()
        };
        assert_eq!(names(""), [("a".to_owned(), EntryKind::Folder)]);
        assert_eq!(names("a"), [("b".to_owned(), EntryKind::Folder)]);
        assert_eq!(names("a/b"), [("web.yaml".to_owned(), EntryKind::File)]);
        assert_eq!(source.read_file("a/b/web.yaml"), Ok(Vec::from("web")));
        assert!(source.read_file("gone.yaml").is_err());
    }
}
