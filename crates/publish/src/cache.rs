//! Files in the user's cache. They are replaced in one step, may be deleted at any time, and are removed once no run has
//! written them for a month.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};

/// Seconds after which a file that no run has written is removed: what it is about is probably gone.
const MAX_AGE_SECONDS: i64 = 30 * 24 * 3600;

/// The content of a file; `None` if it cannot be read.
pub fn read_file(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Replaces a file, and removes stale ones in the same folder, which is created if it is missing. Only the user may read
/// it.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let written = created.and_then(|mut file| file.write_all(bytes));
    if let Err(error) = written.and_then(|()| fs::rename(&new, path)) {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    remove_stale(folder, modification_time(path)?);
    Ok(())
}

/// The name of the file about something, such as a folder.
pub fn file_name(about: &[u8], extension: &str) -> PathBuf {
    let digest = Sha256::digest(about);
    let short = digest.as_slice().first_chunk().copied().map_or(0, u128::from_be_bytes);
    format!("{short:032x}.{extension}").into()
}

fn modification_time(path: &Path) -> io::Result<i64> {
    Ok(fs::symlink_metadata(path)?.mtime())
}

fn remove_stale(folder: &Path, now: i64) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if modification_time(&entry.path()).is_ok_and(|then| now.saturating_sub(then) > MAX_AGE_SECONDS) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
