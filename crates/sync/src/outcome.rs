//! How a round ends: with a reason and a message.

use federate_source::git::verify;
use federate_sync_api::status::Reason;

use crate::source::Error as SourceError;
use crate::state::Error as StateError;

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reason of the condition `Ready`.
    pub reason: Reason,
    /// Its message.
    pub message: String,
    /// What drifted in clusters and is left so.
    pub drift: Option<String>,
}

impl Outcome {
    /// The outcome of a round whose state cannot be read or written.
    pub(crate) fn failed(error: &StateError) -> Self {
        Self { reason: reason(error), message: plain(&error.to_string()), drift: None }
    }

    /// The outcome of a round that succeeded.
    pub(crate) fn done(message: &str) -> Self {
        Self { reason: Reason::ReconciliationSucceeded, message: message.to_owned(), drift: None }
    }

    /// Whether a rollout is under way.
    pub fn is_progressing(&self) -> bool {
        self.reason == Reason::Progressing
    }

    /// Whether it goes on by itself: a rollout or a deletion is under way, or another Sync is not ready yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_progressing() || self.reason == Reason::DependencyNotReady
    }

    /// Whether the round succeeded.
    pub fn is_ready(&self) -> bool {
        self.reason == Reason::ReconciliationSucceeded
    }
}

/// Why a round fails.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct RoundError {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl RoundError {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl From<StateError> for RoundError {
    fn from(error: StateError) -> Self {
        Self::new(reason(&error), error.to_string())
    }
}

/// An API server that does not answer may answer the next time; a damaged memory must be repaired by hand.
fn reason(error: &StateError) -> Reason {
    match error {
        StateError::Server(_) => Reason::ReconciliationFailed,
        StateError::Locked(_) | StateError::Io { .. } | StateError::Memory { .. } => Reason::StateFailed,
    }
}

impl From<SourceError> for RoundError {
    fn from(error: SourceError) -> Self {
        let reason = match &error {
            SourceError::Refused(
                verify::Refused::Program(_) | verify::Refused::Gpg(_) | verify::Refused::Folder(_),
            ) => Reason::GitOperationFailed,
            SourceError::Refused(_) => Reason::VerificationError,
            _ => Reason::GitOperationFailed,
        };
        Self::new(reason, error.to_string())
    }
}

/// A message on one line, without control characters.
pub(crate) fn plain(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
