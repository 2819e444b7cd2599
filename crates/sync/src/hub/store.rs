//! Status and plans of Syncs on the API server that holds them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use federate_live::path::ApiPath;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::stage::SyncStage;
use federate_sync_api::status::{SyncReason, SyncStatus};
use federate_sync_api::{NamespacedName, Sync, SyncApiVersion, SyncKind, SyncMetadata};
use http::Method;
use serde_json::{Value, json};

use super::client::{JSON_PATCH, sync_path};
use super::record_store::{RecordStore, RecordStoreError};
use super::{Error, HubClient, InvalidSync, Tenancy, read_sync};
use crate::state::{Error as StateError, SyncState, SyncStates, SyncStorage};
use crate::sync_files::ValidSync;

/// What the keys of the status of members start with. No revision has such a name.
const MEMBERS_PREFIX: &str = "members.";

/// The states of Syncs on an API server; caches are in a folder.
pub struct HubStates {
    hub: Arc<HubClient>,
    caches: PathBuf,
}

/// The storage of a Sync on the API server.
struct HubStorage<'h> {
    store: RecordStore<'h>,
    path: ApiPath,
    written: Option<SyncStatus>,
}

impl From<Error> for StateError {
    fn from(error: Error) -> Self {
        Self::Server(error.to_string())
    }
}

impl HubStates {
    /// Keeps states on this API server, and caches in a folder.
    pub fn new(hub: Arc<HubClient>, caches: PathBuf) -> Self {
        Self { hub, caches }
    }

    /// Restores the Sync as it was carried out last, for an invalid object that is being deleted. One that was never carried out, or
    /// whose objects are to stay, loses its finalizer. `None` if there is nothing to delete.
    ///
    /// The record is an object of the Sync's namespace, which others may write than those who write Syncs: its spec may ask for what
    /// the operator permits, and nothing else.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or its spec is not permitted.
    pub(crate) fn restore_valid(
        &self,
        invalid: &InvalidSync,
        tenancy: &Tenancy,
    ) -> Result<Option<ValidSync>, Error> {
        let Some(object) = &invalid.deleting else { return Ok(None) };
        let meta = SyncMetadata::from_value(&object["metadata"]);
        let sync = Sync {
            api_version: SyncApiVersion::V1Alpha1,
            kind: SyncKind::Sync,
            metadata: invalid.metadata.clone(),
            // Only the names count until the record is read.
            spec: serde_json::from_value(json!({"source": {"url": ""}, "interval": "1m"}))
                .map_err(damaged_record)?,
            status: None,
            server_metadata: meta.clone(),
        };
        let mut record = SyncRecord::new(&sync, meta.generation, SyncStatus::default());
        if let Some(stored) = RecordStore::open(&self.hub, &sync)?.record() {
            record.restore_stored(stored);
        }
        let stays = ["Orphan", ""].contains(&object["spec"]["deletionPolicy"].as_str().unwrap_or_default())
            || object["spec"]["suspend"] == true;
        let Some(mut spec) = record.valid_spec.filter(|_| !stays) else {
            tracing::info!(
                sync = invalid.metadata.full_name(),
                "the objects in member clusters stay where they are"
            );
            self.hub.remove_finalizer(&invalid.metadata)?;
            return Ok(None);
        };
        let policy = serde_json::from_value(object["spec"]["deletionPolicy"].clone());
        spec.deletion_policy = policy.unwrap_or(spec.deletion_policy);
        let mut recorded = object.clone();
        recorded["spec"] = serde_json::to_value(spec).map_err(damaged_record)?;
        let valid_sync = read_sync(&recorded, tenancy).map_err(Error::NotPermitted)?;
        tracing::info!(sync = invalid.metadata.full_name(), "deleting by the last valid spec");
        Ok(Some(valid_sync))
    }

    /// Lets a Sync go that is being deleted.
    pub(crate) fn remove_finalizer(&self, sync: &NamespacedName) -> Result<(), Error> {
        self.hub.remove_finalizer(sync)
    }

    /// Writes to an object's status that it is invalid.
    pub(crate) fn mark_invalid(&self, invalid: &InvalidSync) -> Result<(), Error> {
        let path = sync_path(&invalid.metadata);
        let Some(object) = self.hub.find_object(&path)? else { return Ok(()) };
        let mut status = SyncStatus::parse(&object["status"]);
        let before = status.clone();
        status.observed_generation = invalid.generation;
        status.set_outcome(SyncReason::InvalidSpec, &invalid.message, jiff::Timestamp::now());
        if status == before {
            return Ok(());
        }
        patch_status(&self.hub, &path, &status, None)?;
        self.hub.report_invalid(invalid);
        Ok(())
    }
}

impl SyncStates for HubStates {
    fn open_state<'s>(&'s self, valid_sync: &ValidSync) -> Result<SyncState<'s>, StateError> {
        let sync: &Sync = &valid_sync.object;
        let path = sync_path(&sync.metadata);
        let object = self.hub.find_object(&path)?.unwrap_or_default();
        let mut status = SyncStatus::parse(&object["status"]);
        let written = object["status"].is_object().then(|| status.clone());
        let store = RecordStore::open(&self.hub, sync)?;
        let meta = sync.server_metadata.clone();
        status.last_handled_reconcile_at.clone_from(&meta.requested_at);
        let mut record = SyncRecord::new(sync, meta.generation, status);
        if let Some(stored) = store.record() {
            record.restore_stored(stored);
        }
        record.follow_spec(sync, false);
        if record.accepted.is_some() && !store.own {
            // The record of a former object of this name is written again, as this object's.
            record.enter_stage(SyncStage::Applying);
        }
        let cache = self.caches.join(&sync.metadata.namespace).join(&sync.metadata.name);
        Ok(SyncState::new(&cache, record, Box::new(HubStorage { store, path, written })))
    }
}

impl SyncStorage for HubStorage<'_> {
    fn read_plan(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read_slot("")
    }

    fn read_former_plan(&self, revision: &str) -> Result<Option<Vec<u8>>, StateError> {
        self.read_slot(&former_prefix(revision))
    }

    fn keep_former_plan(&mut self, revision: &str) -> Result<(), StateError> {
        Ok(self.store.keep_as_former(&former_prefix(revision))?)
    }

    fn forget_former_plans(&mut self, but: &BTreeSet<String>) -> Result<(), StateError> {
        let formers = but.iter().map(|revision| former_prefix(revision));
        Ok(self.store.retain_formers(&formers.chain([MEMBERS_PREFIX.to_owned()]).collect())?)
    }

    fn plan_location(&self) -> String {
        self.store.display_name()
    }

    fn write_plan(&mut self, text: &str) -> Result<(), StateError> {
        Ok(self.store.write_contents("", text.as_bytes())?)
    }

    fn members_status(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.read_slot(MEMBERS_PREFIX)
    }

    fn keep_members_status(&mut self, text: &str) -> Result<(), StateError> {
        if !self.store.own {
            // What is kept belongs to a former object of this name until the previous plan is written again.
            return Ok(());
        }
        Ok(self.store.write_contents(MEMBERS_PREFIX, text.as_bytes())?)
    }

    fn save_record(&mut self, record: &SyncRecord) -> Result<(), StateError> {
        self.store.write_record(&record.to_stored())?;
        self.save_status(record)
    }

    fn save_status(&mut self, record: &SyncRecord) -> Result<(), StateError> {
        if self.written.as_ref() != Some(&record.status) {
            self.write_status(record)?;
            self.written = Some(record.status.clone());
        }
        Ok(())
    }
}

impl HubStorage<'_> {
    /// Writes the status, unless it says something about a newer spec already, such as that it is invalid.
    fn write_status(&self, record: &SyncRecord) -> Result<(), Error> {
        let hub = self.store.hub;
        let known = self.written.as_ref().map(|status| status.observed_generation);
        match patch_status(hub, &self.path, &record.status, known) {
            // A test of a patch that fails.
            Err(Error::Refused { code: 422, .. }) if known.is_some() => {}
            other => return other,
        }
        let object = hub.find_object(&self.path)?.unwrap_or_default();
        if SyncStatus::parse(&object["status"]).observed_generation > record.status.observed_generation {
            return Ok(());
        }
        patch_status(hub, &self.path, &record.status, None)
    }

    fn read_slot(&self, slot: &str) -> Result<Option<Vec<u8>>, StateError> {
        self.store.read_contents(slot).map_err(|damage| match damage {
            RecordStoreError::Server(error) => error.into(),
            RecordStoreError::Contents(why) => StateError::Plan { place: self.store.display_name(), why },
        })
    }
}

/// What the keys of a former revision's plan start with.
fn former_prefix(revision: &str) -> String {
    format!("{revision}.")
}

fn damaged_record(why: impl std::fmt::Display) -> Error {
    Error::Access(format!("the record of the Sync is damaged: {why}"))
}

/// Writes a status; if `known` is given, only where the status is still about that generation.
fn patch_status(
    hub: &HubClient,
    path: &ApiPath,
    status: &SyncStatus,
    known: Option<i64>,
) -> Result<(), Error> {
    let test = known.map(|known| json!({"op": "test", "path": "/status/observedGeneration", "value": known}));
    let write = json!({"op": "add", "path": "/status", "value": status.to_value()});
    let patch: Value = test.into_iter().chain([write]).collect();
    hub.send_request(&Method::PATCH, &path.clone().join("status"), JSON_PATCH, Some(&patch)).map(drop)
}
