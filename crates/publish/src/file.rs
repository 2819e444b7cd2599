//! Gives one file new contents in one step: whoever reads it sees the old or the new, never a part. New
//! files replace nothing.
//!
//! The contents are written beside it, to `.NAME.federate-new`, which is locked meanwhile. A run that is
//! killed leaves that file, and the next one takes it over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::lock::Lock;

/// Replaces the contents of a file that exists. Its permissions stay; a link stays a link, and what it
/// leads to is replaced.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    let mut new = Lock::take_as(&beside(&path), 0o600, || {})?;
    // Before there is anything to read: who may not read the old contents may not read the new ones.
    new.permit(permissions)?;
    new.fill(contents)?;
    new.replace(&path)
}

/// Removes what a killed run has left beside a file.
pub fn clear(path: &Path) -> io::Result<()> {
    remove(&beside(&fs::canonicalize(path)?))
}

/// Makes a file that was not there, and the folders that are to hold it.
pub fn create(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = beside(path);
    // What is left there may have permissions that a new file does not get.
    remove(&beside)?;
    let mut new = Lock::take(&beside, || {})?;
    new.fill(contents)?;
    new.put(path)
}

/// Removes what a killed run has left, if anything; waits for one that lives.
fn remove(beside: &Path) -> io::Result<()> {
    match fs::symlink_metadata(beside) {
        Ok(_) => Lock::take(beside, || {}).map(drop),
        Err(_) => Ok(()),
    }
}

/// Where new contents are written.
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
