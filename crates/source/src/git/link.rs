//! Resolves symbolic links of a git tree. Links are blobs that contain a path; they are followed within the
//! tree only.

use git2::{Repository, Tree};

use super::{LINK, TREE, lookup};
use federate_repo::source::EntryKind;

/// The largest number of links that are followed for one path, as in file systems.
const MOST: usize = 40;

/// The target of the link at `path`.
pub(super) fn kind(repository: &Repository, root: &Tree<'_>, path: &str) -> EntryKind {
    let target = target(repository, root, path).unwrap_or_else(|| "?".to_owned());
    let mut follow = Follow { repository, root, left: MOST };
    match follow.path(path) {
        Ok((to, TREE)) => EntryKind::LinkToFolder(to),
        Ok((to, _)) => EntryKind::LinkToFile(to),
        Err(End::Outside) => EntryKind::LinkOutside(target),
        Err(End::Missing) => EntryKind::Unreadable(format!("the link's target `{target}` does not exist")),
        Err(End::Loop) => {
            EntryKind::Unreadable(format!("the link to `{target}` passes through too many links"))
        }
    }
}

fn target(repository: &Repository, root: &Tree<'_>, path: &str) -> Option<String> {
    let (oid, _) = lookup(repository, root, path)?;
    String::from_utf8(repository.find_blob(oid).ok()?.content().to_vec()).ok()
}

enum End {
    Outside,
    Missing,
    Loop,
}

struct Follow<'r> {
    repository: &'r Repository,
    root: &'r Tree<'r>,
    left: usize,
}

impl Follow<'_> {
    /// The real path of `path`, and the mode of its target.
    fn path(&mut self, path: &str) -> Result<(String, i32), End> {
        let mut real: Vec<String> = Vec::new();
        let mut mode = TREE;
        let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        while let Some(part) = rest.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    real.pop().ok_or(End::Outside)?;
                    mode = TREE;
                    continue;
                }
                _ => real.push(part),
            }
            let here = real.join("/");
            let (_, found) = lookup(self.repository, self.root, &here).ok_or(End::Missing)?;
            mode = found;
            if mode == LINK {
                self.left = self.left.checked_sub(1).ok_or(End::Loop)?;
                let to = target(self.repository, self.root, &here).ok_or(End::Missing)?;
                if to.starts_with('/') {
                    return Err(End::Outside);
                }
                real.pop();
                rest.extend(to.split('/').rev().map(str::to_owned));
                mode = TREE;
            }
        }
        Ok((real.join("/"), mode))
    }
}
