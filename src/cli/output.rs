//! Where commands may write.

use std::path::{Path, PathBuf};

use super::CommandError;
use federate_publish::output_path::check_output_path;
use federate_source::git::GitLocation;

/// Refuses an output path on which a symbolic link of the checkout lies: of the repository of `repo`, or of the one that
/// the command runs in.
pub(super) fn check_output(path: &Path, repo: &Path) -> Result<(), CommandError> {
    let own = GitLocation::discover_around(repo).ok().and_then(|location| location.work_tree);
    let own = own.unwrap_or_else(|| repo.to_owned());
    let around = std::env::current_dir().ok().and_then(|here| GitLocation::discover_around(&here).ok());
    let around = around.and_then(|location| location.work_tree);
    let checkouts: Vec<PathBuf> = std::iter::once(own).chain(around).collect();
    check_output_path(path, &checkouts).map_err(|error| CommandError::Failed(error.to_string()))
}
