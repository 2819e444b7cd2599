//! The folders and files of the repo, as the generator `git` selects and reads them.
//!
//! Facts: folders are those below no folder whose name begins with a dot, parents first; files are those that git tracks, also hidden
//! ones, sorted by their paths. A file is a map, or a list of maps with one Application each; only its first document is read.

use std::collections::BTreeSet;

use federate_file_tree::{EntryKind, FileTree, join_path, normalize_path};
use serde_json::Value;

use super::generators::Generation;
use super::path_pattern::PathPattern;
use crate::argocd::path_glob::{GlobDialect, PathGlob, PathGlobBudget};
use crate::description::DescriptionError;

/// The folders and files of a repo.
#[derive(Debug, Default)]
pub(super) struct RepoPaths {
    /// The folders below no hidden one, parents first.
    folders: Vec<String>,
    /// The hidden folders, and those below them.
    hidden_folders: Vec<String>,
    files: Vec<String>,
}

/// A pattern of a generator, as it is written.
struct WrittenPattern<'g> {
    path: &'g str,
    excludes: bool,
    pointer: String,
}

/// What selects files.
enum FilePattern {
    Pathspec(PathPattern),
    /// A glob of doublestar, with the new globbing.
    Glob(PathGlob),
}

impl FilePattern {
    /// A glob of doublestar. The error says why Argo CD refuses it.
    fn parse_glob(written: &str) -> Result<Self, String> {
        let path = normalize_path(written.trim_start_matches('/'))
            .map_err(|_| format!("`{written}` is outside of the repository"))?;
        if path.is_empty() {
            return Err(format!("the pattern `{written}` selects the folder of the repo"));
        }
        let glob = PathGlob::new(&path, GlobDialect::Doublestar)?;
        if glob.is_broken() { Err(format!("`{written}` is a broken pattern")) } else { Ok(Self::Glob(glob)) }
    }

    /// Whether it selects a path. `steps` counts the comparisons.
    fn selects(&self, path: &str, steps: &mut usize) -> Result<bool, String> {
        match self {
            Self::Pathspec(pattern) => Ok(pattern.matches(path, steps) != pattern.excludes),
            Self::Glob(glob) => {
                *steps += glob.count_steps(path);
                glob.matches(path, &mut PathGlobBudget::default())
            }
        }
    }
}

impl Generation<'_> {
    /// The folders that the patterns of a generator select.
    pub(super) fn select_folders(&self, items: &[Value], at: &str) -> Result<Vec<&str>, DescriptionError> {
        let written = read_patterns(items, at)?;
        let patterns: Vec<(PathPattern, bool)> = written
            .iter()
            .filter_map(|pattern| Some((PathPattern::parse_path_match(pattern.path)?, pattern.excludes)))
            .collect();
        let mut selected = Vec::new();
        for folder in &self.list_paths(at)?.folders {
            let mut steps = 1;
            let is_meant = |excluding: bool, steps: &mut usize| {
                patterns
                    .iter()
                    .any(|(pattern, excludes)| *excludes == excluding && pattern.matches(folder, steps))
            };
            if is_meant(false, &mut steps) && !is_meant(true, &mut steps) {
                selected.push(folder.as_str());
            }
            self.charge_work(steps, at)?;
        }
        Ok(selected)
    }

    /// The files that the patterns of a generator select, sorted.
    pub(super) fn select_files(&self, items: &[Value], at: &str) -> Result<BTreeSet<&str>, DescriptionError> {
        let written = read_patterns(items, at)?;
        let mut selected = BTreeSet::new();
        for pattern in written.iter().filter(|pattern| !pattern.excludes) {
            selected.extend(self.list_files(pattern)?);
        }
        for pattern in written.iter().filter(|pattern| pattern.excludes) {
            for file in self.list_files(pattern)? {
                selected.remove(file);
            }
        }
        Ok(selected)
    }

    /// What a pattern of files selects.
    fn list_files(&self, written: &WrittenPattern<'_>) -> Result<Vec<&str>, DescriptionError> {
        let at = &written.pointer;
        let paths = self.list_paths(at)?;
        let refuse = |why: String| DescriptionError::new(at, why);
        let (pattern, folders) = if self.reader.settings.new_file_globbing {
            let pattern = FilePattern::parse_glob(written.path).map_err(refuse)?;
            (pattern, [paths.folders.as_slice(), &paths.hidden_folders])
        } else {
            let pattern = PathPattern::parse_pathspec(written.path).map_err(refuse)?;
            (FilePattern::Pathspec(pattern), [[].as_slice(), &[]])
        };
        let select = |path: &String| -> Result<bool, DescriptionError> {
            let mut steps = 1;
            let is_selected = pattern.selects(path, &mut steps);
            self.charge_work(steps, at)?;
            is_selected.map_err(refuse)
        };
        for folder in folders.into_iter().flatten() {
            if select(folder)? && !written.excludes {
                let why = format!("the pattern `{}` selects the folder `{folder}`", written.path);
                return Err(refuse(why).with_help("end the pattern in the name of the files"));
            }
        }
        let mut selected = Vec::new();
        for file in &paths.files {
            if select(file)? {
                selected.push(file.as_str());
            }
        }
        Ok(selected)
    }

    /// The maps in a file.
    pub(super) fn read_maps(&self, file: &str, at: &str) -> Result<Vec<Value>, DescriptionError> {
        let refuse = |why: &dyn std::fmt::Display| DescriptionError::new(at, format!("{file}: {why}"));
        let bytes = self.reader.tree.read_file(file).map_err(|why| refuse(&why))?;
        self.charge_work(bytes.len(), at)?;
        match read_first_document(&bytes).map_err(|why| refuse(&why))? {
            Value::Null => Ok(vec![Value::Null]),
            map @ Value::Object(_) => Ok(vec![map]),
            Value::Array(items) if items.iter().all(|item| item.is_object() || item.is_null()) => Ok(items),
            _ => Err(refuse(&"it is not a map, and not a list of maps")),
        }
    }

    fn list_paths(&self, at: &str) -> Result<&RepoPaths, DescriptionError> {
        if let Some(paths) = self.reader.usage.paths.get() {
            return Ok(paths);
        }
        // A checkout has this folder, which patterns can select.
        let mut paths = RepoPaths { hidden_folders: vec![".git".to_owned()], ..RepoPaths::default() };
        self.walk_folder("", false, &mut paths, at)?;
        paths.files.sort();
        Ok(self.reader.usage.paths.get_or_init(|| paths))
    }

    fn walk_folder(
        &self,
        folder: &str,
        is_hidden: bool,
        paths: &mut RepoPaths,
        at: &str,
    ) -> Result<(), DescriptionError> {
        let entries =
            self.reader.tree.list_folder(folder).map_err(|why| DescriptionError::new(at, why.to_string()))?;
        let mut entries: Vec<_> = entries.into_iter().filter(|entry| entry.name != ".git").collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let is_hidden = is_hidden || entry.name.starts_with('.');
            let path = join_path(folder, &entry.name);
            match entry.kind {
                EntryKind::Folder => {
                    let folders = if is_hidden { &mut paths.hidden_folders } else { &mut paths.folders };
                    folders.push(path.clone());
                    self.walk_folder(&path, is_hidden, paths, at)?;
                }
                EntryKind::Special => {}
                // Others than files cannot be read, which is an error where they are selected.
                _ => paths.files.push(path),
            }
        }
        Ok(())
    }
}

/// The patterns in a list of a generator.
fn read_patterns<'g>(items: &'g [Value], at: &str) -> Result<Vec<WrittenPattern<'g>>, DescriptionError> {
    let read = |(index, item): (usize, &'g Value)| {
        let pointer = format!("{at}/{index}");
        match item.get("path") {
            Some(Value::String(path)) => {
                let excludes = item.get("exclude") == Some(&Value::Bool(true));
                Ok(WrittenPattern { path, excludes, pointer: format!("{pointer}/path") })
            }
            _ => Err(DescriptionError::new(&pointer, "it has no `path`")),
        }
    };
    items.iter().enumerate().map(read).collect()
}

/// The first document of a YAML or JSON text, which may be empty.
pub(super) fn read_first_document(bytes: &[u8]) -> Result<Value, String> {
    let mut stream = federate_yaml::read_stream(bytes);
    let errors = stream.errors;
    if stream.documents.is_empty() {
        return errors.first().map_or(Ok(Value::Null), |error| Err(error.to_string()));
    }
    let first = stream.documents.swap_remove(0);
    match errors.iter().find(|error| error.at.line < first.line) {
        Some(error) => Err(error.to_string()),
        None if first.index > 0 => Ok(Value::Null),
        None => Ok(first.value),
    }
}
