//! Decides which paths of a tree are read, from paths and the content of ignore files only, so that a work
//! tree and a git tree give the same result.
//!
//! Facts: gitignore(5). The ignore file nearest to the path decides, and in a file the last matching line;
//! `.federateignore` takes precedence over `.gitignore`. Ignore files outside the tree (the user's own, those
//! of enclosing folders) have no effect.

use std::collections::BTreeMap;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The names of ignore files, by precedence.
pub(crate) const IGNORE_FILES: [&str; 2] = [".federateignore", ".gitignore"];

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// Plain objects.
    Plain,
    /// A template, rendered for each cluster.
    Jinja,
}

/// The name of a kustomization without an extension.
const KUSTOMIZATION_FILE_NAME: &str = "Kustomization";

/// The format of a file with this name; `None` for files that contain no objects.
pub(crate) fn detect_format(name: &str) -> Option<FileFormat> {
    if name.rsplit('/').next() == Some(KUSTOMIZATION_FILE_NAME) {
        return Some(FileFormat::Plain);
    }
    let (name, format) = match name.strip_suffix(".j2") {
        Some(name) => (name, FileFormat::Jinja),
        None => (name, FileFormat::Plain),
    };
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty() && matches!(extension, "yaml" | "yml" | "json")).then_some(format)
}

/// Invalid gitignore patterns, each with its line (from 1) and the reason.
pub(crate) type BadPatterns = Vec<(u32, String)>;

/// Compiles gitignore patterns; invalid lines are skipped.
pub(crate) fn compile_patterns<'l>(lines: impl Iterator<Item = &'l str>) -> (Gitignore, BadPatterns) {
    let mut builder = GitignoreBuilder::new("");
    let mut bad = Vec::new();
    for (number, line) in (1..).zip(lines) {
        if let Err(e) = builder.add_line(None, line) {
            bad.push((number, e.to_string()));
        }
    }
    match builder.build() {
        Ok(patterns) => (patterns, bad),
        Err(e) => {
            bad.push((1, e.to_string()));
            (Gitignore::empty(), bad)
        }
    }
}

/// The ignore rules of a tree, collected from the root down.
#[derive(Debug, Default)]
pub(crate) struct IgnoreRules {
    /// By name as in [`IGNORE_FILES`], then by folder.
    files: [BTreeMap<String, Gitignore>; 2],
}

impl IgnoreRules {
    /// Adds the ignore file `name` of `folder`.
    pub(crate) fn add_file(&mut self, folder: &str, name: &str, text: &[u8]) -> BadPatterns {
        let text = String::from_utf8_lossy(text);
        let (patterns, bad) = compile_patterns(text.strip_prefix('\u{feff}').unwrap_or(&text).lines());
        for (known, folders) in IGNORE_FILES.iter().zip(&mut self.files) {
            if *known == name && !patterns.is_empty() {
                folders.insert(folder.to_owned(), patterns.clone());
            }
        }
        bad
    }

    /// Whether a path is ignored because it is hidden or matches the ignore files added so far. Its parent
    /// folders are not checked.
    pub(crate) fn ignores_path(&self, path: &str, folder: bool) -> bool {
        if path.rsplit('/').next().is_some_and(|name| name.starts_with('.')) {
            return true;
        }
        let decided = self.files.iter().find_map(|by_folder| {
            parent_folders(path).find_map(|(parent, rest)| {
                match by_folder.get(parent)?.matched(rest, folder) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                }
            })
        });
        decided.unwrap_or(false)
    }
}

/// The parent folders of a path, nearest first, each with the rest of the path.
pub(crate) fn parent_folders(path: &str) -> impl Iterator<Item = (&str, &str)> {
    path.rmatch_indices('/').map(|(at, _)| (&path[..at], &path[at + 1..])).chain([("", path)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str, &str)]) -> IgnoreRules {
        let mut rules = IgnoreRules::default();
        for (folder, name, text) in files {
            assert_eq!(rules.add_file(folder, name, text.as_bytes()), []);
        }
        rules
    }

    #[test]
    fn the_nearest_file_decides_and_its_last_line() {
        let rules = rules(&[
            ("", ".gitignore", "*.yaml\n!keep.yaml\n/top\n"),
            ("a", ".gitignore", "!*.yaml\nsecret.yaml\n"),
        ]);
        assert!(rules.ignores_path("x.yaml", false) && !rules.ignores_path("keep.yaml", false));
        assert!(!rules.ignores_path("a/x.yaml", false) && !rules.ignores_path("a/b/x.yaml", false));
        assert!(rules.ignores_path("a/secret.yaml", false) && rules.ignores_path("a/b/secret.yaml", false));
        assert!(rules.ignores_path("top", true) && !rules.ignores_path("a/top", true));
    }

    #[test]
    fn federateignore_goes_before_gitignore() {
        let rules =
            rules(&[("", ".federateignore", "!x.yaml\ny.yaml"), ("a", ".gitignore", "x.yaml\n!y.yaml")]);
        assert!(!rules.ignores_path("a/x.yaml", false) && rules.ignores_path("a/y.yaml", false));
    }

    #[test]
    fn folder_patterns_match_folders_only() {
        let rules = rules(&[("", ".gitignore", "\u{feff}out/\r\n# note\r\n\r\ndocs/**/tmp\r\n")]);
        assert!(
            rules.ignores_path("out", true)
                && !rules.ignores_path("out", false)
                && rules.ignores_path("a/out", true)
        );
        assert!(rules.ignores_path("docs/a/b/tmp", false) && !rules.ignores_path("tmp", false));
    }

    #[test]
    fn hidden_names_are_never_read() {
        let rules = rules(&[("", ".gitignore", "!.hidden.yaml")]);
        assert!(rules.ignores_path(".hidden.yaml", false) && rules.ignores_path("a/.git", true));
        assert!(!rules.ignores_path(".a/b", false), "parents are checked separately");
    }

    #[test]
    fn invalid_patterns_are_reported_and_others_apply() {
        let mut rules = IgnoreRules::default();
        let bad = rules.add_file("", ".gitignore", b"ok.yaml\na{b\n");
        assert_eq!(bad.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2]);
        assert!(rules.ignores_path("ok.yaml", false));
    }

    #[test]
    fn formats_by_name() {
        assert_eq!(detect_format("a.yaml"), Some(FileFormat::Plain));
        assert_eq!(detect_format("a.yml.j2"), Some(FileFormat::Jinja));
        assert_eq!(detect_format("a.b.json"), Some(FileFormat::Plain));
        assert_eq!(detect_format("a/Kustomization"), Some(FileFormat::Plain));
        for name in ["a.txt", "yaml", ".yaml", "a.j2", "a.yaml.bak", "a.YAML"] {
            assert_eq!(detect_format(name), None, "{name}");
        }
    }
}
