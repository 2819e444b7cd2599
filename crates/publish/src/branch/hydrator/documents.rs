//! The stream of a cluster's manifests. Each document begins with the path that its object has in the plain layout, as a
//! comment, by which the document is found again:
//!
//! ```text
//! # shop/deployment.apps_web.yaml
//! apiVersion: apps/v1
//! …
//! ---
//! # shop/service_web.yaml
//! ```

use std::collections::BTreeMap;

use crate::summary::ClusterSummary;
use crate::tree::{NamespaceFolders, OutputFile};

/// The line between documents.
const SEPARATOR: &str = "---\n";

/// The text of the stream, in parts.
pub(super) fn stream_parts(files: &NamespaceFolders<OutputFile>) -> impl Iterator<Item = &str> + Clone {
    let files = files.iter().flat_map(|(namespace, files)| files.iter().map(move |file| (namespace, file)));
    files.enumerate().flat_map(|(number, (namespace, file))| {
        let separator = if number == 0 { "" } else { SEPARATOR };
        let end = if file.text().ends_with('\n') { "" } else { "\n" };
        [separator, "# ", namespace, "/", file.name(), "\n", file.text(), end]
    })
}

/// The documents of a stream with the paths of their objects. What does not begin with a path was not written by federate, and
/// is left out.
pub(in crate::branch) fn split_documents(stream: &str) -> impl Iterator<Item = (&str, &str)> {
    split_texts(stream).filter_map(split_path)
}

/// Whether a stream has documents without a path, such as those of a file that was edited or formatted: it is not known which
/// objects they are.
pub(super) fn has_unknown_documents(stream: &str) -> bool {
    split_texts(stream).any(|text| !text.trim().is_empty() && split_path(text).is_none())
}

/// The texts between separators.
fn split_texts(stream: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(stream);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = if text.starts_with(SEPARATOR) { Some(0) } else { text.find("\n---\n").map(|at| at + 1) };
        rest = end.and_then(|end| text.get(end + SEPARATOR.len()..));
        text.get(..end.unwrap_or(text.len()))
    })
}

/// The path at the beginning of a document, and the rest.
fn split_path(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("# ")?.split_once('\n')
}

/// Sorts the objects of two streams into created, updated, removed and unchanged ones.
pub(super) fn compare_streams(old: &str, new: &str, changes: &mut ClusterSummary) {
    let mut before: BTreeMap<&str, &str> = split_documents(old).collect();
    for (path, text) in split_documents(new) {
        let full = format!("{}/{path}", changes.cluster);
        match before.remove(path) {
            Some(before) if before == text => changes.unchanged += 1,
            Some(_) => changes.updated.push(full),
            None => changes.created.push(full),
        }
    }
    changes.removed = before.into_keys().map(|path| format!("{}/{path}", changes.cluster)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_by_their_paths() {
        let stream =
            "# a/x.yaml\nk: |\n  ---\n  # b\n---\n# a/y.yaml\nk: 1\n---\nby: hand\n---\n# b/z.yaml\nk: 2\n";
        let found: Vec<_> = split_documents(stream).collect();
        assert_eq!(
            found,
            [("a/x.yaml", "k: |\n  ---\n  # b\n"), ("a/y.yaml", "k: 1\n"), ("b/z.yaml", "k: 2\n")]
        );
        assert!(has_unknown_documents(stream) && !has_unknown_documents("# a/y.yaml\nk: 1\n"));
        assert_eq!(split_documents("").count(), 0);
        assert_eq!(split_documents("---\n---\n# a\n").collect::<Vec<_>>(), [("a", "")]);
    }

    #[test]
    fn objects_are_compared_one_by_one() {
        let mut changes = ClusterSummary { cluster: "m".to_owned(), ..ClusterSummary::default() };
        compare_streams(
            "# a\n1\n---\n# b\n2\n---\n# c\n3\n",
            "# a\n1\n---\n# c\n4\n---\n# d\n5\n",
            &mut changes,
        );
        assert_eq!(
            (changes.unchanged, changes.updated, changes.created),
            (1, vec!["m/c".to_owned()], vec!["m/d".to_owned()])
        );
        assert_eq!(changes.removed, ["m/b"]);
    }
}
