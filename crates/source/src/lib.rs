//! Where a repo's files come from: a folder ([`WorkTree`]), or a revision of a git repository ([`git`]).

pub mod git;
mod work_tree;

pub use work_tree::WorkTree;
