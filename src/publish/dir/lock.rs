//! One publisher a folder: an advisory lock on a file beside it, which is gone afterwards.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held until dropped; the operating system lets go of it when the process is killed.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the file at `path`, making it first. When another holds it, calls `waiting` and waits.
    pub(super) fn take(path: &Path, waiting: impl FnOnce()) -> io::Result<Self> {
        let mut waiting = Some(waiting);
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {
                    if let Some(waiting) = waiting.take() {
                        waiting();
                    }
                    file.lock()?;
                }
            }
            // Its last holder removed the file that we waited for: another may hold the next one.
            if is_at(&file, path)? {
                return Ok(Self { _file: file, path: path.to_owned() });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked here. A file that stays behind does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
