//! The state folder of `--state`: the record of each Sync, the scheduler's memory, and the cache of its source.
//!
//! ```text
//! DIR/lock                                  held while a process works with the folder
//! DIR/<namespace>/<name>/status.json        the status of the Sync
//! DIR/<namespace>/<name>/placements.yaml    the scheduler's memory: the plan that was accepted last
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
use federate_sync_api::record::Record;
use federate_sync_api::status::Status;

use crate::read::Loaded;

/// How the names of files start that are being written. Those of killed processes are removed.
const HALF: &str = ".half-";
/// How the names of files with the plans of former revisions start.
const FORMER: &str = "placements-";
/// The name of the file with the last status of members.
const MEMBERS: &str = "members.json";

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
    /// The memory is damaged.
    #[error(
        "{place}: the scheduler's memory cannot be read ({why}): restore it, or remove it to schedule everything again"
    )]
    Memory {
        /// The file or object.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The API server that holds the Syncs.
    #[error("{0}")]
    Server(String),
}

/// The state folder, held by this process.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    _lock: File,
}

/// Where states are kept.
pub(crate) trait StateStore: std::marker::Sync {
    /// The state of a Sync.
    fn state<'s>(&'s self, loaded: &Loaded) -> Result<SyncState<'s>, Error>;
}

/// Where the state of one Sync is kept.
pub(crate) trait Store {
    /// The scheduler's memory; `None` before the first round.
    fn memory(&self) -> Result<Option<Vec<u8>>, Error>;

    /// The place of the memory, for messages.
    fn place(&self) -> String;

    /// Keeps a plan as the scheduler's memory.
    fn remember(&mut self, text: &str) -> Result<(), Error>;

    /// The plan of a former revision.
    fn former(&self, revision: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Keeps the scheduler's memory as the plan of a former revision, unless that revision has one.
    fn keep_former(&mut self, revision: &str) -> Result<(), Error>;

    /// Removes the plans of all former revisions but some.
    fn forget_formers(&mut self, but: &BTreeSet<String>) -> Result<(), Error>;

    /// The last status of members.
    fn members_status(&self) -> Result<Option<Vec<u8>>, Error>;

    /// Keeps the last status of members.
    fn keep_members_status(&mut self, text: &str) -> Result<(), Error>;

    /// Writes the record, if it has changed.
    fn save(&mut self, record: &Record) -> Result<(), Error>;

    /// Writes only the status of the record, where it is kept by itself.
    fn save_status(&mut self, record: &Record) -> Result<(), Error> {
        self.save(record)
    }
}

/// The state of one Sync.
pub struct SyncState<'s> {
    cache: PathBuf,
    /// Its record.
    pub record: Record,
    store: Box<dyn Store + 's>,
}

/// The state of a Sync in a folder.
struct FileStore {
    folder: PathBuf,
    /// The record as it is in the file.
    written: String,
}

impl StateFolder {
    /// Opens the folder for this process, and creates it if necessary.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |why| Error::Io { path: path.to_owned(), why };
        fs::create_dir_all(path).map_err(failed)?;
        let path = fs::canonicalize(path).map_err(failed)?;
        let lock =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join("lock"));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked(path)),
            Err(TryLockError::Error(why)) => Err(failed(why)),
        }
    }
}

impl StateStore for StateFolder {
    fn state<'s>(&'s self, loaded: &Loaded) -> Result<SyncState<'s>, Error> {
        let sync = &loaded.sync;
        let folder = self.path.join(&sync.metadata.namespace).join(&sync.metadata.name);
        let failed = |why| Error::Io { path: folder.clone(), why };
        fs::create_dir_all(&folder).map_err(failed)?;
        for entry in fs::read_dir(&folder).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(HALF) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        let written = fs::read_to_string(folder.join("status.json")).unwrap_or_default();
        // A record that cannot be read is written again.
        let kept = Record::read(&written).filter(|record| record.metadata.name == sync.metadata);
        let mut record = kept.unwrap_or_else(|| Record::new(sync, 1, Status::default()));
        record.follow(sync, true);
        let store = FileStore { folder: folder.clone(), written };
        Ok(SyncState::new(&folder, record, Box::new(store)))
    }
}

impl<'s> SyncState<'s> {
    pub(crate) fn new(folder: &Path, record: Record, store: Box<dyn Store + 's>) -> Self {
        Self { cache: folder.join("git"), record, store }
    }

    /// Where the source is fetched to.
    pub fn cache(&self) -> PathBuf {
        self.cache.clone()
    }

    /// The scheduler's memory; `None` before the first round.
    pub fn memory(&self) -> Result<Option<Plan>, Error> {
        let Some(bytes) = self.store.memory()? else { return Ok(None) };
        let wrong = |why: String| Error::Memory { place: self.store.place(), why };
        previous::read_own(&bytes).map(Some).map_err(|error| wrong(error.to_string()))
    }

    /// The plan of a former revision that clusters may still have.
    pub fn former(&self, revision: &str) -> Result<Option<Plan>, Error> {
        let Some(bytes) = self.store.former(revision)? else { return Ok(None) };
        let place = format!("{}, revision {revision}", self.store.place());
        let wrong = |why: String| Error::Memory { place, why };
        previous::read_own(&bytes).map(Some).map_err(|error| wrong(error.to_string()))
    }

    /// Keeps the scheduler's memory as the plan of a former revision.
    pub fn keep_former(&mut self, revision: &str) -> Result<(), Error> {
        self.store.keep_former(revision)
    }

    /// Removes the plans of all former revisions but some.
    pub fn forget_formers(&mut self, but: &BTreeSet<String>) -> Result<(), Error> {
        self.store.forget_formers(but)
    }

    /// Keeps a plan as the scheduler's memory.
    pub fn remember(&mut self, plan: &Plan) -> Result<(), Error> {
        self.store.remember(&previous::write(plan))
    }

    /// The last status of members.
    pub(crate) fn members_status(&self) -> Result<Option<Vec<u8>>, Error> {
        self.store.members_status()
    }

    /// Keeps the last status of members.
    pub(crate) fn keep_members_status(&mut self, text: &str) -> Result<(), Error> {
        self.store.keep_members_status(text)
    }

    /// Writes the record, if it has changed.
    pub fn save(&mut self) -> Result<(), Error> {
        self.store.save(&self.record)
    }

    /// Writes only the status of the record, where it is kept by itself.
    pub(crate) fn save_status(&mut self) -> Result<(), Error> {
        self.store.save_status(&self.record)
    }
}

impl Store for FileStore {
    fn memory(&self) -> Result<Option<Vec<u8>>, Error> {
        self.read("placements.yaml")
    }

    fn place(&self) -> String {
        self.folder.join("placements.yaml").display().to_string()
    }

    fn remember(&mut self, text: &str) -> Result<(), Error> {
        self.replace("placements.yaml", text.as_bytes())
    }

    fn former(&self, revision: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read(&format!("{FORMER}{revision}.yaml"))
    }

    fn keep_former(&mut self, revision: &str) -> Result<(), Error> {
        let name = format!("{FORMER}{revision}.yaml");
        match (self.read(&name)?, self.memory()?) {
            (None, Some(memory)) => self.replace(&name, &memory),
            _ => Ok(()),
        }
    }

    fn forget_formers(&mut self, but: &BTreeSet<String>) -> Result<(), Error> {
        let failed = |why| Error::Io { path: self.folder.clone(), why };
        for entry in fs::read_dir(&self.folder).map_err(failed)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let former = name.strip_prefix(FORMER).and_then(|rest| rest.strip_suffix(".yaml"));
            if former.is_some_and(|former| !but.contains(former)) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn members_status(&self) -> Result<Option<Vec<u8>>, Error> {
        self.read(MEMBERS)
    }

    fn keep_members_status(&mut self, text: &str) -> Result<(), Error> {
        self.replace(MEMBERS, text.as_bytes())
    }

    fn save(&mut self, record: &Record) -> Result<(), Error> {
        let text = record.to_text();
        if text != self.written {
            self.replace("status.json", text.as_bytes())?;
            self.written = text;
        }
        Ok(())
    }
}

impl FileStore {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(Error::Io { path, why }),
            Ok(bytes) => Ok(Some(bytes)),
        }
    }

    fn replace(&self, name: &str, contents: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        let write = || {
            let mut file = tempfile::Builder::new().prefix(HALF).tempfile_in(&self.folder)?;
            file.write_all(contents)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            // The new name is durable when the folder is synced, too.
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|why| Error::Io { path: path.clone(), why })
    }
}
