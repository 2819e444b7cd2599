//! The state folder of `--state`: what became of each Sync, the scheduler's memory, and the cache of its source.
//!
//! ```text
//! DIR/lock                                  held while a process works with the folder
//! DIR/<namespace>/<name>/status.json        what became of the Sync
//! DIR/<namespace>/<name>/placements.yaml    the scheduler's memory: the plan that was accepted last
//! DIR/<namespace>/<name>/git/               the cache of the source
//! ```
//!
//! Files are replaced in one step. A process that is killed leaves the old file or the new one, and the operating
//! system lets go of its lock.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use federate_dialect::Plan;
use federate_engine::previous;

use crate::api::{ApiVersion, Kind, Metadata, Sync};
use crate::status::Status;

/// The name of what is being written; what a killed process leaves of it is removed.
const HALF: &str = ".half-";

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
        "{}: the scheduler's memory cannot be read ({why}): restore the file, or remove it to schedule everything \
         anew", .path.display()
    )]
    Memory {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The state folder, held by this process.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    _lock: File,
}

/// The state of one Sync.
#[derive(Debug)]
pub struct SyncState {
    folder: PathBuf,
    /// What became of it.
    pub record: Record,
    /// As it is in the file.
    written: String,
}

/// What became of a Sync, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// `federate.dev/v1alpha1`
    pub api_version: ApiVersion,
    /// `Sync`
    pub kind: Kind,
    /// Which one.
    pub metadata: RecordMetadata,
    /// What became of it.
    pub status: Status,
    /// The digest of the spec.
    pub spec: String,
    /// What was accepted last, to know it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
}

/// The metadata of a Sync, with the number of its spec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordMetadata {
    /// Name and namespace.
    #[serde(flatten)]
    pub name: Metadata,
    /// It grows when the spec changes.
    pub generation: i64,
}

/// What was accepted: it passed all guards, and its plan is the scheduler's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Where the source was: a commit, a tag object, or the digest of a folder.
    pub tip: String,
    /// Where the branches are that were committed to.
    pub branches: BTreeMap<String, String>,
    /// Whether everything was carried out.
    pub done: bool,
}

impl Accepted {
    /// Whether everything was carried out, the source has not moved, and nor have the branches, as far as that is
    /// known.
    pub fn is_at(&self, tip: &str, branches: Option<&BTreeMap<String, String>>) -> bool {
        let stays = |(branch, commit): (&String, &String)| {
            branches.is_none_or(|branches| branches.get(branch) == Some(commit))
        };
        self.done && self.tip == tip && self.branches.iter().all(stays)
    }
}

impl StateFolder {
    /// Takes the folder for this process, making it first.
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

    /// The state of a Sync.
    pub fn of(&self, sync: &Sync) -> Result<SyncState, Error> {
        let folder = self.path.join(&sync.metadata.namespace).join(&sync.metadata.name);
        let failed = |why| Error::Io { path: folder.clone(), why };
        fs::create_dir_all(&folder).map_err(failed)?;
        for entry in fs::read_dir(&folder).map_err(failed)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(HALF) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        let spec = digest([serde_json::to_string(&sync.spec).unwrap_or_default().as_bytes()]);
        let written = fs::read_to_string(folder.join("status.json")).unwrap_or_default();
        // What cannot be read is found out again.
        let kept = serde_json::from_str(&written)
            .ok()
            .filter(|record: &Record| record.metadata.name == sync.metadata);
        let mut record = kept.unwrap_or_else(|| Record {
            api_version: ApiVersion::V1Alpha1,
            kind: Kind::Sync,
            metadata: RecordMetadata { name: sync.metadata.clone(), generation: 1 },
            status: Status::default(),
            spec: spec.clone(),
            accepted: None,
        });
        if record.spec != spec {
            record.spec = spec;
            record.metadata.generation += 1;
            // Another spec may want something else done with the same revision.
            if let Some(accepted) = &mut record.accepted {
                accepted.done = false;
            }
        }
        record.status.observed_generation = record.metadata.generation;
        Ok(SyncState { folder, record, written })
    }
}

impl SyncState {
    /// Where the source is fetched to.
    pub fn cache(&self) -> PathBuf {
        self.folder.join("git")
    }

    /// The scheduler's memory; `None` before the first round.
    pub fn memory(&self) -> Result<Option<Plan>, Error> {
        let path = self.folder.join("placements.yaml");
        let bytes = match fs::read(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(Error::Io { path, why }),
            Ok(bytes) => bytes,
        };
        let plan = previous::read_own(&bytes);
        plan.map(Some).map_err(|error| Error::Memory { path, why: error.to_string() })
    }

    /// Keeps a plan as the scheduler's memory.
    pub fn remember(&self, plan: &Plan) -> Result<(), Error> {
        self.replace("placements.yaml", previous::write(plan).as_bytes())
    }

    /// Writes what became of the Sync, if that is news.
    pub fn save(&mut self) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(&self.record).unwrap_or_default() + "\n";
        if text != self.written {
            self.replace("status.json", text.as_bytes())?;
            self.written = text;
        }
        Ok(())
    }

    fn replace(&self, name: &str, contents: &[u8]) -> Result<(), Error> {
        let path = self.folder.join(name);
        let write = || {
            let mut file = tempfile::Builder::new().prefix(HALF).tempfile_in(&self.folder)?;
            file.write_all(contents)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            // The name is as safe as the contents when the folder is written, too.
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|why| Error::Io { path: path.clone(), why })
    }
}

/// The digest of some texts, in hexadecimal.
pub fn digest<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut sha = Sha256::new();
    for text in texts {
        sha.update((text.len() as u64).to_be_bytes());
        sha.update(text);
    }
    sha.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
