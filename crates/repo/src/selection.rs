//! What of a tree is read: the paths and the configuration that a user names.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use federate_kubernetes::{Finding, Severity};

use super::config;
use super::file_tree::{EntryKind, FileTree, RepoFile, TreeError};
use super::pointer_file::find_pointer;
use super::tree_path::join_path;
use super::unreadable::{outside_link_error, sparse_checkout_error, unreadable_error};

/// What of a tree is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The output folder in it, which is not read.
    pub output: Option<String>,
    /// The files and folders to read, instead of the `paths` of the configuration; none for those. They are
    /// [normalized](normalize_path).
    pub paths: Vec<String>,
    /// The configuration to use instead of the one at the root.
    pub config: Option<ConfigChoice>,
}

/// A configuration that is not the one at the root.
#[derive(Clone, Debug)]
pub enum ConfigChoice {
    /// The file of the tree at this path.
    InTree(String),
    /// This file, which is not part of the tree.
    File(RepoFile),
}

impl ConfigChoice {
    /// A configuration with the default settings.
    pub fn empty() -> Self {
        Self::File(RepoFile { path: config::DEFAULT_FILE_NAME.into(), bytes: Arc::default() })
    }
}

/// Why a path cannot be one of those to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPath {
    /// It starts at the root of the file system.
    Absolute,
    /// It leads out of the repo.
    Outside,
}

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "it is absolute",
            Self::Outside => "it leads out of the repo",
        })
    }
}

/// A path relative to the repo without `.`, `..` and repeated slashes; empty for the repo itself.
pub fn normalize_path(path: &str) -> Result<String, InvalidPath> {
    if path.starts_with('/') {
        return Err(InvalidPath::Absolute);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or(InvalidPath::Outside)?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Files and folders to read, with everything in them; none for everything.
#[derive(Debug, Default)]
pub(crate) struct SelectedPaths {
    paths: BTreeSet<String>,
}

impl SelectedPaths {
    pub(crate) fn new(paths: &[String]) -> Self {
        Self { paths: paths.iter().cloned().collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Whether it is one of the paths.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether a path is one of them or is in one.
    pub(crate) fn includes_path(&self, path: &str) -> bool {
        let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        self.paths.is_empty() || [path, ""].into_iter().chain(above).any(|path| self.paths.contains(path))
    }

    /// Whether one of them is in this folder.
    pub(crate) fn lead_through(&self, folder: &str) -> bool {
        let below = format!("{folder}/");
        self.paths.range(below.clone()..).next().is_some_and(|path| path.starts_with(&below))
    }
}

/// Reads the configuration: the chosen file, or the one at the root, if it exists.
pub(crate) fn read_config(tree: &dyn FileTree, options: &ReadOptions) -> Result<Option<RepoFile>, Finding> {
    match &options.config {
        Some(ConfigChoice::File(file)) => return Ok(Some(file.clone())),
        Some(ConfigChoice::InTree(path)) => return read_chosen_config(tree, path).map(Some),
        None => {}
    }
    let entries = tree.list_folder("").map_err(|why| unreadable_error("", why))?;
    let mut found = config::FILE_NAMES.into_iter().filter_map(|name| {
        let entry = entries.iter().find(|entry| entry.name == name)?;
        let is_file =
            !matches!(entry.kind, EntryKind::Folder | EntryKind::LinkToFolder(_) | EntryKind::Special);
        is_file.then_some((name, &entry.kind))
    });
    let Some((name, kind)) = found.next() else { return Ok(None) };
    if let Some((other, _)) = found.next() {
        let message = format!("invalid configuration: `{name}` and `{other}` are both there");
        return Err(Finding::in_file(Severity::Error, "invalid-config", &other.into(), None, message)
            .with_help("keep one of them, or choose one with --config"));
    }
    let bytes = match kind {
        EntryKind::LinkToFile(real) => tree.read_file(real),
        EntryKind::LinkOutside(to) => return Err(outside_link_error(name, to)),
        EntryKind::Unreadable(why) => Err(TreeError::Unreadable(why.clone())),
        EntryKind::SparseFile => return Err(sparse_checkout_error(name, &[])),
        _ => tree.read_file(name),
    };
    let bytes = bytes.map_err(|why| unreadable_error(name, why))?;
    if let Some(pointer) = find_pointer(name, &bytes) {
        return Err(pointer);
    }
    Ok(Some(RepoFile { path: name.into(), bytes: bytes.into() }))
}

fn read_chosen_config(tree: &dyn FileTree, path: &str) -> Result<RepoFile, Finding> {
    let entry = find_entry(tree, path);
    let real = match &entry {
        Some(EntryKind::LinkToFile(real)) => real,
        Some(EntryKind::LinkOutside(to)) => return Err(outside_link_error(path, to)),
        Some(EntryKind::SparseFile) => return Err(sparse_checkout_error(path, &[])),
        Some(_) => path,
        None => {
            let help = "--config names a file of the repo, relative to the repo's folder";
            return Err(unreadable_error(path, "there is no such file").with_help(help));
        }
    };
    let bytes = tree.read_file(real).map_err(|why| unreadable_error(path, why))?;
    match find_pointer(path, &bytes) {
        Some(pointer) => Err(pointer),
        None => Ok(RepoFile { path: Arc::from(path), bytes: bytes.into() }),
    }
}

impl ReadOptions {
    /// The paths that a tree does not have.
    pub fn missing_paths(&self, tree: &dyn FileTree) -> Vec<&str> {
        self.paths
            .iter()
            .map(String::as_str)
            .filter(|path| !path.is_empty() && find_entry(tree, path).is_none())
            .collect()
    }
}

/// The entry at a path, whose folders may be links.
pub fn find_entry(tree: &dyn FileTree, path: &str) -> Option<EntryKind> {
    let mut real = String::new();
    let mut kind = EntryKind::Folder;
    for part in path.split('/') {
        real = match kind {
            EntryKind::Folder => real,
            EntryKind::LinkToFolder(to) => to,
            _ => return None,
        };
        kind = tree.list_folder(&real).ok()?.into_iter().find(|entry| entry.name == part)?.kind;
        real = join_path(&real, part);
    }
    Some(match kind {
        // Found through a link, its own path is not the one that it was found by.
        EntryKind::File if real != path => EntryKind::LinkToFile(real),
        EntryKind::Folder if real != path => EntryKind::LinkToFolder(real),
        kind => kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized() {
        for (path, normal) in [("", ""), (".", ""), ("./a//b/", "a/b"), ("a/../b", "b"), ("a/..", "")] {
            assert_eq!(normalize_path(path).as_deref(), Ok(normal), "{path}");
        }
        assert_eq!(normalize_path("a/../.."), Err(InvalidPath::Outside));
        assert_eq!(normalize_path("/a"), Err(InvalidPath::Absolute));
    }

    #[test]
    fn paths_include_what_is_in_them() {
        let paths = SelectedPaths::new(&["a/b".to_owned(), "c.yaml".to_owned()]);
        assert!(
            paths.includes_path("a/b")
                && paths.includes_path("a/b/c/d.yaml")
                && paths.includes_path("c.yaml")
        );
        assert!(
            !paths.includes_path("a") && !paths.includes_path("a/bc") && !paths.includes_path("c.yaml.bak")
        );
        assert!(paths.lead_through("a") && !paths.lead_through("a/b") && !paths.lead_through("c"));
        assert!(
            SelectedPaths::new(&[]).includes_path("x")
                && SelectedPaths::new(&[String::new()]).includes_path("x/y")
        );
    }
}
