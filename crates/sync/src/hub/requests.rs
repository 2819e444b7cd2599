//! What people ask of a Sync object: a round, a pause, and answers to its rollout.

use federate_sync_api::Metadata;
use federate_sync_api::progress::short;
use federate_sync_api::status::{RolloutStatus, Status};
use http::Method;
use serde_json::{Value, json};

use super::store::path;
use super::{Error, Hub};

const MERGE_PATCH: &str = "application/merge-patch+json";

/// What is asked of a Sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A round, with the time of the request.
    Reconcile(String),
    /// No rounds from now on.
    Suspend,
    /// Rounds again.
    Resume,
    /// That the rollout goes on.
    Approve,
    /// That clusters return to their former revision.
    Abort,
}

impl Hub {
    /// The status of a Sync; `None` if there is no such Sync.
    pub fn status(&self, sync: &Metadata) -> Result<Option<Status>, Error> {
        let Some(object) = self.find(&path(sync))? else { return Ok(None) };
        Ok(Some(Status::read(&object["status"])))
    }

    /// Whether a Sync is ready, as its status says about its present spec.
    pub(crate) fn is_ready(&self, sync: &Metadata) -> Result<bool, Error> {
        let Some(object) = self.find(&path(sync))? else { return Ok(false) };
        let status = Status::read(&object["status"]);
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        Ok(status.is_ready() && status.observed_generation == generation)
    }

    /// Asks something of a Sync. Returns an error message if that is not possible now.
    pub fn request(&self, sync: &Metadata, request: &Request) -> Result<Result<(), String>, Error> {
        let Some(object) = self.find(&path(sync))? else {
            return Ok(Err(format!("there is no Sync {}", sync.full_name())));
        };
        let status = Status::read(&object["status"]);
        if matches!(request, Request::Reconcile(_)) && object["spec"]["suspend"] == true {
            let name = sync.full_name();
            return Ok(Err(format!(
                "{name} is suspended, and is not reconciled: run `federate sync resume` first"
            )));
        }
        let annotation = |name: &str, value: &str| json!({"metadata": {"annotations": {name: value}}});
        let rollout = status.rollout;
        let patch: Value = match request {
            Request::Reconcile(time) => annotation("federate.dev/requestedAt", time),
            Request::Suspend => json!({"spec": {"suspend": true}}),
            Request::Resume => json!({"spec": {"suspend": false}}),
            Request::Approve => match rollout.and_then(|rollout| rollout.approval) {
                Some(token) => annotation("federate.dev/approve", &token),
                None => return Ok(Err(format!("{} waits for no approval", sync.full_name()))),
            },
            Request::Abort => match rollout {
                Some(RolloutStatus { object: Some(object), .. }) => {
                    return Ok(Err(format!(
                        "{} rolls out what {object} asks for: stop or remove that in the repo",
                        sync.full_name()
                    )));
                }
                Some(rollout) => annotation("federate.dev/abort", short(&rollout.revision)),
                None => return Ok(Err(format!("{} has no rollout under way", sync.full_name()))),
            },
        };
        self.send(&Method::PATCH, &path(sync), MERGE_PATCH, Some(&patch))?;
        Ok(Ok(()))
    }
}
