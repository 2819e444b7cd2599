//! Resolves symbolic links of a git tree. Links are blobs that contain a path; they are followed within the
//! tree only.
//!
//! Facts: `path_resolution(7)` (`PATH_MAX`, 40 links).

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use git2::{ObjectType, Oid, Repository};

use super::{LINK_MODE, TREE_MODE, find_tree};
use federate_repo::file_tree::EntryKind;

/// The largest number of links that are followed for one path, as in file systems.
const MAX_LINKS: usize = 40;

/// The longest target of a link in bytes, as in file systems.
const MAX_TARGET_BYTES: usize = 4096;

/// The number of path components that are looked up for all links of a revision. Each link costs a few, but a small
/// repository can hold many links with the longest of targets.
const MAX_LOOKUPS: usize = 1_000_000;

/// How many entries of a tree are read in the time of a lookup.
const ENTRIES_PER_LOOKUP: usize = 64;

/// Resolves the links of a revision.
pub(super) struct LinkResolver {
    left: AtomicUsize,
}

impl Default for LinkResolver {
    fn default() -> Self {
        Self { left: AtomicUsize::new(MAX_LOOKUPS) }
    }
}

impl LinkResolver {
    /// The target of the link at `path`, whose blob is `link`.
    pub(super) fn resolve_kind(
        &self,
        repository: &Repository,
        root: Oid,
        path: &str,
        link: Oid,
    ) -> EntryKind {
        let target = read_target(repository, link).unwrap_or_else(|| "?".to_owned());
        match (Follow { repository, root, links: MAX_LINKS, left: &self.left }).resolve_path(path) {
            Ok((to, TREE_MODE)) => EntryKind::LinkToFolder(to),
            Ok((to, _)) => EntryKind::LinkToFile(to),
            Err(End::Outside) => EntryKind::LinkOutside(target),
            Err(End::Missing) => {
                EntryKind::Unreadable(format!("the link's target `{target}` does not exist"))
            }
            Err(End::Loop) => {
                EntryKind::Unreadable(format!("the link to `{target}` passes through too many links"))
            }
        }
    }
}

/// The path in a link's blob.
fn read_target(repository: &Repository, link: Oid) -> Option<String> {
    let odb = repository.odb().ok()?;
    let (size, kind) = odb.read_header(link).ok()?;
    if size > MAX_TARGET_BYTES || kind != ObjectType::Blob {
        return None;
    }
    String::from_utf8(odb.read(link).ok()?.data().to_vec()).ok()
}

enum End {
    Outside,
    Missing,
    Loop,
}

struct Follow<'r> {
    repository: &'r Repository,
    root: Oid,
    links: usize,
    left: &'r AtomicUsize,
}

impl Follow<'_> {
    /// The real path of `path`, and the mode of its target.
    fn resolve_path(&mut self, path: &str) -> Result<(String, i32), End> {
        // Each component with its object, so that every step looks into one tree only.
        let mut real: Vec<(String, Oid, i32)> = Vec::new();
        let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        while let Some(part) = rest.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    real.pop().ok_or(End::Outside)?;
                    continue;
                }
                _ => {}
            }
            let folder = real.last().map_or(self.root, |(_, id, _)| *id);
            let (id, mode) = self.find_entry(folder, &part)?;
            if mode != LINK_MODE {
                real.push((part, id, mode));
                continue;
            }
            self.links = self.links.checked_sub(1).ok_or(End::Loop)?;
            let to = read_target(self.repository, id).ok_or(End::Missing)?;
            if to.starts_with('/') {
                return Err(End::Outside);
            }
            rest.extend(to.split('/').rev().map(str::to_owned));
        }
        let mode = real.last().map_or(TREE_MODE, |(_, _, mode)| *mode);
        let names: Vec<String> = real.into_iter().map(|(name, ..)| name).collect();
        Ok((names.join("/"), mode))
    }

    fn count_lookups(&self, lookups: usize) -> Result<(), End> {
        let left =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(lookups));
        left.map(drop).map_err(|_| End::Loop)
    }

    /// The object and mode of an entry of a folder.
    fn find_entry(&self, folder: Oid, name: &str) -> Result<(Oid, i32), End> {
        self.count_lookups(1)?;
        let tree = find_tree(self.repository, folder).map_err(|_| End::Missing)?;
        self.count_lookups(tree.len() / ENTRIES_PER_LOOKUP)?;
        let entry = tree.get_path(Path::new(name)).map_err(|_| End::Missing)?;
        let known = self.repository.odb().is_ok_and(|odb| odb.exists(entry.id()));
        if known { Ok((entry.id(), entry.filemode())) } else { Err(End::Missing) }
    }
}
