//! The deletion of a Sync: of its objects in member clusters, and then of its finalizer. The record is not written: the
//! namespace may be going, and the plans of the Sync with it.

use std::time::{Duration, Instant};

use federate_kubernetes::display_text::escape_line;
use federate_kubernetes::finding::join_names;
use federate_repo::EmptyTree;
use federate_session::{Session, SessionOptions};
use federate_sync_api::stage::{DeletionEvent, SyncStage, finish_deletion};
use federate_sync_api::status::SyncReason;
use jiff::Timestamp;

use crate::hub::{self, EventType, HubClient};
use crate::outcome::SyncOutcome;
use crate::plan::sessions::SyncRuntime;
use crate::reconciliation::Reconciliation;
use crate::state::{Error as StateError, SyncState};

/// How soon a Sync is looked at again whose objects are still being deleted.
const DELETION_POLL_INTERVAL: Duration = Duration::from_secs(2);

impl Reconciliation<'_> {
    /// Removes the finalizer of the Sync, and leaves its objects.
    pub(crate) fn orphan_objects(&self, hub: Option<&HubClient>) -> Result<SyncOutcome, StateError> {
        let sync = &self.valid_sync.object;
        let why = if sync.deletes_objects() { "the Sync is suspended: " } else { "" };
        if let Some(hub) = hub {
            hub.remove_finalizer(&sync.metadata)?;
        }
        Ok(SyncOutcome::for_success(&format!("{why}the objects in member clusters stay where they are")))
    }

    /// Deletes the objects of the Sync, and removes its finalizer when they are gone.
    pub(crate) fn delete_sync(
        &self,
        state: &mut SyncState<'_>,
        runtime: &mut SyncRuntime,
        hub: Option<&HubClient>,
    ) -> Result<SyncOutcome, StateError> {
        let mut outcome = self.delete_managed(state);
        let Some(hub) = hub else { return Ok(outcome) };
        let event = match outcome.reason {
            SyncReason::ReconciliationSucceeded => DeletionEvent::Deleted,
            SyncReason::Progressing => DeletionEvent::Terminating,
            _ if self.lost_credentials(hub)? => DeletionEvent::CredentialsLost,
            _ => DeletionEvent::NotDeleted,
        };
        match event {
            DeletionEvent::Terminating => runtime.resume = Some(Instant::now() + DELETION_POLL_INTERVAL),
            // They went with the namespace, and do not come back.
            DeletionEvent::CredentialsLost => outcome = self.leave_objects(hub, state),
            DeletionEvent::Deleted | DeletionEvent::NotDeleted => {}
        }
        if finish_deletion(event) == SyncStage::Finalized {
            hub.remove_finalizer(&self.valid_sync.object.metadata)?;
        }
        Ok(outcome)
    }

    /// Deletes what the Sync manages in member clusters, and writes the outcome to its status.
    fn delete_managed(&self, state: &mut SyncState<'_>) -> SyncOutcome {
        let outcome = self.delete_all(state).unwrap_or_else(|stop| {
            let way_out = match stop.reason {
                SyncReason::Progressing => "",
                _ => "; `deletionPolicy: Orphan` leaves the objects where they are",
            };
            let message = stop.message + way_out;
            SyncOutcome { reason: stop.reason, message: escape_line(&message), drift: None }
        });
        state.record.status.set_outcome(outcome.reason, &outcome.message, Timestamp::now());
        match state.save_status() {
            Ok(()) => outcome,
            Err(error) => SyncOutcome::from_state_error(&error),
        }
    }

    /// Reports the clusters that can never be reached again, and keep the objects of the Sync.
    fn leave_objects(&self, hub: &HubClient, state: &mut SyncState<'_>) -> SyncOutcome {
        let scope = state.record.status.managed_scope.take().unwrap_or_default();
        let clusters: Vec<&str> = scope.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let message = format!(
            "the namespace was deleted with the credentials of the Sync: its objects stay in {}",
            join_names(&clusters, 20)
        );
        tracing::error!(sync = self.name(), "{message}");
        hub.report_event(self.valid_sync, EventType::Warning, "ObjectsLeftBehind", &message, None);
        SyncOutcome::for_success(&message)
    }

    /// Whether clusters can never be reached again, because the namespace with the credentials is being deleted.
    fn lost_credentials(&self, hub: &HubClient) -> Result<bool, hub::Error> {
        let nothing = Session::open(&EmptyTree, SessionOptions::new(self.env.dialects));
        let reaches = self.env.services.member_access(self.valid_sync, &nothing).is_ok();
        Ok(!reaches && hub.is_terminating(&self.valid_sync.object.metadata.namespace)?)
    }
}
