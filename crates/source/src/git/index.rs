//! The entries of a git index that a work tree may lack: files of a sparse checkout, and submodules.
//!
//! libgit2 refuses the index of a sparse checkout in cone mode, which has entries for whole folders. Therefore the few
//! fields that matter are read here.
//!
//! Facts: gitformat-index(5): versions 2 to 4, extended flags, sparse directory entries.

use git2::Oid;

/// An entry that the work tree may lack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SkippedEntry {
    /// The path from the root of the work tree; a folder that is skipped as a whole ends in `/`.
    pub(crate) path: String,
    /// The object: of a file, of a folder, or the commit of a submodule.
    pub(crate) id: Oid,
    /// Whether it is a submodule, and not a file that is skipped.
    pub(crate) is_submodule: bool,
}

/// The length of an entry's fixed fields, up to the flags.
const FIXED_BYTES: usize = 62;
/// Where the mode of an entry is.
const MODE_OFFSET: usize = 24;
/// Where the id of an entry is.
const ID_OFFSET: usize = 40;
/// In the flags: extended flags follow.
const EXTENDED_FLAG: u16 = 0x4000;
/// In the extended flags: the file is not checked out.
const SKIP_WORKTREE_FLAG: u16 = 0x4000;
/// The mode of a submodule.
const GITLINK_MODE: u32 = 0o160_000;

/// The entries that are skipped or submodules; `None` if the format is not known.
pub(crate) fn read_skipped_entries(bytes: &[u8]) -> Option<Vec<SkippedEntry>> {
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let version = read_u32(bytes, 4)?;
    let count = read_u32(bytes, 8)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut found = Vec::new();
    let mut at = 12;
    let mut path: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = at;
        let mode = read_u32(bytes, start + MODE_OFFSET)?;
        let id = bytes.get(start + ID_OFFSET..start + ID_OFFSET + 20)?;
        let flags = read_u16(bytes, start + FIXED_BYTES - 2)?;
        at = start + FIXED_BYTES;
        let extended = if flags & EXTENDED_FLAG == 0 {
            0
        } else {
            at += 2;
            read_u16(bytes, at - 2)?
        };
        if version == 4 {
            let (removed, next) = read_offset(bytes, at)?;
            path.truncate(path.len().checked_sub(removed)?);
            at = next;
        } else {
            path.clear();
        }
        let name = bytes.get(at..)?;
        let length = name.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(name.get(..length)?);
        at += length + 1;
        if version < 4 {
            at = start + (at - start).next_multiple_of(8);
        }
        let is_submodule = mode == GITLINK_MODE;
        if (is_submodule || extended & SKIP_WORKTREE_FLAG != 0)
            && let Ok(text) = std::str::from_utf8(&path)
        {
            found.push(SkippedEntry { path: text.to_owned(), id: Oid::from_bytes(id).ok()?, is_submodule });
        }
    }
    Some(found)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number in the encoding of offsets in packs, and where it ends.
fn read_offset(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
        if byte & 128 == 0 {
            return Some((value, at));
        }
        value += 1;
    }
}
