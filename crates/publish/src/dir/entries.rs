//! Files and folders by name inside an open folder. Symlinks are never followed, so that another process
//! cannot redirect access out of the folder.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

/// Modes before the process's umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// An entry of a folder.
pub(super) struct OutputEntry {
    /// Its name; lossy when `kind` is [`OutputEntryKind::Other`].
    pub(super) name: String,
    pub(super) kind: OutputEntryKind,
}

impl OutputEntry {
    /// The name for messages; folders end in `/`.
    pub(super) fn display_name(&self) -> String {
        match self.kind {
            OutputEntryKind::Folder => format!("{}/", self.name),
            OutputEntryKind::File | OutputEntryKind::Other => self.name.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputEntryKind {
    Folder,
    File,
    /// A symlink, a device, …, or an entry whose name is not UTF-8.
    Other,
}

pub(super) fn open_folder(at: impl AsFd, name: impl Arg) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

pub(super) fn create_folder(at: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    rustix::fs::mkdirat(at.as_fd(), name, FOLDER_MODE)?;
    open_folder(at, name)
}

/// The entries of a folder, sorted by name.
pub(super) fn list_entries(folder: BorrowedFd<'_>) -> Result<Vec<OutputEntry>> {
    let mut entries = Vec::new();
    for found in Dir::read_from(folder)? {
        let found = found?;
        if matches!(found.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let file_type = match found.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(folder, found.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        entries.push(match (found.file_name().to_str(), file_type) {
            (Ok(name), FileType::Directory) => {
                OutputEntry { name: name.to_owned(), kind: OutputEntryKind::Folder }
            }
            (Ok(name), FileType::RegularFile) => {
                OutputEntry { name: name.to_owned(), kind: OutputEntryKind::File }
            }
            _ => OutputEntry {
                name: found.file_name().to_string_lossy().into_owned(),
                kind: OutputEntryKind::Other,
            },
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Opens a file for reading; does not block if it was replaced by a pipe.
pub(super) fn open_file(at: impl AsFd, name: impl Arg) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Whether a file holds exactly `text`. `buffer` is reused between calls.
pub(super) fn has_text(at: impl AsFd, name: &str, text: &str, buffer: &mut Vec<u8>) -> Result<bool> {
    let file = open_file(at, name)?;
    // One byte more than expected, to notice a longer file without a call for its size.
    if buffer.len() <= text.len() {
        buffer.resize(text.len() + 1, 0);
    }
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..=text.len()).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&file, rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        // A regular file returns less than requested only at its end, so a last read can be skipped: this
        // saves one of four calls for every unchanged file.
        if filled == text.len() {
            break;
        }
    }
    Ok(buffer.get(..filled) == Some(text.as_bytes()))
}

/// Writes a file that must not exist yet, and returns it open.
pub(super) fn create_file(at: impl AsFd, name: impl Arg, text: impl AsRef<[u8]>) -> Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(at, name, flags, FILE_MODE)?;
    let mut rest = text.as_ref();
    while !rest.is_empty() {
        match rustix::io::write(&file, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(file)
}

/// Links `to/name` to `from/name`, which holds `text`. If the file system has no hard links, or the user may
/// not link this file, copies it with its time.
pub(super) fn link_or_copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &str,
    text: &str,
) -> io::Result<()> {
    if rustix::fs::linkat(from, name, to, name, AtFlags::empty()).is_ok() {
        return Ok(());
    }
    copy_with_time(from, to, name, text)
}

/// Copies `from/name`, which holds `text`, to `to/name` with its time.
pub(super) fn copy_with_time(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &str,
    text: &str,
) -> io::Result<()> {
    let modified = File::from(open_file(from, name)?).metadata()?.modified()?;
    File::from(create_file(to, name, text)?).set_modified(modified)
}
