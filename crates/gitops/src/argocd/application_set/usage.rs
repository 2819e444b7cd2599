//! The work that the sets of a repo may take together.

use std::cell::{Cell, OnceCell};

use crate::description::DescriptionError;

use super::repo_paths::RepoPaths;

/// The most Applications of all sets.
pub(super) const MAX_APPLICATIONS: usize = 10_000;

/// The most work for the Applications of all sets: bytes of texts that are read or filled in, steps of templates, and comparisons of
/// characters of paths.
const MAX_WORK: usize = 64 << 20;

/// What the sets of a repo have taken so far, together: of two sets, each may be small, and of a thousand, none is alone.
#[derive(Debug, Default)]
pub struct GenerationUsage {
    work: Cell<usize>,
    applications: Cell<usize>,
    /// The folders and files of the repo, listed when the first generator reads them.
    pub(super) paths: OnceCell<RepoPaths>,
}

impl GenerationUsage {
    /// Counts work. The error says that it is too much.
    pub(super) fn charge_work(&self, amount: usize, at: &str) -> Result<(), DescriptionError> {
        let done = self.work.get().saturating_add(amount);
        self.work.set(done);
        if done <= MAX_WORK {
            return Ok(());
        }
        Err(DescriptionError::new(
            at,
            "the Applications of all ApplicationSets take too much work: generate fewer, or shorter ones",
        ))
    }

    /// The work that is left.
    pub(super) fn work_left(&self) -> usize {
        MAX_WORK.saturating_sub(self.work.get())
    }

    /// Counts Applications. The error says that they are too many.
    pub(super) fn charge_applications(&self, count: usize, at: &str) -> Result<(), DescriptionError> {
        let done = self.applications.get().saturating_add(count);
        self.applications.set(done);
        if done <= MAX_APPLICATIONS {
            return Ok(());
        }
        let why = format!("the ApplicationSets generate more than {MAX_APPLICATIONS} Applications together");
        Err(DescriptionError::new(at, why))
    }
}
