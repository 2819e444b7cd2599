//! The ends that write what was rendered.
//!
//! [`Tree`] is what was rendered, laid out as files; [`dir`] makes a folder hold exactly that,
//! [`branch`] a branch of a git repository. [`mod@file`] gives a single file new contents.

pub mod branch;
pub mod dir;
pub mod file;
mod foreign;
mod lock;
pub mod paths;
pub mod summary;
pub mod tree;

pub use dir::Folder;
pub use summary::Summary;
pub use tree::Tree;
