//! Reads a repo's files from a folder ([`WorkTree`]) or from a revision of a git repository ([`git`]), and records what
//! was read ([`TracedSource`]).

pub mod git;
mod traced;
mod tracked;
mod work_tree;

pub use traced::{SourceTrace, TracedSource};
pub use work_tree::WorkTree;
