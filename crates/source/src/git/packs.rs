//! Checks that the indexes of packs place every object within its pack. libgit2 reads memory where an index says, even
//! beyond the end of the pack, which ends the process; an index of a repository from elsewhere may say anything.
//!
//! Facts: gitformat-pack(5) for indexes and multi-pack indexes, gitrepository-layout(5) for `objects/info/alternates`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The bytes of an object id, and of the checksum at the end of a pack.
const ID_BYTES: u64 = 20;
/// The bytes of the table that counts objects by the first byte of their ids.
const FANOUT_BYTES: u64 = 4 * 256;
/// The first bytes of an index of version 2.
const VERSION_2: u32 = 0xff74_4f63;
/// Set in an offset that is the place of a longer one.
const LARGE_OFFSET: u32 = 1 << 31;

/// Checks all packs of an object database and of its alternates. The error names the file that is damaged.
pub(super) fn check_objects(objects: &Path) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![objects.to_owned()];
    while let Some(objects) = open.pop() {
        let Ok(objects) = fs::canonicalize(objects) else { continue };
        if seen.insert(objects.clone()) {
            check_folder(&objects.join("pack"))?;
            open.extend(read_alternates(&objects)?);
        }
    }
    Ok(())
}

/// The object databases that one names.
fn read_alternates(objects: &Path) -> Result<Vec<PathBuf>, String> {
    let file = objects.join("info/alternates");
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.lines().map(|line| objects.join(line)).collect())
}

fn check_folder(folder: &Path) -> Result<(), String> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_whole = path.file_name().is_some_and(|name| name == "multi-pack-index");
        // libgit2 takes the name `.idx` for an index, too.
        let is_index = entry.file_name().as_encoded_bytes().ends_with(b".idx");
        let sound = if !is_whole && !is_index {
            Ok(true)
        } else if path.exists() && (!path.is_file() || path.extension().is_none() && is_index) {
            Ok(false)
        } else if is_whole {
            multi_pack_index_is_sound(&path)
        } else {
            // Without its pack, it is not read.
            pack_length(&path).map_or(Ok(true), |length| index_is_sound(&path, length))
        };
        match sound {
            Ok(true) => {}
            // Another process has packed again.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(false) | Err(_) => {
                return Err(format!(
                    "the index {} cannot be read, or places objects outside of their packs; `git fsck` says what is damaged, and \
                     `git index-pack` writes an index again",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// The length of the pack of an index.
fn pack_length(index: &Path) -> Option<u64> {
    Some(fs::metadata(index.with_extension("pack")).ok()?.len())
}

/// Whether an object can begin at an offset of a pack of this length.
fn is_within(offset: u64, length: u64) -> bool {
    length.checked_sub(ID_BYTES).is_some_and(|last| offset <= last)
}

fn index_is_sound(path: &Path, pack: u64) -> io::Result<bool> {
    let mut index = Table::open_file(path)?;
    let second = index.number_at(0)? == VERSION_2;
    let start = if second { 8 + FANOUT_BYTES } else { FANOUT_BYTES };
    let count = u64::from(index.number_at(start - 4)?);
    if count > pack {
        return Ok(false);
    }
    if !second {
        index.seek_to(start)?;
        for _ in 0..count {
            let offset = index.read_u32()?;
            index.skip_bytes(ID_BYTES)?;
            if !is_within(offset.into(), pack) {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let offsets = start + count * (ID_BYTES + 4);
    let large = offsets + count * 4;
    let large = index.wide_between(large, index.length.saturating_sub(2 * ID_BYTES), count)?;
    index.seek_to(offsets)?;
    for _ in 0..count {
        let offset = index.read_u32()?;
        if !resolve_offset(offset, Some(&large)).is_some_and(|offset| is_within(offset, pack)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The offset that a number stands for; `None` if it is the place of one that does not exist.
fn resolve_offset(number: u32, large: Option<&[u64]>) -> Option<u64> {
    match large {
        Some(large) if number & LARGE_OFFSET != 0 => {
            large.get(usize::try_from(number ^ LARGE_OFFSET).ok()?).copied()
        }
        _ => Some(number.into()),
    }
}

/// Where a chunk of a multi-pack-index starts and ends, by the table of its chunks.
fn find_chunk(places: &[([u8; 4], u64)], wanted: [u8; 4]) -> Option<(u64, u64)> {
    let at = places.iter().position(|(id, _)| *id == wanted)?;
    Some((places.get(at)?.1, places.get(at + 1)?.1))
}

fn multi_pack_index_is_sound(path: &Path) -> io::Result<bool> {
    let mut index = Table::open_file(path)?;
    index.seek_to(6)?;
    let chunks = index.read_bytes::<2>()?[0];
    let mut places = Vec::new();
    index.seek_to(12)?;
    for _ in 0..=chunks {
        places.push((index.read_bytes::<4>()?, index.read_u64()?));
    }
    let (Some(names), Some(offsets)) = (find_chunk(&places, *b"PNAM"), find_chunk(&places, *b"OOFF")) else {
        return Ok(false);
    };
    let folder = path.parent().unwrap_or(path);
    let Ok(names) = String::from_utf8(index.text_between(names.0, names.1)?) else { return Ok(false) };
    let packs: Vec<Option<u64>> = names.split('\0').map(|name| pack_length(&folder.join(name))).collect();
    let count = offsets.1.saturating_sub(offsets.0) / 8;
    let large = match find_chunk(&places, *b"LOFF") {
        Some((start, end)) => Some(index.wide_between(start, end, count)?),
        None => None,
    };
    index.seek_to(offsets.0)?;
    for _ in 0..count {
        let (pack, offset) = (index.read_u32()?, index.read_u32()?);
        // Packs that do not exist are not read.
        let Some(Some(pack)) = usize::try_from(pack).ok().and_then(|pack| packs.get(pack)) else { continue };
        if !resolve_offset(offset, large.as_deref()).is_some_and(|offset| is_within(offset, *pack)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A file of numbers, the most significant byte first.
struct Table {
    file: BufReader<File>,
    length: u64,
}

impl Table {
    fn open_file(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self { length: file.metadata()?.len(), file: BufReader::new(file) })
    }

    fn seek_to(&mut self, to: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(to)).map(drop)
    }

    fn skip_bytes(&mut self, bytes: u64) -> io::Result<()> {
        self.file.seek_relative(i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    fn read_bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map(|()| bytes)
    }

    fn read_u32(&mut self) -> io::Result<u32> {
        self.read_bytes().map(u32::from_be_bytes)
    }

    fn number_at(&mut self, at: u64) -> io::Result<u32> {
        self.seek_to(at)?;
        self.read_u32()
    }

    fn read_u64(&mut self) -> io::Result<u64> {
        self.read_bytes().map(u64::from_be_bytes)
    }

    /// The numbers of eight bytes between two places, at most `most`.
    fn wide_between(&mut self, start: u64, end: u64, most: u64) -> io::Result<Vec<u64>> {
        self.seek_to(start)?;
        (0..most.min(end.min(self.length).saturating_sub(start) / 8)).map(|_| self.read_u64()).collect()
    }

    fn text_between(&mut self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        self.seek_to(start)?;
        let mut text = Vec::new();
        self.file.by_ref().take(end.min(self.length).saturating_sub(start)).read_to_end(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, parts: &[&[u8]]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, parts.concat()).unwrap();
        path
    }

    fn fanout(count: u32) -> Vec<u8> {
        count.to_be_bytes().repeat(256)
    }

    #[test]
    fn offsets_of_both_versions_are_within_the_pack() {
        let folder = tempfile::tempdir().unwrap();
        let sound = |offset: u32| {
            let first = file(folder.path(), "1.idx", &[&fanout(1), &offset.to_be_bytes(), &[7; 60]]);
            let head: &[u8] = &[0xff, b't', b'O', b'c', 0, 0, 0, 2];
            let second = [head, &fanout(1), &[7; 24], &offset.to_be_bytes(), &99_u64.to_be_bytes(), &[7; 40]];
            let second = file(folder.path(), "2.idx", &second);
            (index_is_sound(&first, 100).unwrap(), index_is_sound(&second, 100).unwrap())
        };
        assert_eq!(sound(12), (true, true));
        assert_eq!(sound(80), (true, true));
        assert_eq!(sound(81), (false, false));
        // The first long offset is outside, and there is no second one.
        assert_eq!(sound(LARGE_OFFSET), (false, false));
        assert_eq!(sound(LARGE_OFFSET | 1), (false, false));
    }

    #[test]
    fn an_index_has_no_more_objects_than_its_pack_has_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), "1.idx", &[&fanout(u32::MAX)]);
        assert!(!index_is_sound(&path, 100).unwrap());
    }

    #[test]
    fn offsets_of_a_multi_pack_index_are_within_their_packs() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "a.pack", &[&[0; 100]]);
        let sound = |offset: u32, pack: u32| {
            let chunk = |id: &[u8], at: u64| [id, &at.to_be_bytes()].concat();
            let parts: [&[u8]; 8] = [
                &[b'M', b'I', b'D', b'X', 1, 1, 2, 0, 0, 0, 0, 1],
                &chunk(b"PNAM", 48),
                &chunk(b"OOFF", 54),
                &chunk(&[0; 4], 62),
                b"a.idx\0",
                &pack.to_be_bytes(),
                &offset.to_be_bytes(),
                &[7; 20],
            ];
            multi_pack_index_is_sound(&file(folder.path(), "multi-pack-index", &parts)).unwrap()
        };
        assert!(sound(80, 0));
        assert!(!sound(81, 0));
        // No such pack is read.
        assert!(sound(81, 5));
    }

    #[test]
    fn what_is_not_an_index_is_refused() {
        for name in ["folder.idx", "multi-pack-index", ".idx"] {
            let objects = tempfile::tempdir().unwrap();
            fs::create_dir_all(objects.path().join("pack")).unwrap();
            assert_eq!(check_objects(objects.path()), Ok(()));
            if name == ".idx" {
                fs::write(objects.path().join("pack/.idx"), "").unwrap();
            } else {
                fs::create_dir(objects.path().join("pack").join(name)).unwrap();
            }
            assert!(check_objects(objects.path()).unwrap_err().contains(name), "{name}");
        }
    }
}
