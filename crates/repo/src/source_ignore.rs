//! The files of a git repository that Flux leaves out of what it builds.
//!
//! Facts: the package `sourceignore` of Flux. A file `.sourceignore` in any folder has the patterns of gitignore(5), below this folder,
//! and the nearest file decides. Without any, the files of git, of CI systems and of some programs are left out.

use std::collections::BTreeMap;

use federate_file_tree::{EntryKind, FileTree, find_entry, is_within, join_path};
use federate_gitops::vendored::VENDOR_FOLDER;
use ignore::Match;
use ignore::gitignore::Gitignore;

use crate::ignore_rules::{compile_patterns, parent_folders};

/// The name of the files with the patterns.
pub const SOURCE_IGNORE_FILE: &str = ".sourceignore";

/// What is left out where no file has patterns, besides pictures and archives, which nothing builds.
pub const DEFAULT_PATTERNS: [&str; 12] = [
    ".github/",
    ".circleci/",
    ".travis.yml",
    ".gitlab-ci.yml",
    "appveyor.yml",
    ".drone.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
    "**/.goreleaser.yml",
    "**/.sops.yaml",
    "**/.flux.yaml",
];

/// The files that Flux leaves out.
pub struct SourceIgnore {
    by_folder: BTreeMap<String, Gitignore>,
    defaults: Gitignore,
}

impl SourceIgnore {
    /// Reads the patterns that hold for a folder: those of the folders that it is in.
    pub fn read(tree: &dyn FileTree, folder: &str) -> Self {
        let (defaults, _) = compile_patterns(DEFAULT_PATTERNS.into_iter());
        let mut rules = Self { by_folder: BTreeMap::new(), defaults };
        // The copy of another repository has files of its own only.
        let is_copy = is_within(folder, VENDOR_FOLDER);
        for (above, _) in parent_folders(folder).filter(|_| !is_copy) {
            rules.add_folder(tree, above);
        }
        rules.add_folder(tree, folder);
        rules
    }

    /// Adds the patterns of a folder.
    pub fn add_folder(&mut self, tree: &dyn FileTree, folder: &str) {
        let path = join_path(folder, SOURCE_IGNORE_FILE);
        if !matches!(find_entry(tree, &path), Some(EntryKind::File)) {
            return;
        }
        let Ok(bytes) = tree.read_file(&path) else { return };
        let (patterns, _) = compile_patterns(String::from_utf8_lossy(&bytes).lines());
        if !patterns.is_empty() {
            self.by_folder.insert(folder.to_owned(), patterns);
        }
    }

    /// Whether a file is left out, or a folder that it is in.
    pub fn ignores_file(&self, path: &str) -> bool {
        if self.by_folder.is_empty() {
            return self.defaults.matched_path_or_any_parents(path, false).is_ignore();
        }
        let decided = parent_folders(path).find_map(|(above, rest)| {
            match self.by_folder.get(above)?.matched_path_or_any_parents(rest, false) {
                Match::None => None,
                Match::Ignore(_) => Some(true),
                Match::Whitelist(_) => Some(false),
            }
        });
        decided.unwrap_or(false)
    }
}
