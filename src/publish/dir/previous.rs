//! The plan that a published folder holds.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;

use super::{Error, at};
use crate::dialect::Plan;
use crate::engine::previous;
use crate::publish::paths::PLACEMENTS;

/// Reads the plan; `None` for an empty folder. A folder with anything but a plan is not federate's.
pub(super) fn read(root: BorrowedFd<'_>, dir: &Path) -> Result<Option<Plan>, Error> {
    let entries = at::list(root).map_err(Error::io("list", dir))?;
    if entries.is_empty() {
        return Ok(None);
    }
    if !entries.iter().any(|entry| entry.name == PLACEMENTS && entry.kind == at::Kind::File) {
        let foreign = entries.iter().map(at::Entry::display).collect();
        return Err(Error::NotOwned { dir: dir.to_owned(), foreign, plan: false });
    }
    let bytes = contents(root).map_err(Error::io("read", dir.join(PLACEMENTS)))?;
    let plan = previous::read_own(&bytes);
    plan.map(Some).map_err(|why| Error::NotAPlan { dir: dir.to_owned(), why: why.to_string() })
}

fn contents(root: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::from(at::open_file(root, PLACEMENTS)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}
