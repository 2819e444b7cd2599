//! One publisher a place: an advisory lock on a file, which is gone afterwards. A publisher that is
//! killed leaves the file, and in it what it was doing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held until dropped; the operating system lets go of it when the process is killed.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the file at `path`, making it first. When another holds it, calls `waiting` and waits.
    pub(super) fn take(path: &Path, waiting: impl FnOnce()) -> io::Result<Self> {
        let mut waiting = Some(waiting);
        loop {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
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
                return Ok(Self { file, path: path.to_owned() });
            }
        }
    }

    /// What the last holder was doing when it was killed; empty when it was not.
    pub(super) fn left(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Notes what the holder is about to do.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
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
