//! The folder `vendor`: places folders of charts in it in one step each, and removes what is not used any more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use federate_builder::PackedFile;
use federate_gitops::vendored::{LOCK_PATH, VENDOR_FOLDER, compute_folder_digest};
use federate_source::WorkTree;

/// The beginning of the names of folders in which downloads are prepared.
const STAGE_PREFIX: &str = ".federate-new-";

/// The folder of charts, from the root of the repo.
pub(crate) const CHARTS_FOLDER: &str = "vendor/charts";

/// The folder of bases, from the root of the repo.
pub(crate) const BASES_FOLDER: &str = "vendor/bases";

/// What the ignore file of federate in the folder contains: what is vendored is built by those who name it, and is no manifest.
const IGNORED: &str = "# Written by `federate vendor`: read by builds only, never as manifests.\n/charts/\n/bases/\n/federate.lock.yaml\n";

/// What git's attributes in the folder are: a file whose line endings git changes would have another digest.
const ATTRIBUTES: &str =
    "# Written by `federate vendor`: digests are those of the bytes.\n/charts/** -text\n/bases/** -text\n";

/// The folder `vendor` of a repo.
pub(crate) struct VendorFolder<'r> {
    root: &'r Path,
    /// Where downloads are prepared. It is removed at the end.
    stage: TempDir,
}

impl<'r> VendorFolder<'r> {
    /// Creates the folder, and removes what a killed run has left.
    pub(crate) fn open(root: &'r Path) -> io::Result<Self> {
        let folder = root.join(VENDOR_FOLDER);
        refuse_links(root, CHARTS_FOLDER)?;
        refuse_links(root, BASES_FOLDER)?;
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let is_left = entry.file_name().to_string_lossy().starts_with(STAGE_PREFIX);
            if is_left && entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let stage = tempfile::Builder::new().prefix(STAGE_PREFIX).tempdir_in(&folder)?;
        Ok(Self { root, stage })
    }

    /// A new folder to download to.
    pub(crate) fn create_stage(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.stage.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Writes files to a staged folder.
    pub(crate) fn write_files(&self, name: &str, files: &[PackedFile]) -> io::Result<PathBuf> {
        let folder = self.create_stage(name)?;
        for file in files {
            let path = folder.join(&file.path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, &file.bytes)?;
        }
        Ok(folder)
    }

    /// Puts a staged folder in the place of `path`. What is there must be what the lock file names (`is_own`), or have the same digest,
    /// as after a run that was killed.
    pub(crate) fn place_folder(
        &self,
        staged: &Path,
        path: &str,
        digest: &str,
        is_own: bool,
    ) -> io::Result<()> {
        refuse_links(self.root, path)?;
        let target = self.root.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        if target.exists() {
            if !is_own && compute_digest(&target)? != digest {
                return Err(io::Error::other(format!(
                    "`{path}` is there, and is not in the lock file; move it to another folder, or delete it"
                )));
            }
            fs::rename(&target, staged.with_extension("old"))?;
        }
        fs::rename(staged, &target)
    }

    /// Writes the lock file and what goes with it.
    pub(crate) fn write_lock(&self, text: &str) -> io::Result<()> {
        for (name, text) in [(".federateignore", IGNORED), (".gitattributes", ATTRIBUTES)] {
            write_file(&self.root.join(VENDOR_FOLDER).join(name), text)?;
        }
        write_file(&self.root.join(LOCK_PATH), text)
    }

    /// Removes the folder of a chart or a base, and the folder above it if that is empty then.
    pub(crate) fn remove_folder(&self, path: &str) -> io::Result<()> {
        let below = [CHARTS_FOLDER, BASES_FOLDER].iter().find_map(|folder| path.strip_prefix(folder));
        let parts: Vec<&str> = below.unwrap_or_default().split('/').collect();
        let is_own = matches!(parts.as_slice(), ["", name, version]
            if [name, version].iter().all(|part| !part.is_empty() && !part.starts_with('.')));
        if !is_own {
            return Ok(());
        }
        refuse_links(self.root, path)?;
        let target = self.root.join(path);
        if target.is_dir() {
            fs::remove_dir_all(&target)?;
        }
        if let Some(parent) = target.parent() {
            // Other versions may be in it.
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

/// The digest of a folder outside of a tree.
pub(crate) fn compute_digest(folder: &Path) -> io::Result<String> {
    let tree = WorkTree::open(folder).map_err(|finding| io::Error::other(finding.message))?;
    compute_folder_digest(&tree, "").map_err(io::Error::other)
}

/// Refuses a path of the repo that leads through a link, which could lead elsewhere.
fn refuse_links(root: &Path, path: &str) -> io::Result<()> {
    let mut current = root.to_path_buf();
    for part in path.split('/') {
        current.push(part);
        if current.is_symlink() {
            return Err(io::Error::other(format!("`{}` is a link", current.display())));
        }
    }
    Ok(())
}

/// Writes a file in one step, unless it has that content.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => Err(io::Error::other(format!("`{}` is not a file", path.display()))),
        Ok(_) if fs::read(path)? == text.as_bytes() => Ok(()),
        Ok(_) => federate_publish::file::replace_content(path, text.as_bytes()),
        Err(_) => federate_publish::file::create_file(path, text.as_bytes()),
    }
}
