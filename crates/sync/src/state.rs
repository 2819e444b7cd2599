//! The state folder of `--state`: the record of each Sync, the previous plan, and the cache of its source.
//!
//! ```text
//! DIR/lock                                  held while a process works with the folder
//! DIR/<namespace>/<name>/status.json        the record of the Sync, with its status
//! DIR/<namespace>/<name>/placements.yaml    the plan that was accepted last: the previous plan
//! DIR/<namespace>/<name>/placements-*.yaml  the plans of former revisions, during a rollout
//! DIR/<namespace>/<name>/members.json       the last status of members, if the Sync reads it
//! DIR/<namespace>/<name>/git/               the cache of the source
//! ```
//!
//! Files are replaced in one step. A process that is killed leaves the old file or the new one, and the operating
//! system releases its lock.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use federate_dialect::Plan;
use federate_engine::previous;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::SyncStatus;

use crate::sync_files::ValidSync;

/// How the names of files start that are being written. Those of killed processes are removed.
const TEMPORARY_PREFIX: &str = ".half-";
/// How the names of files with the plans of former revisions start.
const FORMER_PREFIX: &str = "placements-";
/// The name of the file with the last status of members.
const MEMBERS_FILE: &str = "members.json";

/// Why the state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it.
    #[error("the state folder {} is in use by another `federate sync`: end that one, or name another folder", .0.display())]
    Locked(PathBuf),
    /// The operating system refuses.
    #[error("the state folder: {}: {why}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The previous plan is damaged.
    #[error(
        "{place}: the scheduler's memory cannot be read ({why}): restore it, or remove it to schedule everything again"
    )]
    Plan {
        /// The file or object.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The API server that holds the Syncs.
    #[error("{0}")]
    Server(String),
}

impl Error {
    fn io(path: &Path, why: io::Error) -> Self {
        Self::Io { path: path.to_owned(), why }
    }
}

/// The state folder, held by this process.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    _lock: File,
}

/// The states of all Syncs: in a folder, or on the API server that holds them.
pub trait SyncStates: std::marker::Sync {
    /// The state of a Sync.
    fn open_state<'s>(&'s self, valid_sync: &ValidSync) -> Result<SyncState<'s>, Error>;
}

/// Where the plans, the record and the status of members of one Sync are stored.
pub(crate) trait SyncStorage {
    /// The previous plan; `None` before the first reconciliation.
    fn read_plan(&self) -> Result<Option<Vec<u8>>, Error>;

    /// The place of the previous plan, for messages.
    fn plan_location(&self) -> String;

    /// Stores an accepted plan: the previous plan of the next reconciliation.
    fn write_plan(&mut self, text: &str) -> Result<(), Error>;

    /// The plan of a former revision.
    fn read_former_plan(&self, revision: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Keeps the previous plan as the plan of a former revision, unless that revision has one.
    fn keep_former_plan(&mut self, revision: &str) -> Result<(), Error>;

    /// Removes the plans of all former revisions but some.
    fn forget_former_plans(&mut self, but: &BTreeSet<String>) -> Result<(), Error>;

    /// The last status of members.
    fn members_status(&self) -> Result<Option<Vec<u8>>, Error>;

    /// Keeps the last status of members.
    fn keep_members_status(&mut self, text: &str) -> Result<(), Error>;

    /// Writes the record, if it has changed.
    fn save_record(&mut self, record: &SyncRecord) -> Result<(), Error>;

    /// Writes only the status of the record, where it is kept by itself.
    fn save_status(&mut self, record: &SyncRecord) -> Result<(), Error> {
        self.save_record(record)
    }
}

/// The state of one Sync, as it is stored: the next process goes on from it. What a process knows besides is a `SyncRuntime`.
pub struct SyncState<'s> {
    cache: PathBuf,
    /// Its record.
    pub record: SyncRecord,
    /// What is stored besides.
    pub(crate) storage: Box<dyn SyncStorage + 's>,
}

/// The storage of a Sync in its folder.
struct FolderStorage {
    folder: PathBuf,
    /// The record as it is in the file.
    written: String,
}

impl StateFolder {
    /// Opens the folder for this process, and creates it if necessary.
    pub fn open(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(|why| Error::io(path, why))?;
        let path = fs::canonicalize(path).map_err(|why| Error::io(path, why))?;
        let lock =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join("lock"));
        let lock = lock.map_err(|why| Error::io(&path, why))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked(path)),
            Err(TryLockError::Error(why)) => Err(Error::io(&path, why)),
        }
    }
}

impl SyncStates for StateFolder {
    fn open_state<'s>(&'s self, valid_sync: &ValidSync) -> Result<SyncState<'s>, Error> {
        let sync = &valid_sync.object;
        let folder = self.path.join(&sync.metadata.namespace).join(&sync.metadata.name);
        fs::create_dir_all(&folder).map_err(|why| Error::io(&folder, why))?;
        for entry in fs::read_dir(&folder).map_err(|why| Error::io(&folder, why))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) {
                fs::remove_file(entry.path()).map_err(|why| Error::io(&folder, why))?;
            }
        }
        let written = fs::read_to_string(folder.join("status.json")).unwrap_or_default();
        // A record that cannot be read is written again.
        let kept = SyncRecord::parse(&written).filter(|record| record.metadata.name == sync.metadata);
        let mut record = kept.unwrap_or_else(|| SyncRecord::new(sync, 1, SyncStatus::default()));
        record.follow_spec(sync, true);
        let storage = FolderStorage { folder: folder.clone(), written };
        Ok(SyncState::new(&folder, record, Box::new(storage)))
    }
}

impl<'s> SyncState<'s> {
    pub(crate) fn new(folder: &Path, record: SyncRecord, storage: Box<dyn SyncStorage + 's>) -> Self {
        Self { cache: folder.join("git"), record, storage }
    }

    /// Where the source is fetched to.
    pub fn git_cache(&self) -> PathBuf {
        self.cache.clone()
    }

    /// The previous plan; `None` before the first reconciliation.
    pub fn read_plan(&self) -> Result<Option<Plan>, Error> {
        let Some(bytes) = self.storage.read_plan()? else { return Ok(None) };
        previous::read_own(&bytes)
            .map(Some)
            .map_err(|error| Error::Plan { place: self.storage.plan_location(), why: error.to_string() })
    }

    /// The plan of a former revision that clusters may still have.
    pub fn read_former_plan(&self, revision: &str) -> Result<Option<Plan>, Error> {
        let Some(bytes) = self.storage.read_former_plan(revision)? else { return Ok(None) };
        let place = format!("{}, revision {revision}", self.storage.plan_location());
        previous::read_own(&bytes).map(Some).map_err(|error| Error::Plan { place, why: error.to_string() })
    }

    /// Stores an accepted plan: the previous plan of the next reconciliation.
    pub fn write_plan(&mut self, plan: &Plan) -> Result<(), Error> {
        self.storage.write_plan(&previous::serialize_plan(plan))
    }

    /// Writes the record, if it has changed.
    pub fn save_record(&mut self) -> Result<(), Error> {
        self.storage.save_record(&self.record)
    }

    /// Writes only the status of the record, where it is kept by itself.
    pub(crate) fn save_status(&mut self) -> Result<(), Error> {
        self.storage.save_status(&self.record)
    }
}

impl SyncStorage for FolderStorage {
    fn read_plan(&self) -> Result<Option<Vec<u8>>, Error> {
        self.read_file("placements.yaml")
    }

    fn plan_location(&self) -> String {
        self.folder.join("placements.yaml").display().to_string()
    }

    fn write_plan(&mut self, text: &str) -> Result<(), Error> {
        self.replace_file("placements.yaml", text.as_bytes())
    }

    fn read_former_plan(&self, revision: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read_file(&format!("{FORMER_PREFIX}{revision}.yaml"))
    }

    fn keep_former_plan(&mut self, revision: &str) -> Result<(), Error> {
        let name = format!("{FORMER_PREFIX}{revision}.yaml");
        match (self.read_file(&name)?, self.read_plan()?) {
            (None, Some(previous)) => self.replace_file(&name, &previous),
            _ => Ok(()),
        }
    }

    fn forget_former_plans(&mut self, but: &BTreeSet<String>) -> Result<(), Error> {
        for entry in fs::read_dir(&self.folder).map_err(|why| Error::io(&self.folder, why))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let former = name.strip_prefix(FORMER_PREFIX).and_then(|rest| rest.strip_suffix(".yaml"));
            if former.is_some_and(|former| !but.contains(former)) {
                fs::remove_file(entry.path()).map_err(|why| Error::io(&self.folder, why))?;
            }
        }
        Ok(())
    }

    fn members_status(&self) -> Result<Option<Vec<u8>>, Error> {
        self.read_file(MEMBERS_FILE)
    }

    fn keep_members_status(&mut self, text: &str) -> Result<(), Error> {
        self.replace_file(MEMBERS_FILE, text.as_bytes())
    }

    fn save_record(&mut self, record: &SyncRecord) -> Result<(), Error> {
        let text = record.to_text();
        if text != self.written {
            self.replace_file("status.json", text.as_bytes())?;
            self.written = text;
        }
        Ok(())
    }
}

impl FolderStorage {
    fn read_file(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(Error::Io { path, why }),
            Ok(bytes) => Ok(Some(bytes)),
        }
    }

    fn replace_file(&self, name: &str, contents: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        write_durably(&self.folder, &path, contents).map_err(|why| Error::io(&path, why))
    }
}

/// Replaces a file of a folder in one step.
fn write_durably(folder: &Path, path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(folder)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The new name is durable when the folder is synced, too.
    File::open(folder)?.sync_all()
}
