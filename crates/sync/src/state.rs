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

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use federate_dialect::{Plan, PolicyRollouts};
use federate_engine::previous;

use crate::api::{ApiVersion, Kind, Metadata, Reference, Sync};
use crate::read::Loaded;
use crate::rollout::progress::{ClusterRevisions, Progress};
use crate::status::Status;

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

    /// The status of the clusters that was published with the record. In a folder, nothing is published.
    fn planned_status(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Publishes the status of the clusters with the next record; none if there is no text.
    fn publish_status(&mut self, _: Option<&str>) -> Result<(), Error> {
        Ok(())
    }

    /// Writes the record, if it has changed.
    fn save(&mut self, record: &Record) -> Result<(), Error>;
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

/// The record of a Sync.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// `federate.dev/v1alpha1`
    pub api_version: ApiVersion,
    /// `Sync`
    pub kind: Kind,
    /// Which one.
    pub metadata: RecordMetadata,
    /// The status.
    pub status: Status,
    /// The digest of the spec.
    pub spec: String,
    /// The revision that was accepted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
    /// The rollout that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Progress>,
    /// The revisions that clusters have, if they are updated in stages.
    #[serde(default, skip_serializing_if = "ClusterRevisions::is_empty")]
    pub clusters: ClusterRevisions,
    /// What clusters have of policies that limit how they are updated.
    #[serde(default, skip_serializing_if = "PolicyRollouts::is_empty")]
    pub policies: PolicyRollouts,
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

/// A revision that was accepted: it passed all checks, and its plan is the scheduler's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Where the source was: a commit, a tag object, or the digest of a folder.
    pub tip: String,
    /// Where the branches are that were committed to.
    pub branches: BTreeMap<String, String>,
    /// Whether everything was carried out.
    pub done: bool,
    /// The clusters that are still to be brought to it; all of them if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<BTreeSet<String>>,
    /// The repository and the folder that clusters were brought to last. If another one follows, it takes the
    /// `ApplySet` over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The digest of what it renders, if clusters are updated in stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<String>,
    /// The digest of the status of the clusters by which it was planned, if the repo does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<String>,
    /// What several replicas carry out, if they share the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// What every replica carries out in its share of the clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// How often something was published.
    pub number: u64,
    /// The digest of the spec.
    pub spec: String,
    /// The digest of the number, the spec, the revision and what it renders.
    pub work: String,
    /// The reference of the revision; of a range of versions, the tag that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
}

impl Accepted {
    /// Whether the source has not moved, and its revision was carried out completely.
    pub fn is_at(&self, tip: &str, branches: Option<&BTreeMap<String, String>>) -> bool {
        self.done && self.is_for(tip, branches)
    }

    /// Whether neither the source nor the branches have moved, as far as that is known.
    pub fn is_for(&self, tip: &str, branches: Option<&BTreeMap<String, String>>) -> bool {
        let stays = |(branch, commit): (&String, &String)| {
            branches.is_none_or(|branches| branches.get(branch) == Some(commit))
        };
        self.tip == tip && self.branches.iter().all(stays)
    }
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
        let kept = serde_json::from_str(&written).ok();
        let kept = kept.filter(|record: &Record| record.metadata.name == sync.metadata);
        let mut record = kept.unwrap_or_else(|| Record::new(sync, 1, Status::default()));
        record.follow(sync, true);
        let store = FileStore { folder: folder.clone(), written };
        Ok(SyncState::new(&folder, record, Box::new(store)))
    }
}

/// The digest of a spec.
pub(crate) fn spec_digest(sync: &Sync) -> String {
    digest([serde_json::to_string(&sync.spec).unwrap_or_default().as_bytes()])
}

impl Record {
    /// The record of a Sync before its first round.
    pub(crate) fn new(sync: &Sync, generation: i64, status: Status) -> Self {
        Self {
            api_version: ApiVersion::V1Alpha1,
            kind: Kind::Sync,
            metadata: RecordMetadata { name: sync.metadata.clone(), generation },
            status,
            spec: spec_digest(sync),
            accepted: None,
            rollout: None,
            clusters: ClusterRevisions::new(),
            policies: PolicyRollouts::new(),
        }
    }

    /// The record of an invalid Sync.
    pub(crate) fn refused(metadata: &Metadata, generation: i64, status: Status) -> Self {
        Self {
            api_version: ApiVersion::V1Alpha1,
            kind: Kind::Sync,
            metadata: RecordMetadata { name: metadata.clone(), generation },
            status,
            spec: String::new(),
            accepted: None,
            rollout: None,
            clusters: ClusterRevisions::new(),
            policies: PolicyRollouts::new(),
        }
    }

    /// Notes whether the spec has changed; `counts` says whether generations are counted here.
    pub(crate) fn follow(&mut self, sync: &Sync, counts: bool) {
        let spec = spec_digest(sync);
        if self.spec != spec {
            self.spec = spec;
            self.metadata.generation += i64::from(counts);
            // Another spec may want something else done with the same revision.
            if let Some(accepted) = &mut self.accepted {
                (accepted.done, accepted.pending) = (false, None);
                for cluster in self.clusters.values_mut() {
                    cluster.stale |= cluster.revision.as_ref() == Some(&accepted.tip);
                }
            }
            if let Some(rollout) = &mut self.rollout {
                rollout.restarts = true;
            }
        }
        self.status.observed_generation = self.metadata.generation;
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

    /// The status of the clusters that was published with the record.
    pub(crate) fn planned_status(&self) -> Result<Option<Vec<u8>>, Error> {
        self.store.planned_status()
    }

    /// Publishes the status of the clusters with the next record; none if there is no text.
    pub(crate) fn publish_status(&mut self, text: Option<&str>) -> Result<(), Error> {
        self.store.publish_status(text)
    }

    /// Writes the record, if it has changed.
    pub fn save(&mut self) -> Result<(), Error> {
        self.store.save(&self.record)
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
        let text = serde_json::to_string_pretty(record).unwrap_or_default() + "\n";
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

/// The digest of some texts, in hexadecimal.
pub fn digest<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut sha = Sha256::new();
    for text in texts {
        sha.update((text.len() as u64).to_be_bytes());
        sha.update(text);
    }
    sha.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
