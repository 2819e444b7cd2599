//! How often API servers have answered, by status code.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use http::StatusCode;

/// The numbers of answers by status code, since they were taken last. Code 0 stands for requests that were not answered.
#[derive(Debug, Default)]
pub struct AnswerCounts(Mutex<BTreeMap<u16, u64>>);

impl AnswerCounts {
    pub(crate) fn note(&self, code: Option<StatusCode>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(code.map_or(0, |code| code.as_u16())).or_default() += 1;
    }

    /// Takes them.
    pub fn take(&self) -> BTreeMap<u16, u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
