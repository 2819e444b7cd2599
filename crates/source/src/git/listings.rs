//! How much of a revision is listed. A few small trees that hold each other several times stand for any number of folders.

use std::collections::HashSet;

use git2::{Oid, Tree};

/// How many folders may be in each other.
pub(super) const MAX_DEPTH: usize = 1_000;

/// How many entries may be listed, however few the trees are.
const MIN_LISTED: usize = 400_000;

/// How often each entry of a tree may be listed, on average: by the reader of a repo, and by what builds it.
const MAX_LISTED_PER_ENTRY: usize = 64;

/// What was listed of a revision.
#[derive(Default)]
pub(super) struct Listings {
    /// The trees, of which each was listed at least once.
    trees: HashSet<Oid>,
    /// The entries of these trees.
    distinct: usize,
    /// The entries that were listed.
    listed: usize,
}

/// More entries were listed than the trees can have meant.
pub(super) struct TooManyEntries;

impl Listings {
    pub(super) fn count_tree(&mut self, tree: &Tree<'_>) -> Result<(), TooManyEntries> {
        if self.trees.insert(tree.id()) {
            self.distinct += tree.len();
        }
        self.listed += tree.len();
        let most = MIN_LISTED.saturating_add(self.distinct.saturating_mul(MAX_LISTED_PER_ENTRY));
        if self.listed > most { Err(TooManyEntries) } else { Ok(()) }
    }
}
