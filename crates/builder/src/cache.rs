//! What builds gave, by a digest of everything that it depends on. The folder is private and bounded, and can be deleted at any
//! time.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

/// The most bytes that the folder has.
const MAX_BYTES: u64 = 512 << 20;

/// The most bytes that are kept in memory.
const MAX_MEMORY_BYTES: usize = 128 << 20;

/// The first word of a file of the cache.
const ENTRY_FORMAT: &str = "federate-build-1";

/// What a build gave.
#[derive(Clone, Debug)]
pub(crate) struct CachedBuild {
    pub(crate) text: Arc<[u8]>,
    /// Whether another build gave something else.
    pub(crate) differs: bool,
}

/// What builds gave.
#[derive(Debug, Default)]
pub struct BuildCache {
    folder: Option<PathBuf>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    entries: BTreeMap<String, CachedBuild>,
    bytes: usize,
    /// How many bytes were written to the folder since it was last trimmed.
    written: u64,
}

/// An environment variable, if it is an absolute path.
fn absolute_path_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

impl BuildCache {
    /// A cache in memory only.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// A cache in a folder, which is created. If it is not private, or not a folder, what is built is kept in memory only.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: open_folder(folder).then(|| folder.to_owned()), memory: Mutex::default() }
    }

    /// The cache of the user: in `FEDERATE_CACHE_DIR`, else below `XDG_CACHE_HOME` or `HOME`.
    pub fn from_environment() -> Self {
        let folder = absolute_path_variable("FEDERATE_CACHE_DIR")
            .or_else(|| Some(absolute_path_variable("XDG_CACHE_HOME")?.join("federate")))
            .or_else(|| Some(absolute_path_variable("HOME")?.join(".cache/federate")));
        folder.map_or_else(Self::in_memory, |folder| Self::in_folder(&folder.join("builds")))
    }

    pub(crate) fn get(&self, key: &str) -> Option<CachedBuild> {
        if let Some(built) = self.lock_memory().entries.get(key) {
            return Some(built.clone());
        }
        let built = read_entry(&self.folder.as_ref()?.join(key))?;
        self.keep_in_memory(key, &built);
        Some(built)
    }

    pub(crate) fn store_build(&self, key: &str, built: &CachedBuild) {
        self.keep_in_memory(key, built);
        let Some(folder) = &self.folder else { return };
        // A cache that cannot be written only costs time.
        if write_entry(folder, key, built).is_err() {
            return;
        }
        let mut memory = self.lock_memory();
        memory.written += built.text.len() as u64;
        if memory.written > MAX_BYTES / 16 || memory.written == built.text.len() as u64 {
            memory.written = 1;
            drop(memory);
            trim_folder(folder);
        }
    }

    fn keep_in_memory(&self, key: &str, built: &CachedBuild) {
        let mut memory = self.lock_memory();
        if memory.bytes + built.text.len() > MAX_MEMORY_BYTES {
            memory.entries.clear();
            memory.bytes = 0;
        }
        memory.bytes += built.text.len();
        memory.entries.insert(key.to_owned(), built.clone());
    }

    fn lock_memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a folder exists, belongs to this user, and is readable only by this user.
fn open_folder(folder: &Path) -> bool {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let Ok(meta) = fs::symlink_metadata(folder) else { return false };
    meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode().trailing_zeros() >= 6
}

fn compute_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The content of a file; `None` if it is missing or damaged.
fn read_entry(path: &Path) -> Option<CachedBuild> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.read_to_end(&mut bytes).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (header, rest) = bytes.split_at(end + 1);
    let header = std::str::from_utf8(header).ok()?.trim_end();
    let mut words = header.split(' ');
    let (format, digest, differs) = (words.next()?, words.next()?, words.next()?);
    let is_whole = format == ENTRY_FORMAT && digest == compute_digest(rest);
    is_whole.then(|| CachedBuild { text: rest.into(), differs: differs == "differs" })
}

fn write_entry(folder: &Path, key: &str, built: &CachedBuild) -> std::io::Result<()> {
    let temporary = folder.join(format!("{key}.{}.tmp", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let differs = if built.differs { "differs" } else { "same" };
    let header = format!("{ENTRY_FORMAT} {} {differs}\n", compute_digest(&built.text));
    let written = file.write_all(header.as_bytes()).and_then(|()| file.write_all(&built.text));
    let kept = written.and_then(|()| fs::rename(&temporary, folder.join(key)));
    if kept.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    kept
}

/// Deletes the oldest files until the folder is small enough.
fn trim_folder(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((meta.modified().ok()?, meta.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in files {
        if total <= MAX_BYTES {
            return;
        }
        if fs::remove_file(path).is_ok() {
            total -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail loudly")]

    use super::*;

    #[test]
    fn damaged_entries_and_open_folders_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("builds");
        let built = CachedBuild { text: Arc::from(&b"a: 1\n"[..]), differs: true };
        BuildCache::in_folder(&folder).store_build("k", &built);
        let found = BuildCache::in_folder(&folder).get("k").unwrap();
        assert_eq!((&*found.text, found.differs), (&b"a: 1\n"[..], true));
        let path = folder.join("k");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("a: 1", "a: 2")).unwrap();
        assert!(BuildCache::in_folder(&folder).get("k").is_none());
        fs::write(&path, text).unwrap();
        assert!(BuildCache::in_folder(&folder).get("k").is_some());
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&folder, open).unwrap();
        assert!(BuildCache::in_folder(&folder).get("k").is_none());
    }
}
