//! Reads a repo's files from a folder ([`WorkTree`]) or from a revision of a git repository ([`git`]), and records what
//! was read ([`TracedTree`]).

pub mod git;
mod missing_entries;
mod trace;
mod work_tree;

pub use trace::{TracedTree, TreeTrace};
pub use work_tree::WorkTree;
