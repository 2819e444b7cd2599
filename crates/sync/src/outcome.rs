//! How a reconciliation ends: with a reason and a message.

use federate_kubernetes::display_text::escape_line;
use federate_source::git::verify;
use federate_sync_api::status::SyncReason;

use crate::source::Error as SourceError;
use crate::state::Error as StateError;

/// How a reconciliation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncOutcome {
    /// The reason of the condition `Ready`.
    pub reason: SyncReason,
    /// Its message.
    pub message: String,
    /// What drifted in clusters and is left so.
    pub drift: Option<String>,
}

impl SyncOutcome {
    /// The outcome of a reconciliation whose state cannot be read or written.
    pub(crate) fn from_state_error(error: &StateError) -> Self {
        Self { reason: classify_error(error), message: escape_line(&error.to_string()), drift: None }
    }

    /// The outcome of a reconciliation that succeeded.
    pub(crate) fn for_success(message: &str) -> Self {
        Self { reason: SyncReason::ReconciliationSucceeded, message: message.to_owned(), drift: None }
    }

    /// The outcome of a reconciliation that goes on later.
    pub(crate) fn for_progress(message: String) -> Self {
        Self { reason: SyncReason::Progressing, message, drift: None }
    }

    /// Whether a rollout is under way.
    pub fn is_progressing(&self) -> bool {
        self.reason == SyncReason::Progressing
    }

    /// Whether it goes on by itself: a rollout or a deletion is under way, or another Sync is not ready yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_progressing() || self.reason == SyncReason::DependencyNotReady
    }

    /// Whether the reconciliation succeeded.
    pub fn is_ready(&self) -> bool {
        self.reason == SyncReason::ReconciliationSucceeded
    }
}

/// Why a reconciliation fails.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ReconcileError {
    pub(crate) reason: SyncReason,
    pub(crate) message: String,
}

impl ReconcileError {
    pub(crate) fn new(reason: SyncReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The outcome of the reconciliation.
    pub(crate) fn into_outcome(self) -> SyncOutcome {
        SyncOutcome { reason: self.reason, message: escape_line(&self.message), drift: None }
    }

    /// The reconciliation failed for a reason that is not one of the revision.
    #[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
    pub(crate) fn failed(why: impl ToString) -> Self {
        Self::new(SyncReason::ReconciliationFailed, why.to_string())
    }
}

impl From<StateError> for ReconcileError {
    fn from(error: StateError) -> Self {
        Self::new(classify_error(&error), error.to_string())
    }
}

/// An API server that does not answer may answer the next time; a damaged plan must be repaired by hand.
fn classify_error(error: &StateError) -> SyncReason {
    match error {
        StateError::Server(_) => SyncReason::ReconciliationFailed,
        StateError::Locked(_) | StateError::Io { .. } | StateError::Plan { .. } => SyncReason::StateFailed,
    }
}

impl From<SourceError> for ReconcileError {
    fn from(error: SourceError) -> Self {
        let reason = match &error {
            SourceError::Refused(
                verify::VerifyError::Program(_)
                | verify::VerifyError::Gpg(_)
                | verify::VerifyError::Folder(_),
            ) => SyncReason::GitOperationFailed,
            SourceError::Refused(_) => SyncReason::VerificationError,
            _ => SyncReason::GitOperationFailed,
        };
        Self::new(reason, error.to_string())
    }
}
