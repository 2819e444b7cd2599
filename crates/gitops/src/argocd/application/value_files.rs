//! The values files of a chart that a source of Argo CD names.
//!
//! Facts: a path is relative to the chart, or to the root of the repo if it begins with `/` or with the name of a source (`$ref/`).
//! Globs are those of doublestar; what they match is sorted, and does not count where it is also named. A file counts at its first place.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_file_tree::{CachedTree, EntryKind, FileTree as _, join_path, normalize_path};

use super::ApplicationSource;
use crate::argocd::path_glob::{GlobDialect, PathGlob, PathGlobBudget};
use crate::description::{DescriptionError, list_texts};
use crate::values::require_values_file;

/// The most entries of folders that globs look at.
const MAX_GLOB_ENTRIES: usize = 100_000;

/// What the globs of a source may still do.
struct GlobLimits {
    entries: usize,
    budget: PathGlobBudget,
}

/// A file that is named, or a glob.
enum ValuesPath {
    File(String),
    Glob { path: String, written: String },
}

impl ApplicationSource<'_> {
    /// The paths of the values files, in order. They exist.
    pub(super) fn list_values_files(
        &self,
        tree: &CachedTree<'_>,
        chart: &str,
        helm: &Value,
    ) -> Result<Vec<String>, DescriptionError> {
        let may_be_missing = helm.get("ignoreMissingValueFiles") == Some(&Value::Bool(true));
        let mut written = Vec::new();
        for (index, file) in list_texts(helm.get("valueFiles")).iter().enumerate() {
            let pointer = format!("{}/helm/valueFiles/{index}", self.pointer);
            let path = self.resolve_path(chart, file, &pointer)?;
            let path = if path.contains(['*', '?', '[']) {
                ValuesPath::Glob { path, written: file.clone() }
            } else {
                ValuesPath::File(path)
            };
            written.push((path, pointer));
        }
        let named = written.iter().filter_map(|(path, _)| match path {
            ValuesPath::File(path) => Some(path.as_str()),
            ValuesPath::Glob { .. } => None,
        });
        let named: BTreeSet<&str> = named.collect();
        let mut known = BTreeSet::new();
        let mut paths = Vec::new();
        let mut limits = GlobLimits { entries: MAX_GLOB_ENTRIES, budget: PathGlobBudget::default() };
        for (path, pointer) in &written {
            match path {
                ValuesPath::File(path) => {
                    let exists = require_values_file(tree, path, may_be_missing)
                        .map_err(|error| DescriptionError::from_values_error(pointer, error))?;
                    paths.extend(Some(path.clone()).filter(|path| exists && known.insert(path.clone())));
                }
                ValuesPath::Glob { path, written } => {
                    let refuse = |why: String| DescriptionError::new(pointer, why);
                    let matched = find_matches(tree, path, &mut limits).map_err(refuse)?;
                    if matched.is_empty() && !may_be_missing {
                        return Err(refuse(format!("no file of the repo matches `{written}`")));
                    }
                    let matched = matched.into_iter().filter(|path| !named.contains(path.as_str()));
                    paths.extend(matched.filter(|path| known.insert(path.clone())));
                }
            }
        }
        Ok(paths)
    }

    /// The path in the repo of a file that a chart uses.
    pub(super) fn resolve_path(
        &self,
        chart: &str,
        written: &str,
        pointer: &str,
    ) -> Result<String, DescriptionError> {
        let refuse = |why: String| DescriptionError::new(pointer, why);
        let (first, below) = written.split_once('/').unwrap_or((written, ""));
        let is_reference = first.strip_prefix('$').is_some_and(|name| self.names.all.contains(name));
        if first.strip_prefix('$').is_some_and(|name| self.names.remote.contains(name)) {
            let why = format!(
                "the values file `{written}` is in another repository, and only what is in the repo is read"
            );
            return Err(refuse(why).with_help(
                "commit the file to the repo; if the repository is this one, add its address to `repositories` in federate.yaml",
            ));
        }
        let path = if is_reference {
            self.environment.expand(below).map_err(refuse)?
        } else {
            let file = self.environment.expand(written).map_err(refuse)?;
            if file.contains("://") {
                return Err(refuse(format!("the values file `{file}` is a URL"))
                    .with_help("commit the file to the repo: values are never fetched"));
            }
            match file.strip_prefix('/') {
                Some(path) => join_path(&self.root, path.trim_start_matches('/')),
                None => format!("{chart}/{file}"),
            }
        };
        normalize_path(path.trim_start_matches('/'))
            .map_err(|_| refuse(format!("the values file `{written}` is outside of the repo")))
    }
}

/// The files that a glob matches, sorted. Only folders that it may match are looked at.
fn find_matches(tree: &CachedTree<'_>, glob: &str, limits: &mut GlobLimits) -> Result<Vec<String>, String> {
    let compiled = PathGlob::new(glob, GlobDialect::Doublestar)?;
    let parts: Vec<&str> = glob.split('/').collect();
    let fixed = parts.iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).count();
    let start = parts.get(..fixed.min(parts.len().saturating_sub(1))).unwrap_or_default().join("/");
    // Braces may contain folders, so that they do not tell how deep a match is.
    let is_any_depth = glob.contains("**") || glob.contains('{');
    let mut matched = Vec::new();
    let mut folders = vec![start];
    while let Some(folder) = folders.pop() {
        let Ok(listed) = tree.list_folder(&folder) else { continue };
        for entry in listed {
            limits.entries = limits.entries.checked_sub(1).ok_or_else(|| {
                format!("the globs for values files look at more than {MAX_GLOB_ENTRIES} files and folders")
            })?;
            let path = join_path(&folder, &entry.name);
            match entry.kind {
                EntryKind::File if compiled.matches(&path, &mut limits.budget)? => matched.push(path),
                EntryKind::Folder
                    if entry.name != ".git" && (is_any_depth || path.split('/').count() < parts.len()) =>
                {
                    folders.push(path);
                }
                _ => {}
            }
        }
    }
    matched.sort();
    Ok(matched)
}
