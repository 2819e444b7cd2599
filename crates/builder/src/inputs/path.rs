//! Paths in kustomizations.

use federate_repo::build::BuildError;
use federate_repo::normalize_path;

use super::{Reference, refuse_build};

/// The path in the repo of a path that a kustomization in `folder` names.
pub(super) fn resolve_repo_path(
    folder: &str,
    written: &str,
    place: &Reference,
) -> Result<String, BuildError> {
    if is_remote(written) {
        let name =
            written.split(['?', '#']).next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let help = if written.starts_with("https://") && name.contains('.') && !written.contains("?ref=") {
            format!("vendor it (`curl -Lo {name} {written}`), and name the file")
        } else {
            "vendor it: commit a copy to the repo, and name its folder".to_owned()
        };
        return Err(refuse_build(
            Some(place),
            format!("`{}` is not in the repo, and nothing is fetched", show_path(written)),
            Some(help),
        ));
    }
    if written.contains(char::is_control) || written.contains(": ") || written.ends_with(':') {
        let why = format!("`{}` is not the path of a file", show_path(written));
        let help = "write a relative path without line breaks and colons at its end".to_owned();
        return Err(refuse_build(Some(place), why, Some(help)));
    }
    let path = Some(format!("./{folder}/{written}")).filter(|_| !written.starts_with('/'));
    path.and_then(|path| normalize_path(&path).ok()).ok_or_else(|| {
        let help = "commit a copy to the repo, and name it by a relative path".to_owned();
        refuse_build(Some(place), format!("`{written}` is outside of the repo"), Some(help))
    })
}

/// A relative path without detours. It starts with a dot, so that no release of kustomize takes it for an address or an object.
pub(super) fn clean_path(written: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if joined.is_empty() {
        ".".to_owned()
    } else if parts.first() == Some(&"..") {
        joined
    } else {
        format!("./{joined}")
    }
}

/// The path from one folder of the repo to another, as kustomize is to read it.
pub(super) fn find_relative_path(from: &str, to: &str) -> String {
    let depth = from.split('/').filter(|part| !part.is_empty()).count();
    if depth == 0 { format!("./{to}") } else { "../".repeat(depth) + to }
}

/// Whether kustomize would fetch a resource.
fn is_remote(path: &str) -> bool {
    const STARTS: [&str; 7] = ["git@", "git::", "github.com/", "github.com:", "gh:", "http:", "https:"];
    let lower = path.to_ascii_lowercase();
    STARTS.iter().any(|start| lower.starts_with(start))
        || lower.contains("://")
        || lower.contains("?ref=")
        || lower.contains("?version=")
        || lower.contains(".git//")
}

/// A path for a message: one line of it.
fn show_path(written: &str) -> String {
    let first: String = written.lines().next().unwrap_or_default().chars().take(80).collect();
    if first.len() < written.len() {
        format!("{} …", first.escape_debug())
    } else {
        first.escape_debug().to_string()
    }
}

/// The key and the path in `key=path`.
pub(super) fn split_key(file: &str) -> (Option<&str>, &str) {
    file.split_once('=').map_or((None, file), |(key, path)| (Some(key), path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail loudly")]

    use super::*;

    #[test]
    fn cleaned_paths_start_with_a_dot() {
        for (written, clean) in [
            ("a.yaml", "./a.yaml"),
            ("./a//b/", "./a/b"),
            ("../../a/./b", "../../a/b"),
            ("a/../b", "./b"),
            ("a/..", "."),
            ("a/../../b", "../b"),
            ("..", ".."),
            ("github.com/a/b", "./github.com/a/b"),
        ] {
            assert_eq!(clean_path(written), clean, "{written}");
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        let place = Reference { file: "kustomization.yaml".to_owned(), line: 1 };
        for written in [
            "/etc/passwd",
            "../../a",
            "a/../../../b",
            "a\n/../../../etc/passwd",
            "a\0b",
            "a: b",
            "HTTP://localhost/a",
            "http:a",
            "file:///etc/passwd",
            "git::a/b",
            "GitHub.com/a/b",
            "git@example.com:a/b",
            "a?ref=b",
        ] {
            assert!(resolve_repo_path("app", written, &place).is_err(), "{written:?}");
        }
        assert_eq!(resolve_repo_path("app/x", "../../base//a.yaml", &place).unwrap(), "base/a.yaml");
        assert_eq!(resolve_repo_path("", "app@v1/a:b.yaml", &place).unwrap(), "app@v1/a:b.yaml");
    }
}
