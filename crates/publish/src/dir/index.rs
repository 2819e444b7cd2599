//! Remembers which files hold which text, so that an unchanged file costs one `stat` instead of a read.
//!
//! Works like git's index: a file with the recorded inode, size, modification time and change time still
//! holds the recorded text. A folder that has not changed still holds files with the same names, so that it
//! need not be listed. The index is in a cache outside the folder. It may be deleted at any time; files that
//! it does not cover are read.
//!
//! File times have a granularity: a file that is modified twice within one tick looks unchanged. Therefore a
//! file is recorded only if its last modification was before its text was known (see [`IndexRecorder`]). All
//! compared times come from the file system of the folder.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rayon::prelude::*;
use rustix::fs::AtFlags;
use sha2::{Digest as _, Sha256};

use super::comparison::{ComparedFile, ComparedNamespace, FileState, FolderComparison};
use super::entries;
use crate::cache;
use crate::tree::{OutputFile, OutputTree};

/// The first bytes of an index; each format has its own number.
const MAGIC: &[u8] = b"federate index 2\n";
/// The bytes of one record: inode, size, two times, number of the text.
const RECORD_LENGTH: usize = 8 + 8 + 12 + 12 + 4;
const DIGEST_LENGTH: usize = 32;

type Digest = [u8; DIGEST_LENGTH];

/// A time of the file system: seconds and nanoseconds.
pub(super) type FileTime = (i64, u32);

/// Identifies the state of a file without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileStat {
    device: u64,
    inode: u64,
    size: u64,
    modified: FileTime,
    changed: FileTime,
}

impl FileStat {
    /// The stamp of the file `name`; `None` if it is not a regular file or cannot be accessed.
    fn read_file(folder: BorrowedFd<'_>, name: &str) -> Option<Self> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        regular.then(|| Self::from(&stat))
    }

    /// The stamp of an open folder.
    fn read_folder(folder: BorrowedFd<'_>) -> Option<Self> {
        rustix::fs::fstat(folder).ok().map(|stat| Self::from(&stat))
    }

    /// Whether both are the same file with the same content; the number of links may differ.
    fn is_same_content(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }
}

impl From<&rustix::fs::Stat> for FileStat {
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

/// The record of an earlier run.
#[derive(Debug)]
pub(super) struct StoredIndex {
    path: PathBuf,
    recorded: RecordedIndex,
}

impl StoredIndex {
    /// Reads the index at `path`; a missing or damaged index, or one of another format, is empty.
    pub(super) fn read_index(path: PathBuf) -> Self {
        let recorded = cache::read_file(&path).and_then(RecordedIndex::parse_index).unwrap_or_default();
        Self { path, recorded }
    }
}

/// The record of an earlier run, prepared for one tree.
#[derive(Default)]
pub(super) struct FileIndex<'s> {
    stored: Option<&'s StoredIndex>,
    /// The digests of the tree's texts, by their numbers in the tree.
    digests: Vec<Digest>,
    /// By these numbers, the number under which the earlier run recorded the same text.
    known: Vec<Option<u32>>,
}

impl<'s> FileIndex<'s> {
    pub(super) fn new(stored: &'s StoredIndex, tree: &OutputTree) -> Self {
        let files = tree.distinct().par_iter().with_min_len(64);
        let digests: Vec<Digest> = files.map(|file| Sha256::digest(file.text()).into()).collect();
        let known = digests.iter().map(|digest| stored.recorded.texts.get(digest).copied()).collect();
        Self { stored: Some(stored), digests, known }
    }

    fn recorded_index(&self) -> Option<&'s RecordedIndex> {
        self.stored.map(|stored| &stored.recorded)
    }

    /// Whether an earlier run wrote a folder for that cluster.
    pub(super) fn wrote_cluster(&self, cluster: &str) -> bool {
        self.recorded_index().is_some_and(|recorded| recorded.folders.contains_key(cluster))
    }

    /// Whether an earlier run wrote that folder of a cluster.
    pub(super) fn has_folder(&self, cluster: &str, namespace: &str) -> bool {
        self.recorded_index().is_some_and(|recorded| recorded.find_folder(cluster, namespace).is_some())
    }

    /// The records of a folder's files, if the folder contains exactly files with these names.
    pub(super) fn find_records(
        &self,
        cluster: &str,
        namespace: &str,
        folder: BorrowedFd<'_>,
        desired: &[OutputFile],
    ) -> Option<FolderRecords<'_>> {
        let recorded = self.recorded_index()?;
        let there = recorded.find_folder(cluster, namespace)?;
        let same = there.stamp == FileStat::read_folder(folder)? && there.names == digest_names(desired);
        let records = recorded.bytes.get(there.records.clone()).filter(|_| same)?;
        Some(FolderRecords { index: self, records, device: there.stamp.device })
    }

    /// The stamp of a file before it is read, if any record exists.
    pub(super) fn stat_before_read(&self, folder: BorrowedFd<'_>, file: &OutputFile) -> Option<FileStat> {
        self.stored.and_then(|_| FileStat::read_file(folder, file.name()))
    }
}

/// The records of a folder's files, in the order of their names.
pub(super) struct FolderRecords<'i> {
    index: &'i FileIndex<'i>,
    records: &'i [u8],
    device: u64,
}

impl FolderRecords<'_> {
    /// The stamp of the file at `position`, if it holds its text without having to be read.
    pub(super) fn unread_stat(
        &self,
        position: usize,
        folder: BorrowedFd<'_>,
        file: &OutputFile,
    ) -> Option<FileStat> {
        let text = (*self.index.known.get(file.number())?)?;
        let mut record = self.records.get(position * RECORD_LENGTH..)?.get(..RECORD_LENGTH)?;
        let recorded = (take_stamp(&mut record, self.device)?, u32::from_le_bytes(take_bytes(&mut record)?));
        let stamp = FileStat::read_file(folder, file.name())?;
        (recorded == (stamp, text)).then_some(stamp)
    }
}

/// What is known about when the files of a tree got their texts.
pub(super) struct IndexRecorder<'i> {
    pub(super) index: &'i FileIndex<'i>,
    /// A time before any file was compared.
    pub(super) compared: FileTime,
    /// A time after all new files were written, but before they became visible; `None` if nothing was
    /// written.
    pub(super) written: Option<FileTime>,
}

impl IndexRecorder<'_> {
    /// Records a tree that is in place. If the index cannot be written, later runs are slower.
    pub(super) fn record_tree(&self, root: BorrowedFd<'_>, comparison: &FolderComparison<'_>) {
        if let Some(stored) = self.index.stored {
            let _ = cache::replace_file(&stored.path, &self.encode_index(root, comparison));
        }
    }

    fn encode_index(&self, root: BorrowedFd<'_>, comparison: &FolderComparison<'_>) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(to_u32(self.index.digests.len()).to_le_bytes());
        bytes.extend(self.index.digests.iter().flatten());
        let namespaces: Vec<_> = comparison.all_namespaces().collect();
        let folders: Vec<Vec<u8>> = namespaces
            .par_iter()
            .filter_map(|&(cluster, namespace)| self.encode_folder(root, cluster, namespace))
            .collect();
        bytes.extend(folders.iter().flatten());
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        bytes
    }

    /// The record of a folder; `None` if it may have been modified in the meantime.
    fn encode_folder(
        &self,
        root: BorrowedFd<'_>,
        cluster: &str,
        namespace: &ComparedNamespace<'_>,
    ) -> Option<Vec<u8>> {
        let outer = entries::open_folder(root, cluster).ok()?;
        let folder = entries::open_folder(outer, namespace.name.as_str()).ok()?;
        let changed_before = self.written.unwrap_or(self.compared);
        let stamp = FileStat::read_folder(folder.as_fd()).filter(|stamp| stamp.modified < changed_before)?;
        let mut bytes = Vec::with_capacity(namespace.files.len() * RECORD_LENGTH + 256);
        for name in [cluster, &namespace.name] {
            bytes.extend(to_u32(name.len()).to_le_bytes());
            bytes.extend(name.as_bytes());
        }
        bytes.extend(stamp.device.to_le_bytes());
        encode_stat(&mut bytes, &stamp);
        bytes.extend(digest_names(namespace.files.iter().map(|compared| compared.file)));
        bytes.extend(to_u32(namespace.files.len()).to_le_bytes());
        for compared in &namespace.files {
            let stamp = self.stat_unmodified(folder.as_fd(), compared, stamp.device);
            encode_stat(&mut bytes, &stamp.unwrap_or_default());
            bytes.extend(to_u32(compared.file.number()).to_le_bytes());
        }
        Some(bytes)
    }

    /// The stamp of a file in place, if it certainly still holds its text.
    fn stat_unmodified(
        &self,
        folder: BorrowedFd<'_>,
        compared: &ComparedFile<'_>,
        device: u64,
    ) -> Option<FileStat> {
        let Some(written) = self.written else {
            return compared.stamp.filter(|stamp| {
                compared.state == FileState::Same && stamp.modified < self.compared && stamp.device == device
            });
        };
        let now = FileStat::read_file(folder, compared.file.name())?;
        let certain = match (compared.state, compared.stamp) {
            // The file was linked, which changed its change time.
            (FileState::Same, Some(before)) => now.is_same_content(&before) && now.modified < self.compared,
            (FileState::Same, None) => false,
            (FileState::New | FileState::Changed, _) => {
                now.size == compared.file.text().len() as u64 && now.modified < written
            }
        };
        (certain && now.device == device).then_some(now)
    }
}

/// A digest of the names of a folder's files, which are sorted.
fn digest_names<'f>(files: impl IntoIterator<Item = &'f OutputFile>) -> Digest {
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.name());
        digest.update([0]);
    }
    digest.finalize().into()
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn encode_stat(bytes: &mut Vec<u8>, stamp: &FileStat) {
    bytes.extend(stamp.inode.to_le_bytes());
    bytes.extend(stamp.size.to_le_bytes());
    for (seconds, nanoseconds) in [stamp.modified, stamp.changed] {
        bytes.extend(seconds.to_le_bytes());
        bytes.extend(nanoseconds.to_le_bytes());
    }
}

/// The content of an index.
#[derive(Debug, Default)]
struct RecordedIndex {
    bytes: Vec<u8>,
    /// The texts, by number.
    texts: HashMap<Digest, u32>,
    /// By cluster and namespace.
    folders: HashMap<String, HashMap<String, RecordedFolder>>,
}

#[derive(Debug)]
struct RecordedFolder {
    stamp: FileStat,
    names: Digest,
    /// The position of its files' records, in the order of their names.
    records: Range<usize>,
}

impl RecordedIndex {
    fn find_folder(&self, cluster: &str, namespace: &str) -> Option<&RecordedFolder> {
        self.folders.get(cluster)?.get(namespace)
    }

    fn parse_index(bytes: Vec<u8>) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST_LENGTH)?)?;
        if Sha256::digest(body).as_slice() != sum {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let number = u32::from_le_bytes(take_bytes(&mut rest)?);
        let texts = (0..number).map(|n| Some((take_bytes(&mut rest)?, n))).collect::<Option<_>>()?;
        let mut folders: HashMap<String, HashMap<String, RecordedFolder>> = HashMap::new();
        while !rest.is_empty() {
            let (cluster, namespace) = (take_text(&mut rest)?, take_text(&mut rest)?);
            let device = u64::from_le_bytes(take_bytes(&mut rest)?);
            let stamp = take_stamp(&mut rest, device)?;
            let names = take_bytes(&mut rest)?;
            let length = (u32::from_le_bytes(take_bytes(&mut rest)?) as usize).checked_mul(RECORD_LENGTH)?;
            let start = body.len() - rest.len();
            rest = rest.get(length..)?;
            let folder = RecordedFolder { stamp, names, records: start..start + length };
            folders.entry(cluster).or_default().insert(namespace, folder);
        }
        Some(Self { bytes, texts, folders })
    }
}

fn take_bytes<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let length = u32::from_le_bytes(take_bytes(rest)?) as usize;
    let (text, others) = rest.split_at_checked(length)?;
    *rest = others;
    String::from_utf8(text.to_vec()).ok()
}

fn take_stamp(rest: &mut &[u8], device: u64) -> Option<FileStat> {
    let inode = u64::from_le_bytes(take_bytes(rest)?);
    let size = u64::from_le_bytes(take_bytes(rest)?);
    let modified = (i64::from_le_bytes(take_bytes(rest)?), u32::from_le_bytes(take_bytes(rest)?));
    let changed = (i64::from_le_bytes(take_bytes(rest)?), u32::from_le_bytes(take_bytes(rest)?));
    Some(FileStat { device, inode, size, modified, changed })
}
