//! Folders of a repo that are listed again and again. A few small git trees that hold each other several times stand for any number of
//! folders, whose entries would take as long and as much memory as different ones.

use std::collections::HashSet;

/// How many entries of folders that were listed before, under other paths, are listed again in any case.
const MIN_REPEATED: usize = 100_000;

/// How often the entries of folders are listed again, on average, where each folder is known by an id.
const MAX_REPETITIONS: usize = 16;

/// The entries of folders that are known by an id.
#[derive(Default)]
pub(crate) struct Repetitions {
    folders: HashSet<[u8; 20]>,
    /// The entries of all these folders.
    distinct: usize,
    /// The entries of folders that had been listed before.
    repeated: usize,
}

impl Repetitions {
    pub(crate) fn count_folder(&mut self, id: Option<[u8; 20]>, entries: usize) {
        match id {
            Some(id) if !self.folders.insert(id) => self.repeated += entries,
            _ => self.distinct += entries,
        }
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.repeated > MIN_REPEATED.saturating_add(self.distinct.saturating_mul(MAX_REPETITIONS))
    }
}
