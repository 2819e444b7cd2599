//! How a round ends: as it should, or before that, with a reason and a sentence.

use federate_source::git::verify;

use crate::source::Error as SourceError;
use crate::state::Error as StateError;
use crate::status::Reason;

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// In a word.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
    /// Whether clusters differ from what is rendered, and are left so.
    pub drifted: bool,
}

impl Outcome {
    /// A round whose state cannot be read or written.
    pub(crate) fn failed(error: &StateError) -> Self {
        Self { reason: reason(error), message: plain(&error.to_string()), drifted: false }
    }

    /// A round that had nothing to do.
    pub(crate) fn done(message: &str) -> Self {
        Self { reason: Reason::ReconciliationSucceeded, message: message.to_owned(), drifted: false }
    }

    /// Whether all went well.
    pub fn is_ready(&self) -> bool {
        self.reason == Reason::ReconciliationSucceeded
    }
}

/// Why a round ends before its end.
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

/// An API server that does not answer may do so the next time; a damaged memory is for somebody to mend.
fn reason(error: &StateError) -> Reason {
    match error {
        StateError::Server(_) => Reason::ReconciliationFailed,
        StateError::Locked(_) | StateError::Io { .. } | StateError::Memory { .. } => Reason::StateFailed,
    }
}

impl From<SourceError> for RoundError {
    fn from(error: SourceError) -> Self {
        let reason = match &error {
            SourceError::Refused(verify::Refused::Program(_)) => Reason::GitOperationFailed,
            SourceError::Refused(_) => Reason::VerificationError,
            _ => Reason::GitOperationFailed,
        };
        Self::new(reason, error.to_string())
    }
}

/// On one line, and without what commands a terminal.
pub(crate) fn plain(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
