//! Why something failed in a cluster.

use std::time::Duration;

use super::answer::StatusError;

/// Why something failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not known how to reach the cluster, or the cluster does not admit the user.
    #[error("{0}")]
    Access(String),
    /// There is no answer, or none that an API server would give.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// A time limit has passed.
    #[error("{0}")]
    TimedOut(String),
    /// The API server has accepted a request, and its effect does not show.
    #[error("{0}")]
    NoEffect(String),
    /// A request that is not sent, because it holds what SOPS encrypted.
    #[error(
        "it is not sent, because it holds a value that SOPS encrypted (`ENC[AES256_GCM,…]`), which nothing in the cluster decrypts; \
         keep the value in a file that SOPS encrypted, and decrypt it with `--decrypt sops`"
    )]
    Ciphertext,
    /// The API server refuses the request.
    #[error("{}", .0.message)]
    Refused(StatusError),
}

impl Error {
    /// Adds the number of attempts.
    pub(super) fn with_attempts(self, attempts: u32) -> Self {
        match self {
            Self::Access(_) | Self::TimedOut(_) | Self::NoEffect(_) | Self::Ciphertext => self,
            Self::Unreachable(why) => Self::Unreachable(format!("{why} ({attempts} attempts)")),
            Self::Refused(refusal) => Self::Refused(StatusError {
                message: format!("{} ({attempts} attempts)", refusal.message),
                ..refusal
            }),
        }
    }

    /// The error about a time limit for what is done in a cluster.
    pub(super) fn timed_out(time: Duration) -> Self {
        Self::TimedOut(format!("gave up after {} s (--timeout)", time.as_secs()))
    }

    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.is_conflict())
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.is_absent())
    }
}
