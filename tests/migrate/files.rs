//! Repos in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use federate_builder::{BuildCache, Confiner, ProgramBuilder, ProgramPaths};
use federate_dialects::DIALECTS;
use federate_migrate::Migration;
use federate_repo::FileTree;
use federate_repo::file_tree::{EntryKind, TreeEntry, TreeError};
use federate_session::{Session, SessionOptions};

/// A repo in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files(pub(crate) BTreeMap<String, String>);

impl FileTree for Files {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        let entries: BTreeSet<(String, bool)> = below
            .map(|rest| match rest.split_once('/') {
                Some((folder, _)) => (folder.to_owned(), true),
                None => (rest.to_owned(), false),
            })
            .collect();
        if entries.is_empty() && !folder.is_empty() {
            return Err(TreeError::NotFound);
        }
        let entry = |(name, folder)| TreeEntry {
            name,
            kind: if folder { EntryKind::Folder } else { EntryKind::File },
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or(TreeError::NotFound)
    }
}

impl Files {
    /// The files of an example.
    pub(crate) fn of_example(name: &str) -> Self {
        fn add_folder(files: &mut Files, root: &Path, folder: &Path) {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    add_folder(files, root, &entry);
                } else if let Ok(text) = fs::read_to_string(&entry) {
                    let path = entry.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                    files.0.insert(path, text);
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
        let mut files = Self::default();
        add_folder(&mut files, &root, &root);
        files
    }

    /// The session over these files.
    pub(crate) fn open(&self) -> Session {
        Session::open(self, SessionOptions::new(DIALECTS))
    }

    /// The session over these files, of which kustomize builds what it can; `None` without the program.
    pub(crate) fn open_built(&self) -> Option<Session> {
        let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
        let has_program =
            ["kustomize", "kubectl"].iter().any(|name| folders.iter().any(|f| f.join(name).is_file()));
        let builder = ProgramBuilder::new(
            ProgramPaths::from_environment(),
            BuildCache::in_memory(),
            Confiner::default(),
        );
        let mut options = SessionOptions::new(DIALECTS);
        options.builder = Some(Arc::new(builder));
        has_program.then(|| Session::open(self, options))
    }

    /// The files after a migration.
    pub(crate) fn migrated(&self, migration: &Migration) -> Self {
        let mut files = self.clone();
        for edit in &migration.edits {
            match &edit.content {
                Some(content) => {
                    let text = String::from_utf8(content.to_vec()).unwrap();
                    files.0.insert(edit.path.to_string(), text);
                }
                None => drop(files.0.remove(edit.path.as_ref())),
            }
        }
        files
    }

    /// What is written, as one text.
    pub(crate) fn print_edits(migration: &Migration) -> String {
        let mut out = String::new();
        for edit in &migration.edits {
            match &edit.content {
                Some(content) => {
                    out.push_str(&format!("=== {}\n{}", edit.path, String::from_utf8_lossy(content)));
                }
                None => out.push_str(&format!("=== {} deleted\n", edit.path)),
            }
        }
        out.push_str("=== rules\n");
        let rules = migration
            .objects
            .iter()
            .flat_map(|object| object.unequal.iter().map(move |rule| (object.old.to_string(), rule)));
        let of_repo = migration.unequal.iter().map(|rule| (String::new(), rule));
        for (object, rule) in rules.chain(of_repo) {
            let origin = rule.origin.as_ref().map(ToString::to_string).unwrap_or_default();
            out.push_str(&format!(
                "{object} {} {} ({origin}{})\n",
                rule.reason.name(),
                rule.detail,
                rule.pointer
            ));
        }
        out
    }
}
