//! Writes a changed copy of a repo to a folder, in one atomic step.
//!
//! The copy is built next to the folder and then put in its place, as a rendered tree is. One file of it records a digest
//! over all others: a folder is replaced only if it is empty, or if nothing in it has changed since it was written.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::path::{Component, Path, PathBuf};

use federate_kubernetes::hex::to_hex;
use sha2::{Digest, Sha256};

use super::location::OutputLocation;
use super::stage::NEW_FOLDER;
use super::{Error, swap};
use crate::lock::FileLock;

/// The beginning of the line that records the digest, and its end.
const RECORD: [&str; 2] = ["<!-- federate migrate sha256:", " -->"];

/// A copy of a repo that is being written. Unless it is published, nothing of it remains.
#[derive(Debug)]
pub struct RepoCopy {
    // Fields are dropped in this order: the lock file is removed before the folders created for it.
    _lock: FileLock,
    location: OutputLocation,
    /// The name of the file that records the digest.
    record: &'static str,
    replaces: bool,
    published: bool,
    /// The digest of each file, and of the target of each link, by path.
    digests: BTreeMap<String, [u8; 32]>,
}

impl RepoCopy {
    /// Locks the folder at `path`, which need not exist, and begins a copy. `record` is the name of the file that records
    /// what was written. As for [`OutputFolder`](super::OutputFolder), the folder must not contain one of `keep`.
    pub fn begin(
        path: &Path,
        record: &'static str,
        keep: &[&Path],
        waiting: impl FnOnce(),
    ) -> Result<Self, Error> {
        let location = OutputLocation::resolve_path(path, keep)?;
        let lock_path = location.path_beside("lock");
        let lock = FileLock::lock_file(&lock_path, waiting).map_err(Error::io_error("lock", lock_path))?;
        swap::recover_killed_run(&location)?;
        let dir = location.folder_path();
        let replaces = fs::symlink_metadata(&dir).is_ok();
        if replaces {
            check_ownership(&dir, record)?;
        }
        let staged = location.path_beside(NEW_FOLDER);
        fs::create_dir(&staged).map_err(Error::io_error("create", &staged))?;
        let digests = BTreeMap::new();
        Ok(Self { _lock: lock, location, record, replaces, published: false, digests })
    }

    /// Adds a file.
    pub fn write_file(
        &mut self,
        path: &str,
        content: &[u8],
        permissions: Option<Permissions>,
    ) -> Result<(), Error> {
        let staged = self.create_parents(path)?;
        fs::write(&staged, content).map_err(Error::io_error("write", &staged))?;
        if let Some(permissions) = permissions {
            fs::set_permissions(&staged, permissions).map_err(Error::io_error("set the mode of", &staged))?;
        }
        self.digests.insert(path.to_owned(), Sha256::digest(content).into());
        Ok(())
    }

    /// Adds a symbolic link.
    pub fn write_link(&mut self, path: &str, target: &Path) -> Result<(), Error> {
        let staged = self.create_parents(path)?;
        std::os::unix::fs::symlink(target, &staged).map_err(Error::io_error("create", &staged))?;
        self.digests.insert(path.to_owned(), Sha256::digest(target.as_os_str().as_encoded_bytes()).into());
        Ok(())
    }

    /// Puts the copy in place, with `text` and the record of what was written in the file for that.
    pub fn publish(mut self, text: &str) -> Result<(), Error> {
        let [start, end] = RECORD;
        let recorded = format!("{text}\n{start}{}{end}\n", join_digests(&self.digests));
        let record = self.record;
        self.write_file(record, recorded.as_bytes(), None)?;
        swap::put_in_place(&self.location, self.replaces)?;
        self.published = true;
        Ok(())
    }

    /// The staged path of an entry, after its folders are created.
    fn create_parents(&self, path: &str) -> Result<PathBuf, Error> {
        let root = self.location.path_beside(NEW_FOLDER);
        let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_below || path.is_empty() {
            return Err(Error::io_error("write", path)(io::ErrorKind::InvalidInput));
        }
        let staged = root.join(path);
        if let Some(folder) = staged.parent() {
            fs::create_dir_all(folder).map_err(Error::io_error("create", folder))?;
        }
        Ok(staged)
    }
}

impl Drop for RepoCopy {
    fn drop(&mut self) {
        if !self.published {
            // Removes leftovers if possible; the user needs the original error.
            let _ = swap::recover_killed_run(&self.location);
        }
    }
}

/// Refuses a folder that is neither empty nor an unchanged copy.
fn check_ownership(dir: &Path, record: &str) -> Result<(), Error> {
    let mut entries = fs::read_dir(dir).map_err(Error::io_error("read", dir))?;
    if entries.next().is_none() {
        return Ok(());
    }
    let text = fs::read_to_string(dir.join(record)).unwrap_or_default();
    let [start, end] = RECORD;
    let recorded = text.lines().last().and_then(|line| line.strip_prefix(start)?.strip_suffix(end));
    let Some(recorded) = recorded else { return Err(Error::NotACopy { dir: dir.to_owned() }) };
    let mut digests = BTreeMap::new();
    digest_folder(dir, "", record, &mut digests)?;
    if join_digests(&digests) == recorded {
        Ok(())
    } else {
        Err(Error::ChangedCopy { dir: dir.to_owned(), record: record.to_owned() })
    }
}

/// The digests of all files and links below a folder, without the record.
fn digest_folder(
    dir: &Path,
    below: &str,
    record: &str,
    digests: &mut BTreeMap<String, [u8; 32]>,
) -> Result<(), Error> {
    let folder = dir.join(below);
    for entry in fs::read_dir(&folder).map_err(Error::io_error("read", &folder))? {
        let entry = entry.map_err(Error::io_error("read", &folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(Error::io_error("read", entry.path()))?;
        if kind.is_dir() {
            digest_folder(dir, &path, record, digests)?;
        } else if path != record {
            let content = if kind.is_symlink() {
                fs::read_link(entry.path()).map(|target| target.as_os_str().as_encoded_bytes().to_vec())
            } else {
                fs::read(entry.path())
            };
            let content = content.map_err(Error::io_error("read", entry.path()))?;
            digests.insert(path, Sha256::digest(content).into());
        }
    }
    Ok(())
}

/// One digest over the paths and the digests of all files.
fn join_digests(digests: &BTreeMap<String, [u8; 32]>) -> String {
    let mut all = Sha256::new();
    for (path, digest) in digests {
        all.update((path.len() as u64).to_be_bytes());
        all.update(path);
        all.update(digest);
    }
    to_hex(&all.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "RECORD.md";

    fn write(out: &Path, files: &[(&str, &str)]) -> Result<(), Error> {
        let mut copy = RepoCopy::begin(out, RECORDED, &[], || {})?;
        for (path, text) in files {
            copy.write_file(path, text.as_bytes(), None)?;
        }
        copy.write_link("link.yaml", Path::new("a/b.yaml"))?;
        copy.publish("# What was written\n")
    }

    #[test]
    fn an_unchanged_copy_is_replaced_and_a_changed_one_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("deep/out");
        write(&out, &[("a/b.yaml", "b"), ("c.yaml", "c")]).unwrap();
        write(&out, &[("a/b.yaml", "new")]).unwrap();
        assert_eq!(fs::read_to_string(out.join("link.yaml")).unwrap(), "new");
        assert!(!out.join("c.yaml").exists());
        fs::write(out.join("a/b.yaml"), "by hand").unwrap();
        let refused = write(&out, &[("a/b.yaml", "newer")]).unwrap_err().to_string();
        assert!(refused.contains("changed since"), "{refused}");
        assert_eq!(fs::read_to_string(out.join("a/b.yaml")).unwrap(), "by hand");
        assert_eq!(
            fs::read_dir(scratch.path().join("deep")).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn other_folders_are_refused_and_what_fails_leaves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("own.txt"), "own").unwrap();
        let refused = write(scratch.path(), &[]).unwrap_err().to_string();
        assert!(refused.contains("did not write"), "{refused}");
        let out = scratch.path().join("new/out");
        assert!(write(&out, &[("../escape", "x")]).is_err());
        assert!(write(&out, &[("/absolute", "x")]).is_err());
        assert!(!scratch.path().join("new").exists() && !scratch.path().join("escape").exists());
    }
}
