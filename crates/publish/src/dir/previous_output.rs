//! Reads a published folder: its plan, and single files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::{Error, entries};
use crate::paths::{ObjectPath, PLACEMENTS};
use federate_dialect::Plan;
use federate_engine::previous;

/// Reads the plan; `None` for an empty folder. A folder with other files but no plan is refused.
pub(super) fn read_plan(root: BorrowedFd<'_>, dir: &Path) -> Result<Option<Plan>, Error> {
    let entries = entries::list_entries(root).map_err(Error::io_error("list", dir))?;
    if entries.is_empty() {
        return Ok(None);
    }
    if !entries.iter().any(|entry| entry.name == PLACEMENTS && entry.kind == entries::OutputEntryKind::File) {
        let foreign = entries.iter().map(entries::OutputEntry::display_name).collect();
        return Err(Error::NotOwned { dir: dir.to_owned(), foreign, plan: false });
    }
    let bytes = read_file(root, PLACEMENTS).map_err(Error::io_error("read", dir.join(PLACEMENTS)))?;
    let plan = previous::read_own(&bytes);
    plan.map(Some).map_err(|why| Error::NotAPlan { dir: dir.to_owned(), why: why.to_string() })
}

/// The content of a cluster's file for an object, if it exists and can be read.
pub(super) fn read_manifest(root: BorrowedFd<'_>, cluster: &str, place: &ObjectPath) -> Option<String> {
    let cluster = entries::open_folder(root, cluster).ok()?;
    let namespace = entries::open_folder(cluster, &*place.namespace).ok()?;
    String::from_utf8(read_file(namespace.as_fd(), &place.file).ok()?).ok()
}

fn read_file(folder: BorrowedFd<'_>, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::from(entries::open_file(folder, name)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}
