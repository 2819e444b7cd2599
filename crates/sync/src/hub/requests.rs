//! What people ask of a Sync object: how it is, a reconciliation, a pause, a former revision, and answers to its rollout.

use federate_live::path::ApiPath;
use federate_sync_api::NamespacedName;
use federate_sync_api::progress::short_revision;
use federate_sync_api::status::{RolloutStatus, SyncStatus, find_commit};
use http::Method;
use serde_json::{Value, json};

use super::client::{not_served, sync_path};
use super::objects::load_object;
use super::{Error, HubClient, Tenancy};
use crate::sync_files::ValidSync;

const MERGE_PATCH: &str = "application/merge-patch+json";

/// What is asked of a Sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncOperation {
    /// A reconciliation, with the time of the request.
    Reconcile(String),
    /// A reconciliation that does not wait for a maintenance window, with the time of the request.
    ReconcileIgnoringWindows(String),
    /// That a suspended Sync carries out one commit, with the time of the request.
    Rollback {
        /// The commit.
        commit: String,
        /// The time.
        time: String,
    },
    /// No reconciliations from now on.
    Suspend,
    /// Reconciliations again.
    Resume,
    /// That the rollout goes on.
    Approve,
    /// That clusters return to their former revision.
    Abort,
}

impl HubClient {
    /// The Sync objects of a namespace, or of all.
    pub fn list_syncs(&self, namespace: Option<&str>) -> Result<Vec<Value>, Error> {
        let version = ApiPath::from_version("federate.dev/v1alpha1");
        let place = match namespace {
            Some(namespace) => version.in_namespace(namespace),
            None => version,
        };
        let list = self.find_object(&place.join("syncs"))?.ok_or_else(not_served)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// A Sync object; `None` if there is no such Sync.
    pub fn find_sync(&self, sync: &NamespacedName) -> Result<Option<Value>, Error> {
        self.find_object(&sync_path(sync))
    }

    /// A Sync as the loop reads it.
    pub fn load_sync(&self, sync: &NamespacedName, tenancy: &Tenancy) -> Result<ValidSync, String> {
        let object = self.find_sync(sync).map_err(|error| error.to_string())?;
        let read = object.as_ref().and_then(|object| load_object(object, tenancy));
        let read = read.ok_or_else(|| format!("there is no Sync {}", sync.full_name()))?;
        read.map_err(|invalid| invalid.message)
    }

    /// The status of a Sync; `None` if there is no such Sync.
    pub fn read_status(&self, sync: &NamespacedName) -> Result<Option<SyncStatus>, Error> {
        let Some(object) = self.find_object(&sync_path(sync))? else { return Ok(None) };
        Ok(Some(SyncStatus::parse(&object["status"])))
    }

    /// Whether a Sync is ready, as its status says about its present spec.
    pub(crate) fn is_ready(&self, sync: &NamespacedName) -> Result<bool, Error> {
        let Some(object) = self.find_object(&sync_path(sync))? else { return Ok(false) };
        let status = SyncStatus::parse(&object["status"]);
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        Ok(status.is_ready() && status.observed_generation == generation)
    }

    /// Asks something of a Sync. Returns an error message if that is not possible now.
    pub fn request_operation(
        &self,
        sync: &NamespacedName,
        request: &SyncOperation,
    ) -> Result<Result<(), String>, Error> {
        let Some(object) = self.find_object(&sync_path(sync))? else {
            return Ok(Err(format!("there is no Sync {}", sync.full_name())));
        };
        let status = SyncStatus::parse(&object["status"]);
        let asks_for_round =
            matches!(request, SyncOperation::Reconcile(_) | SyncOperation::ReconcileIgnoringWindows(_));
        if asks_for_round && object["spec"]["suspend"] == true {
            let name = sync.full_name();
            return Ok(Err(format!(
                "{name} is suspended, and is not reconciled: run `federate sync resume` first"
            )));
        }
        let rollout = status.rollout;
        let patch: Value = match request {
            SyncOperation::Reconcile(time) => annotate("federate.dev/requestedAt", time),
            SyncOperation::Suspend => json!({"spec": {"suspend": true}}),
            SyncOperation::ReconcileIgnoringWindows(time) => {
                let waiting = status.window.and_then(|window| window.waiting);
                let revision = waiting.or(status.last_attempted_revision).unwrap_or_default();
                json!({"metadata": {"annotations": {
                    "federate.dev/requestedAt": time,
                    "federate.dev/ignoreWindows": short_revision(find_commit(&revision)),
                }}})
            }
            SyncOperation::Rollback { commit, time } => json!({
                "metadata": {"annotations": {"federate.dev/requestedAt": time, "federate.dev/rollback": commit}},
                "spec": {"suspend": true},
            }),
            // The source counts again.
            SyncOperation::Resume => json!({
                "metadata": {"annotations": {"federate.dev/rollback": null}}, "spec": {"suspend": false},
            }),
            SyncOperation::Approve => match rollout.and_then(|rollout| rollout.approval) {
                Some(token) => annotate("federate.dev/approve", &token),
                None => return Ok(Err(format!("{} waits for no approval", sync.full_name()))),
            },
            SyncOperation::Abort => match rollout {
                Some(RolloutStatus { object: Some(object), .. }) => {
                    return Ok(Err(format!(
                        "{} rolls out what {object} asks for: stop or remove that in the repo",
                        sync.full_name()
                    )));
                }
                Some(rollout) => annotate("federate.dev/abort", short_revision(&rollout.revision)),
                None => return Ok(Err(format!("{} has no rollout under way", sync.full_name()))),
            },
        };
        self.send_request(&Method::PATCH, &sync_path(sync), MERGE_PATCH, Some(&patch))?;
        Ok(Ok(()))
    }
}

/// A patch that sets an annotation.
fn annotate(name: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {name: value}}})
}
