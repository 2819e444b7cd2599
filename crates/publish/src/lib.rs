//! Writes what was rendered.
//!
//! `OutputTree` is the rendered tree, laid out as files; [`dir`] publishes it to a folder, [`branch`] to a branch
//! of a git repository; [`artifact`] is the form in which registries have it. [`mod@file`] replaces the content of a single file, [`cache`] keeps
//! what later runs need not compute again.

pub mod artifact;
pub mod branch;
pub mod cache;
pub mod dir;
pub mod file;
mod foreign_files;
mod lock;
pub mod output_path;
pub mod paths;
pub mod summary;
pub mod tree;

pub use dir::OutputFolder;
pub use summary::Summary;
pub use tree::OutputTree;
