//! A source of which a run lists only so much as its limit of work allows.

use std::sync::atomic::{AtomicU64, Ordering};

use federate_engine::{StepAllowance, TooMuchWork, WorkLimit};
use federate_kubernetes::Finding;
use federate_repo::FileTree;
use federate_repo::file_tree::{TreeEntry, TreeError};

/// The entries that every run may list.
const FREE_ENTRIES: u64 = 1_000;
/// The steps of each of the others.
const STEPS_PER_ENTRY: u64 = 100;

/// A source whose listed entries count.
pub(crate) struct LimitedTree<'s> {
    source: &'s dyn FileTree,
    limit: Option<WorkLimit>,
    listed: AtomicU64,
}

impl<'s> LimitedTree<'s> {
    /// Counts against a limit that does not depend on the size of the repo, which is not known yet.
    pub(crate) fn new(source: &'s dyn FileTree, allowance: StepAllowance) -> Self {
        Self { source, limit: WorkLimit::without_size(allowance), listed: AtomicU64::new(0) }
    }

    /// The error about more entries than the limit allows. What was listed does not count then: how much it is depends on the order.
    pub(crate) fn find_excess(&self) -> Option<Finding> {
        let steps = self.listed.load(Ordering::Relaxed).saturating_sub(FREE_ENTRIES) * STEPS_PER_ENTRY;
        let excess = self.limit?.check_steps("listing the files", steps).err();
        excess.map(TooMuchWork::into_finding)
    }
}

impl FileTree for LimitedTree<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        if self.find_excess().is_some() {
            return Ok(Vec::new());
        }
        let entries = self.source.list_folder(folder)?;
        self.listed.fetch_add(entries.len() as u64, Ordering::Relaxed);
        Ok(entries)
    }

    fn folder_id(&self, folder: &str) -> Option<[u8; 20]> {
        self.source.folder_id(folder)
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.source.read_file(path)
    }
}
