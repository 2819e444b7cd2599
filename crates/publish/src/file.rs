//! Replaces the content of one file in one step: readers see the old or the new content, never a part. New
//! files never overwrite existing ones.
//!
//! The content is first written to `.NAME.federate-new` in the same folder, under a lock. A killed run leaves
//! that file, and the next run takes it over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::lock::Lock;

/// Replaces the content of an existing file. Its permissions are kept; a symlink is kept, and its target is
/// replaced.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    let mut new = Lock::take_with_mode(&beside(&path), 0o600, || {})?;
    // Set before any content is written, so that it is never more readable than the old file.
    new.set_permissions(permissions)?;
    new.fill(contents)?;
    new.replace(&path)
}

/// Removes what a killed run left next to a file.
pub fn clear(path: &Path) -> io::Result<()> {
    remove(&beside(&fs::canonicalize(path)?))
}

/// Creates a new file, and the folders for it.
pub fn create(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = beside(path);
    // The leftover may have permissions that a new file would not get.
    remove(&beside)?;
    let mut new = Lock::take(&beside, || {})?;
    new.fill(contents)?;
    new.put(path)
}

/// Removes what a killed run left, if anything; waits for a running one.
fn remove(beside: &Path) -> io::Result<()> {
    match fs::symlink_metadata(beside) {
        Ok(_) => Lock::take(beside, || {}).map(drop),
        Err(_) => Ok(()),
    }
}

/// The file to which new content is written.
fn beside(path: &Path) -> PathBuf {
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
        create(&path, b"new").unwrap();
        assert_eq!(create(&path, b"other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path().join("a/b")).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_a_killed_run_left_is_taken_over_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("a.yaml"), dir.path().join(".a.yaml.federate-new"));
        fs::write(&left, "a part of what was to be written, and longer").unwrap();
        create(&path, b"old").unwrap();
        assert!(!left.exists() && fs::read_to_string(&path).unwrap() == "old");
        for again in [true, false] {
            fs::write(&left, "a part of what was to be written").unwrap();
            if again {
                replace(&path, b"new").unwrap();
            } else {
                clear(&path).unwrap();
            }
            assert!(!left.exists() && fs::read_to_string(&path).unwrap() == "new");
        }
        let other = dir.path().join("other");
        symlink(&other, &left).unwrap();
        assert!(replace(&path, b"newer").unwrap_err().to_string().contains("remove it"));
        assert!(!other.exists() && fs::read_to_string(&path).unwrap() == "new");
    }

    #[test]
    fn permissions_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a.yaml"), dir.path().join("b.yaml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a.yaml", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
        assert!(replace(&dir.path().join("absent"), b"").is_err());
    }
}
