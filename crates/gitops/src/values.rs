//! Values files of charts: globs, files that may be missing, and paths that are refused.

use serde_json::{Map, Value};

use federate_file_tree::{EntryKind, FileTree, find_entry, normalize_path};

/// Why a values file cannot be used.
pub struct ValuesError {
    /// The path, as it is written after the name of the cluster is put in.
    pub written: String,
    /// Why it cannot.
    pub why: String,
    /// What to do.
    pub help: Option<String>,
}

impl ValuesError {
    fn new(written: &str, why: String, help: Option<&str>) -> Self {
        Self { written: written.to_owned(), why, help: help.map(str::to_owned) }
    }
}

/// The paths of values files, in order. They exist.
pub fn expand_values(tree: &dyn FileTree, written: &[String]) -> Result<Vec<String>, ValuesError> {
    let mut paths = Vec::new();
    for path in written {
        expand_path(tree, path, &mut paths)?;
    }
    Ok(paths)
}

fn expand_path(tree: &dyn FileTree, written: &str, paths: &mut Vec<String>) -> Result<(), ValuesError> {
    let (path, is_optional) = match written.strip_suffix('?') {
        Some(path) => (path, true),
        None => (written, false),
    };
    if path.contains("://") {
        let help = "commit the file to the repo: values are never fetched";
        return Err(ValuesError::new(written, format!("the values file `{path}` is a URL"), Some(help)));
    }
    let Ok(path) = normalize_path(path) else {
        let why = format!("the values file `{path}` is outside of the repo");
        return Err(ValuesError::new(written, why, None));
    };
    if path.contains('*') {
        let parts: Vec<&str> = path.split('/').collect();
        let before = paths.len();
        match_parts(tree, "", &parts, paths);
        if paths.len() == before && !is_optional {
            let why = format!("no file of the repo matches `{path}`");
            return Err(ValuesError::new(written, why, Some(OPTIONAL_FILE_HELP)));
        }
        return Ok(());
    }
    match require_values_file(tree, &path, is_optional) {
        Ok(true) => paths.push(path),
        Ok(false) => {}
        Err(error) => return Err(ValuesError { written: written.to_owned(), ..error }),
    }
    Ok(())
}

/// Whether a values file of the repo exists, which may be missing if it is optional. What is there must be a file.
pub(crate) fn require_values_file(
    tree: &dyn FileTree,
    path: &str,
    is_optional: bool,
) -> Result<bool, ValuesError> {
    let (why, help) = match find_entry(tree, path) {
        Some(EntryKind::File) => return Ok(true),
        None if is_optional => return Ok(false),
        None => (format!("the repo has no values file `{path}`"), Some(OPTIONAL_FILE_HELP)),
        Some(EntryKind::LinkToFile(_) | EntryKind::LinkToFolder(_) | EntryKind::LinkOutside(_)) => (
            format!("the values file `{path}` is a link, or a link leads to it"),
            Some("name the file itself"),
        ),
        Some(_) => (format!("`{path}` is not a file that can be read"), None),
    };
    Err(ValuesError::new(path, why, help))
}

const OPTIONAL_FILE_HELP: &str = "end the path in `?` if it may be missing";

/// Adds the files below `folder` that match the parts of a glob, sorted.
fn match_parts(tree: &dyn FileTree, folder: &str, parts: &[&str], paths: &mut Vec<String>) {
    let Some((part, rest)) = parts.split_first() else { return };
    let Ok(mut entries) = tree.list_folder(folder) else { return };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in entries.into_iter().filter(|entry| matches_part(part, &entry.name)) {
        let path = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
        match entry.kind {
            EntryKind::File if rest.is_empty() => paths.push(path),
            EntryKind::Folder if !rest.is_empty() => match_parts(tree, &path, rest, paths),
            _ => {}
        }
    }
}

/// Whether a name matches a part of a glob, in which `*` stands for any characters.
pub(crate) fn matches_part(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    if !pattern.contains('*') {
        return rest.is_empty();
    }
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, between)) = pieces.split_last() else { return rest.is_empty() };
    for piece in between {
        let Some(at) = rest.find(piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last) && (pattern.starts_with('.') || !name.starts_with('.'))
}

/// Merges a map over another: maps by their keys, other values as a whole.
pub fn merge_maps(into: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(over)) => merge_maps(into, over),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches_part;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("a.yaml", "a.yaml", true),
            ("a.yaml", "a.yaml2", false),
            ("*.yaml", "a.yaml", true),
            ("*.yaml", ".a.yaml", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*", "x", true),
        ] {
            assert_eq!(matches_part(pattern, name), expected, "{pattern} {name}");
        }
    }
}
