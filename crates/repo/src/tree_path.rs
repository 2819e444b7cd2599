//! Paths in the tree of a source.

/// The path of an entry of a folder.
pub(crate) fn join_path(folder: &str, name: &str) -> String {
    // The root of the git repository is `/`.
    if folder.is_empty() || folder.ends_with('/') {
        format!("{folder}{name}")
    } else {
        format!("{folder}/{name}")
    }
}

/// Whether a path is a folder or in it; the empty folder is the repo's.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
