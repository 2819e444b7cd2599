//! The findings about files and folders that are not read.

use std::fmt;
use std::sync::Arc;

use federate_kubernetes::finding::join_names;
use federate_kubernetes::{Finding, Severity};

/// The error about a file or folder that is not read, with the reason.
pub(crate) fn unreadable_error(path: &str, why: impl fmt::Display) -> Finding {
    let file: Arc<str> = if path.is_empty() { ".".into() } else { path.into() };
    Finding::in_file(Severity::Error, "unreadable", &file, None, format!("cannot be read: {why}"))
}

/// The error about a file that a sparse checkout leaves out, and others like it.
pub(crate) fn sparse_checkout_error(path: &str, others: &[String]) -> Finding {
    let names: Vec<&str> = others.iter().map(String::as_str).collect();
    let more = match names.len() {
        0 => String::new(),
        1 => format!("; nor is {}", join_names(&names, 1)),
        many => format!("; nor are {many} other files: {}", join_names(&names, 5)),
    };
    let why = format!("git tracks it, but it is not checked out (sparse checkout){more}");
    unreadable_error(path, why).with_help(
        "`git sparse-checkout disable` checks out everything, `git sparse-checkout add FOLDER` one folder; --rev HEAD \
         reads the last commit; what is not to be read goes into .federateignore",
    )
}

/// The error about a submodule without files.
pub(crate) fn submodule_error(path: &str) -> Finding {
    unreadable_error(path, "it is a submodule, and its files are not here").with_help(
        "`git submodule update --init` fetches them; if the repo needs nothing from it, list it in .federateignore",
    )
}

/// The error about a link out of the repo.
pub(crate) fn outside_link_error(path: &str, target: &str) -> Finding {
    let message = format!("the symbolic link `{path}` points outside of the repo, to `{target}`");
    Finding::in_file(Severity::Error, "link-outside", &path.into(), None, message)
        .with_help("copy the target into the repo, or list the link in .federateignore")
}
