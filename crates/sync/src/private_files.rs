//! Files that only this user can read, for programs that read credentials from files.
//!
//! The files of a process are in one folder, which is removed with the last of them. A process that is killed leaves its
//! folder behind. The lock in it ends with the process, so that the next process sees that the folder is unused, and
//! removes it. Process ids would not do: in containers they repeat.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::{TempDir, TempPath};

/// How the names of the folders begin.
const FOLDER_PREFIX: &str = "federate-credentials-";
/// The lock in a folder.
const LOCK_FILE: &str = "lock";

/// A file that only this user can read, and that exists as long as this does.
#[derive(Debug)]
pub struct PrivateFile {
    // Dropped before the folder.
    path: TempPath,
    _folder: Arc<Folder>,
}

impl PrivateFile {
    /// Writes a file. It is closed, because a program that is open for writing cannot be run.
    pub(crate) fn new(contents: &[u8]) -> io::Result<Self> {
        let folder = Folder::create_for_process()?;
        let mut file = tempfile::NamedTempFile::new_in(&folder.path)?;
        file.write_all(contents)?;
        file.flush()?;
        Ok(Self { path: file.into_temp_path(), _folder: folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder of a process.
#[derive(Debug)]
struct Folder {
    path: TempDir,
    _lock: File,
}

impl Folder {
    /// The folder of this process; a new one if no file is in use.
    fn create_for_process() -> io::Result<Arc<Self>> {
        static FOLDER: Mutex<Weak<Folder>> = Mutex::new(Weak::new());
        let mut kept = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = kept.upgrade() {
            return Ok(folder);
        }
        let folder = Arc::new(Self::new(&std::env::temp_dir())?);
        *kept = Arc::downgrade(&folder);
        Ok(folder)
    }

    /// Creates a folder below `parent`, and removes those of processes that have ended.
    fn new(parent: &Path) -> io::Result<Self> {
        let own = Permissions::from_mode(0o700);
        let path = tempfile::Builder::new().prefix(FOLDER_PREFIX).permissions(own).tempdir_in(parent)?;
        // Whoever finds the lock finds it held.
        let unlocked = path.path().join("unlocked");
        let lock = File::create(&unlocked)?;
        lock.lock()?;
        fs::rename(unlocked, path.path().join(LOCK_FILE))?;
        remove_unused_folders(parent, fs::metadata(&path)?.uid());
        Ok(Self { path, _lock: lock })
    }
}

/// Removes the folders of a user that no process uses. What cannot be removed stays.
fn remove_unused_folders(parent: &Path, user: u32) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(FOLDER_PREFIX));
        // The folder for temporary files is shared: others may have made links there.
        if named
            && entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user)
            && File::open(entry.path().join(LOCK_FILE)).is_ok_and(|lock| lock.try_lock().is_ok())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_that_killed_processes_left_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, lock: bool| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("secret"), "s3cret").unwrap();
            if lock {
                fs::write(path.join(LOCK_FILE), "").unwrap();
            }
            path
        };
        let left = make(&format!("{FOLDER_PREFIX}left"), true);
        let other = make("other", true);
        let starting = make(&format!("{FOLDER_PREFIX}starting"), false);
        let link = parent.path().join(format!("{FOLDER_PREFIX}link"));
        symlink(&other, &link).unwrap();
        let used = Folder::new(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(other.join("secret").exists() && starting.exists() && link.is_symlink());
        let second = Folder::new(parent.path()).unwrap();
        assert!(used.path.path().exists(), "it is in use");
        let path = second.path.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_readable_by_its_user_only_and_goes_when_it_is_dropped() {
        let file = PrivateFile::new(b"s3cret").unwrap();
        let (path, folder) = (file.path().to_owned(), file.path().parent().unwrap().to_owned());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
        assert_eq!(fs::read(&path).unwrap(), b"s3cret");
        drop(file);
        assert!(!path.exists());
    }
}
