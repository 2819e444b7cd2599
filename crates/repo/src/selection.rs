//! What of a tree is read: the paths and the configuration that a user names.

use std::collections::BTreeSet;
use std::sync::Arc;

use federate_kubernetes::{Finding, Severity};

use super::config;
use super::pointer_file::find_pointer;
use super::unreadable::{outside_link_error, sparse_checkout_error, unreadable_error};
use federate_file_tree::find_entry;
use federate_file_tree::{EntryKind, FileTree, RepoFile, TreeError};

/// What of a tree is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The output folder in it, which is not read.
    pub output: Option<String>,
    /// The files and folders to read, instead of the `paths` of the configuration; none for those. They are
    /// [normalized](federate_file_tree::normalize_path).
    pub paths: Vec<String>,
    /// The configuration to use instead of the one at the root.
    pub config: Option<ConfigChoice>,
    /// Whether what objects of Flux describe is also built where values are encrypted or not in the repo, with their names in their
    /// place. Otherwise, that is an error: nothing that is sent or published may lack values.
    pub keeps_unknown_values: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

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
