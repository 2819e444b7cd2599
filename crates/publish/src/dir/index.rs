//! Remembers which files hold which text, so that an unchanged file costs one `stat` instead of being read.
//!
//! Works as git's index does: a file whose inode, size, modification and change times are those that were
//! recorded still holds the text that was recorded. The index lies outside the folder, in a cache, may be
//! deleted at any time, and is never needed: what it does not vouch for is read.
//!
//! Times have a granularity, so a file that is modified twice within one tick looks the same afterwards.
//! A file is recorded only if it was last modified before its text was known (see [`Recorder`]); all times
//! compared come from the file system that holds the folder.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::AtFlags;
use sha2::{Digest as _, Sha256};

use super::at;
use super::compare::{Comparison, State};
use crate::tree::{File, Tree};

/// The first bytes of an index; a later format gets another number.
const MAGIC: &[u8] = b"federate index 1\n";
/// Bytes of one record: inode, size, two times, number of the text.
const RECORD: usize = 8 + 8 + 12 + 12 + 4;
const DIGEST: usize = 32;
/// An index that no run has written for so many seconds is removed: its folder is gone or never rendered.
const STALE: i64 = 30 * 24 * 3600;

type Digest = [u8; DIGEST];

/// A time of the file system: seconds and nanoseconds.
pub(super) type Time = (i64, u32);

/// What identifies the state of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: Time,
    changed: Time,
}

impl Stamp {
    /// Of the file called `name`; `None` when it is not a regular file, or cannot be asked.
    fn of(folder: BorrowedFd<'_>, name: &str) -> Option<Self> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        regular.then(|| Self::from(&stat))
    }

    /// Whether it is the same file with the same contents as before, though perhaps with other links.
    fn is_same_content(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }
}

impl From<&rustix::fs::Stat> for Stamp {
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, clippy::cast_possible_truncation)] // types vary by platform
    fn from(stat: &rustix::fs::Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }
}

/// What an earlier run recorded, prepared for one tree.
#[derive(Default)]
pub(super) struct Index {
    path: Option<PathBuf>,
    recorded: HashMap<u64, (Stamp, u32)>,
    /// The digests of the tree's texts, by [`File::number`].
    digests: Vec<Digest>,
    /// By [`File::number`], the number under which the earlier run recorded the same text.
    known: Vec<Option<u32>>,
}

impl Index {
    /// Reads the index at `path`; one that is missing, damaged or of another format is empty.
    pub(super) fn read(path: PathBuf, tree: &Tree) -> Self {
        let digest = |file: &File| Sha256::digest(file.text()).into();
        let digests: Vec<Digest> = tree.distinct().par_iter().with_min_len(64).map(digest).collect();
        let (texts, recorded) = contents(&path).as_deref().and_then(parse).unwrap_or_default();
        let known = digests.iter().map(|digest| texts.get(digest).copied()).collect();
        Self { path: Some(path), recorded, digests, known }
    }

    /// The stamp of `file` in `folder` if it needs no reading to know that it holds its text.
    pub(super) fn vouches(&self, folder: BorrowedFd<'_>, file: &File) -> Option<Stamp> {
        let text = (*self.known.get(file.number())?)?;
        let stamp = Stamp::of(folder, file.name())?;
        (self.recorded.get(&stamp.inode) == Some(&(stamp, text))).then_some(stamp)
    }

    /// The stamp of a file that is going to be read, if anything is recorded at all.
    pub(super) fn stamp(&self, folder: BorrowedFd<'_>, file: &File) -> Option<Stamp> {
        self.path.as_ref().and_then(|_| Stamp::of(folder, file.name()))
    }
}

/// What is known of the times when a tree's files came to hold their texts.
pub(super) struct Recorder<'i> {
    pub(super) index: &'i Index,
    /// A time before any file was compared.
    pub(super) compared: Time,
    /// A time after every new file was written, but before it could be seen by others.
    pub(super) written: Time,
}

impl Recorder<'_> {
    /// Records a tree that is in place. That an index cannot be written costs time later, and nothing else.
    pub(super) fn record(&self, root: BorrowedFd<'_>, comparison: &Comparison<'_>) {
        if let Some(path) = &self.index.path {
            let _ = write(path, &self.encode(root, comparison));
        }
    }

    fn encode(&self, root: BorrowedFd<'_>, comparison: &Comparison<'_>) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(count(self.index.digests.len()).to_le_bytes());
        bytes.extend(self.index.digests.iter().flatten());
        let namespaces: Vec<_> = comparison.namespaces().collect();
        let records: Vec<Vec<u8>> = namespaces
            .par_iter()
            .filter_map(|&(cluster, namespace)| {
                let folder =
                    at::open_folder(at::open_folder(root, cluster).ok()?, namespace.name.as_str()).ok()?;
                let mut bytes = Vec::with_capacity(namespace.files.len() * RECORD);
                for compared in &namespace.files {
                    if let Some(stamp) =
                        self.stamp(folder.as_fd(), compared.file, compared.state, compared.stamp)
                    {
                        push(&mut bytes, &stamp, compared.file.number());
                    }
                }
                Some(bytes)
            })
            .collect();
        bytes.extend(device(root).to_le_bytes());
        bytes.extend(records.iter().flatten());
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        bytes
    }

    /// The stamp of a file in place, if it is beyond doubt that it still holds its text.
    fn stamp(
        &self,
        folder: BorrowedFd<'_>,
        file: &File,
        state: State,
        before: Option<Stamp>,
    ) -> Option<Stamp> {
        let now = Stamp::of(folder, file.name())?;
        let certain = match (state, before) {
            (State::Same, Some(before)) => now.is_same_content(&before) && now.modified < self.compared,
            (State::Same, None) => false,
            (State::New | State::Changed, _) => {
                now.size == file.text().len() as u64 && now.modified < self.written
            }
        };
        (certain && now.device == device(folder)).then_some(now)
    }
}

fn device(folder: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstat(folder).map_or(0, |stat| Stamp::from(&stat).device)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn push(bytes: &mut Vec<u8>, stamp: &Stamp, text: usize) {
    bytes.extend(stamp.inode.to_le_bytes());
    bytes.extend(stamp.size.to_le_bytes());
    for (seconds, nanoseconds) in [stamp.modified, stamp.changed] {
        bytes.extend(seconds.to_le_bytes());
        bytes.extend(nanoseconds.to_le_bytes());
    }
    bytes.extend(count(text).to_le_bytes());
}

fn contents(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    fs::File::from(at::open_file(rustix::fs::CWD, path).ok()?).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The recorded texts by digest, and the recorded files by inode.
type Parsed = (HashMap<Digest, u32>, HashMap<u64, (Stamp, u32)>);

fn parse(bytes: &[u8]) -> Option<Parsed> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST)?)?;
    if Sha256::digest(body).as_slice() != sum {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let number = u32::from_le_bytes(take(&mut rest)?);
    let texts = (0..number).map(|n| Some((take(&mut rest)?, n))).collect::<Option<_>>()?;
    let device = u64::from_le_bytes(take(&mut rest)?);
    let mut recorded = HashMap::with_capacity(rest.len() / RECORD);
    while !rest.is_empty() {
        let inode = u64::from_le_bytes(take(&mut rest)?);
        let size = u64::from_le_bytes(take(&mut rest)?);
        let modified = (i64::from_le_bytes(take(&mut rest)?), u32::from_le_bytes(take(&mut rest)?));
        let changed = (i64::from_le_bytes(take(&mut rest)?), u32::from_le_bytes(take(&mut rest)?));
        let text = u32::from_le_bytes(take(&mut rest)?);
        recorded.insert(inode, (Stamp { device, inode, size, modified, changed }, text));
    }
    Some((texts, recorded))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

/// Writes an index in one step, and removes those beside it that have not been written for long.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let done = at::write(rustix::fs::CWD, &new, bytes).map(drop).map_err(io::Error::from);
    if let Err(error) = done.and_then(|()| fs::rename(&new, path)) {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    remove_stale(folder, modified(path)?);
    Ok(())
}

fn modified(path: &Path) -> io::Result<i64> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::symlink_metadata(path)?.mtime())
}

fn remove_stale(folder: &Path, now: i64) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if modified(&entry.path()).is_ok_and(|then| now.saturating_sub(then) > STALE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The name under which the index of a folder lies in a cache.
pub(super) fn name(folder: &Path) -> String {
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let short = digest.as_slice().first_chunk().copied().map_or(0, u128::from_be_bytes);
    format!("{short:032x}.index")
}
