//! Resolves the real path of a folder to publish to, and checks whether it can be replaced as a whole.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Error, entries};

/// The folder's real path, as an existing parent and a name in it.
#[derive(Debug)]
pub(super) struct OutputLocation {
    parent: PathBuf,
    name: OsString,
    /// Parents that were created, outermost first.
    made: Vec<PathBuf>,
}

impl OutputLocation {
    /// Follows symlinks, creates missing parents, and refuses a folder that is or contains one of `keep`.
    pub(super) fn resolve_path(path: &Path, keep: &[&Path]) -> Result<Self, Error> {
        match fs::canonicalize(path) {
            Ok(real) => Self::from_existing(&real, keep),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io_error("find", path)(error)),
            Err(_) => match fs::read_link(path) {
                // A dangling link: its target is created. Circular links do not get here.
                Ok(target) => Self::resolve_path(&parent_of(path).join(target), keep),
                Err(_) => Self::create_parents(path),
            },
        }
    }

    fn from_existing(real: &Path, keep: &[&Path]) -> Result<Self, Error> {
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            let why = "it is the root of the file system";
            return Err(Error::Unsuitable { dir: real.to_owned(), why });
        };
        if keep.iter().any(|kept| fs::canonicalize(kept).is_ok_and(|kept| kept.starts_with(real))) {
            let why = "it is, or contains, the repo or the working directory";
            return Err(Error::Unsuitable { dir: real.to_owned(), why });
        }
        let own = fs::metadata(real).map_err(Error::io_error("read", real))?;
        let outer = fs::metadata(parent).map_err(Error::io_error("read", parent))?;
        if !own.is_dir() {
            return Err(Error::NotAFolder { dir: real.to_owned() });
        }
        if own.dev() != outer.dev() {
            return Err(Error::Unsuitable { dir: real.to_owned(), why: MOUNT_POINT });
        }
        Ok(Self { parent: parent.to_owned(), name: name.to_owned(), made: Vec::new() })
    }

    fn create_parents(path: &Path) -> Result<Self, Error> {
        let Some(name) = path.file_name() else {
            return Err(Error::io_error("find", path)(ErrorKind::NotFound));
        };
        let parent = parent_of(path);
        let missing: Vec<_> = parent.ancestors().take_while(|p| !path_exists(p)).collect();
        // Kept up to date in `location`, so that an error removes the parents created so far.
        let mut location = Self { parent: parent.clone(), name: name.to_owned(), made: Vec::new() };
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder).map_err(Error::io_error("create", folder))?;
            location.made.push(folder.to_owned());
        }
        location.parent = fs::canonicalize(&parent).map_err(Error::io_error("find", parent))?;
        Ok(location)
    }

    /// The folder's path.
    pub(super) fn folder_path(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// The path of a hidden file or folder next to it; `what` distinguishes them.
    pub(super) fn path_beside(&self, what: &str) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(".federate-");
        name.push(what);
        self.parent.join(name)
    }

    /// Opens the folder; `None` if it does not exist.
    pub(super) fn open_folder(&self) -> Result<Option<OwnedFd>, Error> {
        match entries::open_folder(rustix::fs::CWD, self.folder_path()) {
            Ok(root) => Ok(Some(root)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(Error::io_error("open", self.folder_path())(error)),
        }
    }
}

/// Why a mount point is refused.
pub(super) const MOUNT_POINT: &str = "it is a mount point, which cannot be replaced in one step";

impl Drop for OutputLocation {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // Fails, as intended, if something has been published.
            let _ = fs::remove_dir(folder);
        }
    }
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn path_exists(path: &Path) -> bool {
    path == Path::new("") || fs::symlink_metadata(path).is_ok()
}
