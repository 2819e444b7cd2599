//! Remembers which files hold which text, so that an unchanged file costs one `stat` instead of being read.
//!
//! Works as git's index does: a file whose inode, size, modification and change times are those that were
//! recorded still holds the text that was recorded. Likewise, a folder that has not changed still holds files of
//! the same names, so that it need not be listed. The index lies outside the folder, in a cache, may be
//! deleted at any time, and is never needed: what it does not vouch for is read.
//!
//! Times have a granularity, so a file that is modified twice within one tick looks the same afterwards.
//! A file is recorded only if it was last modified before its text was known (see [`Recorder`]); all times
//! compared come from the file system that holds the folder.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::AtFlags;
use sha2::{Digest as _, Sha256};

use super::at;
use super::compare::{Compared, Comparison, Namespace, State};
use crate::tree::{File, Tree};

/// The first bytes of an index; a later format gets another number.
const MAGIC: &[u8] = b"federate index 2\n";
/// Bytes of one record: inode, size, two times, number of the text.
const RECORD: usize = 8 + 8 + 12 + 12 + 4;
const DIGEST: usize = 32;
/// An index that no run has written for so many seconds is removed: its folder is gone or never rendered.
const STALE: i64 = 30 * 24 * 3600;

type Digest = [u8; DIGEST];

/// A time of the file system: seconds and nanoseconds.
pub(super) type Time = (i64, u32);

/// What identifies the state of a file without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Of an open folder.
    fn of_folder(folder: BorrowedFd<'_>) -> Option<Self> {
        rustix::fs::fstat(folder).ok().map(|stat| Self::from(&stat))
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
    recorded: Recorded,
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
        let recorded = contents(&path).and_then(Recorded::parse).unwrap_or_default();
        let known = digests.iter().map(|digest| recorded.texts.get(digest).copied()).collect();
        Self { path: Some(path), recorded, digests, known }
    }

    /// Whether an earlier run wrote a folder of that cluster.
    pub(super) fn wrote_cluster(&self, cluster: &str) -> bool {
        self.recorded.folders.contains_key(cluster)
    }

    /// Whether an earlier run wrote that folder of a cluster.
    pub(super) fn wrote(&self, cluster: &str, namespace: &str) -> bool {
        self.recorded.folder(cluster, namespace).is_some()
    }

    /// What is recorded of the files of a folder, if it holds exactly files of these names, and nothing else.
    pub(super) fn files(
        &self,
        cluster: &str,
        namespace: &str,
        folder: BorrowedFd<'_>,
        wanted: &[File],
    ) -> Option<Files<'_>> {
        let recorded = self.recorded.folder(cluster, namespace)?;
        let same = recorded.stamp == Stamp::of_folder(folder)? && recorded.names == names(wanted);
        let records = self.recorded.bytes.get(recorded.records.clone()).filter(|_| same)?;
        Some(Files { index: self, records, device: recorded.stamp.device })
    }

    /// The stamp of a file that is going to be read, if anything is recorded at all.
    pub(super) fn stamp(&self, folder: BorrowedFd<'_>, file: &File) -> Option<Stamp> {
        self.path.as_ref().and_then(|_| Stamp::of(folder, file.name()))
    }
}

/// What is recorded of the files of a folder, in the order of their names.
pub(super) struct Files<'i> {
    index: &'i Index,
    records: &'i [u8],
    device: u64,
}

impl Files<'_> {
    /// The stamp of the file at `position` if it needs no reading to know that it holds its text.
    pub(super) fn vouch(&self, position: usize, folder: BorrowedFd<'_>, file: &File) -> Option<Stamp> {
        let text = (*self.index.known.get(file.number())?)?;
        let mut record = self.records.get(position * RECORD..)?.get(..RECORD)?;
        let recorded = (take_stamp(&mut record, self.device)?, u32::from_le_bytes(take(&mut record)?));
        let stamp = Stamp::of(folder, file.name())?;
        (recorded == (stamp, text)).then_some(stamp)
    }
}

/// What is known of the times when a tree's files came to hold their texts.
pub(super) struct Recorder<'i> {
    pub(super) index: &'i Index,
    /// A time before any file was compared.
    pub(super) compared: Time,
    /// A time after every new file was written, but before it could be seen by others; `None` where nothing was.
    pub(super) written: Option<Time>,
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
        let folders: Vec<Vec<u8>> = namespaces
            .par_iter()
            .filter_map(|&(cluster, namespace)| self.folder(root, cluster, namespace))
            .collect();
        bytes.extend(folders.iter().flatten());
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        bytes
    }

    /// What is recorded of a folder; nothing of one that may have been modified meanwhile.
    fn folder(&self, root: BorrowedFd<'_>, cluster: &str, namespace: &Namespace<'_>) -> Option<Vec<u8>> {
        let outer = at::open_folder(root, cluster).ok()?;
        let folder = at::open_folder(outer, namespace.name.as_str()).ok()?;
        let changed_before = self.written.unwrap_or(self.compared);
        let stamp = Stamp::of_folder(folder.as_fd()).filter(|stamp| stamp.modified < changed_before)?;
        let mut bytes = Vec::with_capacity(namespace.files.len() * RECORD + 256);
        for name in [cluster, &namespace.name] {
            bytes.extend(count(name.len()).to_le_bytes());
            bytes.extend(name.as_bytes());
        }
        bytes.extend(stamp.device.to_le_bytes());
        push(&mut bytes, &stamp);
        bytes.extend(names(namespace.files.iter().map(|compared| compared.file)));
        bytes.extend(count(namespace.files.len()).to_le_bytes());
        for compared in &namespace.files {
            let stamp = self.stamp(folder.as_fd(), compared, stamp.device);
            push(&mut bytes, &stamp.unwrap_or_default());
            bytes.extend(count(compared.file.number()).to_le_bytes());
        }
        Some(bytes)
    }

    /// The stamp of a file in place, if it is beyond doubt that it still holds its text.
    fn stamp(&self, folder: BorrowedFd<'_>, compared: &Compared<'_>, device: u64) -> Option<Stamp> {
        let old = |stamp: &Stamp| stamp.modified < self.compared && stamp.device == device;
        let Some(written) = self.written else {
            return compared.stamp.filter(|stamp| compared.state == State::Same && old(stamp));
        };
        let now = Stamp::of(folder, compared.file.name())?;
        let certain = match (compared.state, compared.stamp) {
            // Linked, so that it has another time of change than before.
            (State::Same, Some(before)) => now.is_same_content(&before) && old(&now),
            (State::Same, None) => false,
            (State::New | State::Changed, _) => {
                now.size == compared.file.text().len() as u64 && now.modified < written
            }
        };
        (certain && now.device == device).then_some(now)
    }
}

/// A digest of the names of a folder's files, which are sorted.
fn names<'f>(files: impl IntoIterator<Item = &'f File>) -> Digest {
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.name());
        digest.update([0]);
    }
    digest.finalize().into()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn push(bytes: &mut Vec<u8>, stamp: &Stamp) {
    bytes.extend(stamp.inode.to_le_bytes());
    bytes.extend(stamp.size.to_le_bytes());
    for (seconds, nanoseconds) in [stamp.modified, stamp.changed] {
        bytes.extend(seconds.to_le_bytes());
        bytes.extend(nanoseconds.to_le_bytes());
    }
}

fn contents(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::from(at::open_file(rustix::fs::CWD, path).ok()?).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// What an index holds.
#[derive(Default)]
struct Recorded {
    bytes: Vec<u8>,
    /// The texts, by number.
    texts: HashMap<Digest, u32>,
    /// By cluster and namespace.
    folders: HashMap<String, HashMap<String, Folder>>,
}

struct Folder {
    stamp: Stamp,
    names: Digest,
    /// Where the records of its files stand, in the order of their names.
    records: Range<usize>,
}

impl Recorded {
    fn folder(&self, cluster: &str, namespace: &str) -> Option<&Folder> {
        self.folders.get(cluster)?.get(namespace)
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST)?)?;
        if Sha256::digest(body).as_slice() != sum {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let number = u32::from_le_bytes(take(&mut rest)?);
        let texts = (0..number).map(|n| Some((take(&mut rest)?, n))).collect::<Option<_>>()?;
        let mut folders: HashMap<String, HashMap<String, Folder>> = HashMap::new();
        while !rest.is_empty() {
            let (cluster, namespace) = (take_text(&mut rest)?, take_text(&mut rest)?);
            let device = u64::from_le_bytes(take(&mut rest)?);
            let stamp = take_stamp(&mut rest, device)?;
            let names = take(&mut rest)?;
            let length = (u32::from_le_bytes(take(&mut rest)?) as usize).checked_mul(RECORD)?;
            let start = body.len() - rest.len();
            rest = rest.get(length..)?;
            let folder = Folder { stamp, names, records: start..start + length };
            folders.entry(cluster).or_default().insert(namespace, folder);
        }
        Some(Self { bytes, texts, folders })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let (text, others) = rest.split_at_checked(length)?;
    *rest = others;
    String::from_utf8(text.to_vec()).ok()
}

fn take_stamp(rest: &mut &[u8], device: u64) -> Option<Stamp> {
    let inode = u64::from_le_bytes(take(rest)?);
    let size = u64::from_le_bytes(take(rest)?);
    let modified = (i64::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
    let changed = (i64::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
    Some(Stamp { device, inode, size, modified, changed })
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
