//! Objects of Argo CD: what `Application`s build for which clusters, and the Applications that `ApplicationSet`s generate.
//!
//! ```text
//! reader ─► application_set ─► application ─► DescribedSource
//!      └──► clusters
//! ```

pub(crate) mod application;
pub(crate) mod application_set;
mod application_type;
mod clusters;
pub(crate) mod directory;
mod path_glob;
pub(crate) mod reader;
