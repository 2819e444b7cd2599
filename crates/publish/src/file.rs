//! Replaces the content of one file in one step: readers see the old or the new content, never a part. New
//! files never overwrite existing ones.
//!
//! The content is first written to `.NAME.federate-new` in the same folder, under a lock. A killed run leaves
//! that file, and the next run takes it over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::lock::FileLock;

/// Replaces the content of an existing file. Its permissions are kept; a symlink is kept, and its target is
/// replaced.
pub fn replace_content(path: &Path, contents: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    let mut new = FileLock::take_with_mode(&temporary_path(&path), 0o600, || {})?;
    // Set before any content is written, so that it is never more readable than the old file.
    new.set_permissions(permissions)?;
    new.write_and_sync(contents)?;
    new.rename_over(&path)
}

/// Removes what a killed run left next to a file.
pub fn remove_leftovers(path: &Path) -> io::Result<()> {
    remove_stale_file(&temporary_path(&fs::canonicalize(path)?))
}

/// Creates a new file, and the folders for it.
pub fn create_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = temporary_path(path);
    // The leftover may have permissions that a new file would not get.
    remove_stale_file(&beside)?;
    let mut new = FileLock::lock_file(&beside, || {})?;
    new.write_and_sync(contents)?;
    new.rename_to_new(path)
}

/// Removes what a killed run left, if anything; waits for a running one.
fn remove_stale_file(beside: &Path) -> io::Result<()> {
    match fs::symlink_metadata(beside) {
        Ok(_) => FileLock::lock_file(beside, || {}).map(drop),
        Err(_) => Ok(()),
    }
}

/// The file to which new content is written.
fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.federate-new"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_is_there_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c.yaml");
        create_file(&path, b"new").unwrap();
        assert_eq!(create_file(&path, b"other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path().join("a/b")).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_a_killed_run_left_is_taken_over_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("a.yaml"), dir.path().join(".a.yaml.federate-new"));
        fs::write(&left, "a part of what was to be written, and longer").unwrap();
        create_file(&path, b"old").unwrap();
        assert!(!left.exists() && fs::read_to_string(&path).unwrap() == "old");
        for again in [true, false] {
            fs::write(&left, "a part of what was to be written").unwrap();
            if again {
                replace_content(&path, b"new").unwrap();
            } else {
                remove_leftovers(&path).unwrap();
            }
            assert!(!left.exists() && fs::read_to_string(&path).unwrap() == "new");
        }
        let other = dir.path().join("other");
        symlink(&other, &left).unwrap();
        assert!(replace_content(&path, b"newer").unwrap_err().to_string().contains("remove it"));
        assert!(!other.exists() && fs::read_to_string(&path).unwrap() == "new");
    }

    #[test]
    fn permissions_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a.yaml"), dir.path().join("b.yaml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a.yaml", &link).unwrap();
        replace_content(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
        assert!(replace_content(&dir.path().join("absent"), b"").is_err());
    }
}
