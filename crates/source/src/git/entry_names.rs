//! Names of entries of trees: those that git refuses to check out, and two entries of one name.
//!
//! Facts: the checks `fullPathname`, `emptyName`, `hasDot`, `hasDotdot`, `hasDotgit` and `duplicateEntries` of git-fsck(1); what HFS+
//! ignores in names, and the short names of NTFS, as in git's `core.protectHFS` and `core.protectNTFS`.

use std::collections::BTreeSet;

use federate_kubernetes::display_text::shorten_line;
use git2::{ErrorClass, ErrorCode, Tree};

/// The most characters of a name that are shown.
const MAX_SHOWN_CHARACTERS: usize = 100;

/// Why git reserves a name or a file system cannot have it, if so.
pub fn find_name_fault(name: &str) -> Option<&'static str> {
    if matches!(name, "" | "." | "..") {
        return Some("is no name of a file");
    }
    if name.contains(['/', '\0']) {
        return Some("contains a slash or a NUL");
    }
    name.split('\\').any(is_git_folder).then_some("is that of git's own folder on some file systems")
}

/// Whether some file system takes a name for `.git`.
fn is_git_folder(name: &str) -> bool {
    let seen: String = name.chars().filter(|c| !is_ignored_by_hfs(*c)).collect();
    let plain = seen.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    plain.eq_ignore_ascii_case(".git") || plain.eq_ignore_ascii_case("git~1")
}

/// Whether HFS+ ignores a character in names.
fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Refuses a tree that git itself would not check out.
pub(super) fn check_names(tree: &Tree<'_>) -> Result<(), git2::Error> {
    let mut names = BTreeSet::new();
    for entry in tree {
        let name = String::from_utf8_lossy(entry.name_bytes());
        let shown = shorten_line(&name, MAX_SHOWN_CHARACTERS);
        if let Some(fault) = find_name_fault(&name) {
            return Err(refuse_tree(&format!("it has an entry `{shown}`, whose name {fault}")));
        }
        if !names.insert(entry.name_bytes().to_owned()) {
            return Err(refuse_tree(&format!("it has two entries `{shown}`")));
        }
    }
    Ok(())
}

fn refuse_tree(why: &str) -> git2::Error {
    git2::Error::new(ErrorCode::GenericError, ErrorClass::Tree, format!("{why}: git refuses such a tree"))
}

#[cfg(test)]
mod tests {
    use super::find_name_fault;

    #[test]
    fn names_that_are_gits_on_some_file_system_are_refused() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "/",
            "a\0b",
            ".git",
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "git~1",
            "GIT~1",
            "git~1.",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{206a}",
            ".gi\u{200d}T",
            "a\\.git",
            ".git\\x",
        ] {
            assert!(find_name_fault(name).is_some(), "{name:?}");
        }
        for name in [
            ".github",
            ".gitignore",
            ".gitmodules",
            "git",
            "a.git",
            "git~2",
            ".gita",
            "...",
            " ",
            "a\\b",
            "é.yaml",
        ] {
            assert_eq!(find_name_fault(name), None, "{name:?}");
        }
    }
}
