//! Reads a repo's files from a folder ([`WorkTree`]) or from a revision of a git repository ([`git`]).

pub mod git;
mod missing_entries;
mod work_tree;

pub use work_tree::{WorkTree, find_nearest_path};
