//! How often API servers have answered, by status code.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use http::StatusCode;

/// What an API server is asked as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerRole {
    /// The host of a control plane, or of Sync objects.
    Hub,
    /// A member cluster.
    Member,
}

/// Numbers of answers by status code. Code 0 stands for requests that were not answered.
pub type AnswersByCode = BTreeMap<(ServerRole, u16), u64>;

/// The numbers of answers since they were taken last.
#[derive(Debug, Default)]
pub struct AnswerCounts(Mutex<AnswersByCode>);

impl AnswerCounts {
    /// Notes an answer; `None` if there was none.
    pub fn count_answer(&self, server: ServerRole, code: Option<StatusCode>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((server, code.map_or(0, |code| code.as_u16()))).or_default() += 1;
    }

    /// Takes them.
    pub fn take_counts(&self) -> AnswersByCode {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
