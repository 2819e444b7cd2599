//! Allows one publisher per place, with an advisory lock on a file that is removed afterwards. A killed
//! publisher leaves the file, which records what it was doing.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

/// Held until dropped; the operating system releases it when the process ends.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    path: PathBuf,
    /// Whether the file was renamed, so that there is nothing to remove.
    moved: bool,
}

impl FileLock {
    /// Locks the file at `path`, and creates it if needed. If another process holds it, calls `waiting` and
    /// waits.
    pub(super) fn lock_file(path: &Path, waiting: impl FnOnce()) -> io::Result<Self> {
        Self::take_with_mode(path, 0o666, waiting)
    }

    /// Like `take`; a new file gets this mode, less the process's umask.
    pub(super) fn take_with_mode(path: &Path, mode: u32, waiting: impl FnOnce()) -> io::Result<Self> {
        let mut waiting = Some(waiting);
        loop {
            let file = open_file(path, mode)?;
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
            // The previous holder removed the file: another process may lock the next one.
            if is_at(&file, path)? {
                return Ok(Self { file, path: path.to_owned(), moved: false });
            }
        }
    }

    /// What the previous holder was doing when it was killed; empty otherwise.
    pub(super) fn read_note(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Records what the holder is about to do.
    pub(super) fn write_note(&mut self, text: &str) -> io::Result<()> {
        self.replace_content(text.as_bytes())
    }

    /// The time by the clock of the file's file system: seconds and nanoseconds.
    pub(super) fn file_system_time(&self) -> io::Result<(i64, u32)> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        rustix::fs::futimens(&self.file, &Timestamps { last_access: now, last_modification: now })?;
        let meta = self.file.metadata()?;
        Ok((meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or_default()))
    }

    /// Sets the permissions of the file.
    pub(super) fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.file.set_permissions(permissions)
    }

    /// Replaces the content of the file, and forces it to the disk.
    pub(super) fn write_and_sync(&mut self, contents: &[u8]) -> io::Result<()> {
        self.replace_content(contents)?;
        self.file.sync_all()
    }

    fn replace_content(&mut self, contents: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(contents)
    }

    /// Renames the file over the one at `to`.
    pub(super) fn rename_over(mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        self.moved = true;
        Ok(())
    }

    /// Renames the file to `to`, which must not exist.
    pub(super) fn rename_to_new(mut self, to: &Path) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, &self.path, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => self.moved = true,
            // Fallback for file systems without that operation: two names for a moment.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::hard_link(&self.path, to)?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Opens the file at `path`, and creates it if needed. A link is not followed, because it may come from an
/// untrusted repo.
fn open_file(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::from_raw_mode(mode)).map(File::from) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) | Err(Errno::LOOP | Errno::ISDIR) => {
            Err(io::Error::other("it is not a regular file; remove it"))
        }
        Err(error) => Err(error.into()),
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if !self.moved {
            // Still locked here. A file that stays behind does no harm.
            let _ = fs::remove_file(&self.path);
        }
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
