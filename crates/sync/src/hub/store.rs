//! Status and memory of Syncs on the API server that holds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use federate_live::path::ApiPath;
use federate_sync_api::record::Record;
use federate_sync_api::stage::SyncStage;
use federate_sync_api::status::{Reason, Status};
use federate_sync_api::{ApiVersion, Kind, Meta, Metadata, Sync};
use http::Method;
use serde_json::{Value, json};

use super::client::JSON_PATCH;
use super::memory::{Memory, MemoryError};
use super::{Error, Hub, Invalid, release};
use crate::read::Loaded;
use crate::source::Address;
use crate::state::{Error as StateError, StateStore, Store, SyncState};

/// What the keys of the status of members start with. No revision has such a name.
const MEMBERS: &str = "members.";

/// The states of Syncs on an API server; caches are in a folder.
pub struct HubStateStore {
    hub: Arc<Hub>,
    caches: PathBuf,
}

struct HubStore<'h> {
    memory: Memory<'h>,
    path: ApiPath,
    written: Option<Status>,
}

impl From<Error> for StateError {
    fn from(error: Error) -> Self {
        Self::Server(error.to_string())
    }
}

/// The path of a Sync object.
pub(super) fn path(metadata: &Metadata) -> ApiPath {
    let syncs = ApiPath::of_version("federate.dev/v1alpha1").in_namespace(&metadata.namespace).join("syncs");
    syncs.join(&metadata.name)
}

impl HubStateStore {
    /// Keeps states on this API server, and caches in a folder.
    pub fn new(hub: Arc<Hub>, caches: PathBuf) -> Self {
        Self { hub, caches }
    }

    /// The Sync as it was carried out last, for an invalid object that is being deleted. One that was never carried out, or
    /// whose objects are to stay, is released. `None` if there is nothing to delete.
    pub(crate) fn last_valid(&self, invalid: &Invalid) -> Result<Option<Loaded>, Error> {
        let Some(object) = &invalid.deleting else { return Ok(None) };
        let meta = Meta::of(&object["metadata"]);
        let mut sync = Sync {
            api_version: ApiVersion::V1Alpha1,
            kind: Kind::Sync,
            metadata: invalid.metadata.clone(),
            // Only the names count until the record is read.
            spec: serde_json::from_value(json!({"source": {"url": ""}, "interval": "1m"}))
                .map_err(damaged)?,
            status: None,
            meta: Some(meta.clone()),
        };
        let mut record = Record::new(&sync, meta.generation, Status::default());
        if let Some(stored) = Memory::open(&self.hub, &sync)?.record() {
            record.restore(stored);
        }
        let stays = ["Orphan", ""].contains(&object["spec"]["deletionPolicy"].as_str().unwrap_or_default())
            || object["spec"]["suspend"] == true;
        let Some(spec) = record.valid_spec.filter(|_| !stays) else {
            tracing::info!(
                sync = invalid.metadata.full_name(),
                "the objects in member clusters stay where they are"
            );
            release(&self.hub, &invalid.metadata)?;
            return Ok(None);
        };
        tracing::info!(sync = invalid.metadata.full_name(), "deleting by the last valid spec");
        sync.spec = *spec;
        let policy = serde_json::from_value(object["spec"]["deletionPolicy"].clone());
        sync.spec.deletion_policy = policy.unwrap_or(sync.spec.deletion_policy);
        let address = Address::of(&sync.spec.source, Path::new("/")).map_err(damaged)?;
        Ok(Some(Loaded::new(sync, address)))
    }

    /// Writes to an object's status that it is invalid.
    pub(crate) fn refuse(&self, invalid: &Invalid) -> Result<(), Error> {
        let path = path(&invalid.metadata);
        let Some(object) = self.hub.find(&path)? else { return Ok(()) };
        let mut status = Status::read(&object["status"]);
        let before = status.clone();
        status.observed_generation = invalid.generation;
        status.end(Reason::InvalidSpec, &invalid.message, jiff::Timestamp::now());
        if status == before {
            return Ok(());
        }
        write(&self.hub, &path, &status, None)?;
        self.hub.report_invalid(invalid);
        Ok(())
    }
}

impl StateStore for HubStateStore {
    fn state<'s>(&'s self, loaded: &Loaded) -> Result<SyncState<'s>, StateError> {
        let sync: &Sync = &loaded.sync;
        let path = path(&sync.metadata);
        let object = self.hub.find(&path)?.unwrap_or_default();
        let mut status = Status::read(&object["status"]);
        let written = object["status"].is_object().then(|| status.clone());
        let memory = Memory::open(&self.hub, sync)?;
        let meta = sync.meta.clone().unwrap_or_default();
        status.last_handled_reconcile_at.clone_from(&meta.requested_at);
        let mut record = Record::new(sync, meta.generation, status);
        if let Some(stored) = memory.record() {
            record.restore(stored);
        }
        record.follow(sync, false);
        if record.accepted.is_some() && !memory.own {
            // The record of a former object of this name is written again, as this object's.
            record.enter_stage(SyncStage::Applying);
        }
        let cache = self.caches.join(&sync.metadata.namespace).join(&sync.metadata.name);
        Ok(SyncState::new(&cache, record, Box::new(HubStore { memory, path, written })))
    }
}

impl Store for HubStore<'_> {
    fn memory(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read("")
    }

    fn former(&self, revision: &str) -> Result<Option<Vec<u8>>, StateError> {
        self.read(&former(revision))
    }

    fn keep_former(&mut self, revision: &str) -> Result<(), StateError> {
        Ok(self.memory.copy(&former(revision))?)
    }

    fn forget_formers(&mut self, but: &BTreeSet<String>) -> Result<(), StateError> {
        let formers = but.iter().map(|revision| former(revision));
        Ok(self.memory.forget(&formers.chain([MEMBERS.to_owned()]).collect())?)
    }

    fn place(&self) -> String {
        self.memory.shown()
    }

    fn remember(&mut self, text: &str) -> Result<(), StateError> {
        Ok(self.memory.write("", text.as_bytes())?)
    }

    fn members_status(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read(MEMBERS)
    }

    fn keep_members_status(&mut self, text: &str) -> Result<(), StateError> {
        if !self.memory.own {
            // What is kept belongs to a former object of this name until the memory is written again.
            return Ok(());
        }
        Ok(self.memory.write(MEMBERS, text.as_bytes())?)
    }

    fn save(&mut self, record: &Record) -> Result<(), StateError> {
        self.memory.keep(&record.stored())?;
        self.save_status(record)
    }

    fn save_status(&mut self, record: &Record) -> Result<(), StateError> {
        if self.written.as_ref() != Some(&record.status) {
            self.write(record)?;
            self.written = Some(record.status.clone());
        }
        Ok(())
    }
}

impl HubStore<'_> {
    /// Writes the status, unless it says something about a newer spec already, such as that it is invalid.
    fn write(&self, record: &Record) -> Result<(), Error> {
        let hub = self.memory.hub;
        let known = self.written.as_ref().map(|status| status.observed_generation);
        match write(hub, &self.path, &record.status, known) {
            // A test of a patch that fails.
            Err(Error::Refused { code: 422, .. }) if known.is_some() => {}
            other => return other,
        }
        let object = hub.find(&self.path)?.unwrap_or_default();
        if Status::read(&object["status"]).observed_generation > record.status.observed_generation {
            return Ok(());
        }
        write(hub, &self.path, &record.status, None)
    }

    fn read(&self, slot: &str) -> Result<Option<Vec<u8>>, StateError> {
        self.memory.read(slot).map_err(|damage| match damage {
            MemoryError::Server(error) => error.into(),
            MemoryError::Contents(why) => StateError::Memory { place: self.memory.shown(), why },
        })
    }
}

/// What the keys of a former revision's plan start with.
fn former(revision: &str) -> String {
    format!("{revision}.")
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::Access(format!("the record of the Sync is damaged: {why}"))
}

/// Writes a status; if `known` is given, only where the status is still about that generation.
fn write(hub: &Hub, path: &ApiPath, status: &Status, known: Option<i64>) -> Result<(), Error> {
    let test = known.map(|known| json!({"op": "test", "path": "/status/observedGeneration", "value": known}));
    let write = json!({"op": "add", "path": "/status", "value": status.to_value()});
    let patch: Value = test.into_iter().chain([write]).collect();
    hub.send(&Method::PATCH, &path.clone().join("status"), JSON_PATCH, Some(&patch)).map(drop)
}
