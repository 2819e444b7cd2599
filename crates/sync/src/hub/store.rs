//! Status and memory of Syncs on the API server that holds them.

use std::path::PathBuf;
use std::sync::Arc;

use http::Method;
use serde_json::json;

use super::client::JSON_PATCH;
use super::memory::{Memory, MemoryError};
use super::{Error, Hub, Invalid};
use crate::api::{Metadata, Sync};
use crate::read::Loaded;
use crate::state::{Accepted, Error as StateError, Record, States, Store, SyncState, spec_digest};
use crate::status::{Reason, Status};

/// The states of Syncs on an API server; caches are in a folder.
pub struct HubStates {
    hub: Arc<Hub>,
    caches: PathBuf,
}

/// What is kept beside the memory.
#[derive(serde::Serialize, serde::Deserialize)]
struct Kept {
    spec: String,
    accepted: Option<Accepted>,
}

struct HubStore<'h> {
    memory: Memory<'h>,
    path: String,
    written: Option<Status>,
}

impl From<Error> for StateError {
    fn from(error: Error) -> Self {
        Self::Server(error.to_string())
    }
}

/// The path of a Sync object.
pub(super) fn path(metadata: &Metadata) -> String {
    format!("/apis/federate.dev/v1alpha1/namespaces/{}/syncs/{}", metadata.namespace, metadata.name)
}

impl HubStates {
    /// States on this API server, with caches in a folder.
    pub fn new(hub: Arc<Hub>, caches: PathBuf) -> Self {
        Self { hub, caches }
    }

    /// Says in an object's status that it cannot be carried out.
    pub(crate) fn refuse(&self, invalid: &Invalid) -> Result<(), Error> {
        let path = path(&invalid.metadata);
        let Some(object) = self.hub.find(&path)? else { return Ok(()) };
        let mut status: Status = serde_json::from_value(object["status"].clone()).unwrap_or_default();
        let before = status.clone();
        status.observed_generation = invalid.generation;
        status.end(Reason::InvalidSpec, &invalid.message, jiff::Timestamp::now());
        if status == before { Ok(()) } else { write(&self.hub, &path, &status) }
    }
}

impl States for HubStates {
    fn state<'s>(&'s self, loaded: &Loaded) -> Result<SyncState<'s>, StateError> {
        let sync: &Sync = &loaded.sync;
        let path = path(&sync.metadata);
        let object = self.hub.find(&path)?.unwrap_or_default();
        let mut status: Status = serde_json::from_value(object["status"].clone()).unwrap_or_default();
        let written = object["status"].is_object().then(|| status.clone());
        let memory = Memory::open(&self.hub, sync)?;
        let meta = sync.meta.clone().unwrap_or_default();
        status.last_handled_reconcile_at.clone_from(&meta.requested_at);
        let kept: Option<Kept> = memory.record().and_then(|text| serde_json::from_str(text).ok());
        let (spec, accepted) = kept.map_or((spec_digest(sync), None), |kept| (kept.spec, kept.accepted));
        let mut record = Record::new(sync, meta.generation, status);
        (record.spec, record.accepted) = (spec, accepted);
        record.follow(sync, false);
        if let Some(accepted) = record.accepted.as_mut().filter(|_| !memory.own) {
            // It is taken over with everything that it says, by writing it anew.
            (accepted.done, accepted.pending) = (false, None);
        }
        let cache = self.caches.join(&sync.metadata.namespace).join(&sync.metadata.name);
        Ok(SyncState::new(&cache, record, Box::new(HubStore { memory, path, written })))
    }
}

impl Store for HubStore<'_> {
    fn memory(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.memory.read().map_err(|damage| match damage {
            MemoryError::Server(error) => error.into(),
            MemoryError::Contents(why) => StateError::Memory { place: self.memory.shown(), why },
        })
    }

    fn place(&self) -> String {
        self.memory.shown()
    }

    fn remember(&mut self, text: &str) -> Result<(), StateError> {
        Ok(self.memory.write(text.as_bytes())?)
    }

    fn save(&mut self, record: &Record) -> Result<(), StateError> {
        let kept = Kept { spec: record.spec.clone(), accepted: record.accepted.clone() };
        self.memory.keep(&serde_json::to_string(&kept).unwrap_or_default())?;
        if self.written.as_ref() != Some(&record.status) {
            write(self.memory.hub, &self.path, &record.status)?;
            self.written = Some(record.status.clone());
        }
        Ok(())
    }
}

fn write(hub: &Hub, path: &str, status: &Status) -> Result<(), Error> {
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    hub.send(&Method::PATCH, &format!("{path}/status"), JSON_PATCH, Some(&patch)).map(drop)
}
