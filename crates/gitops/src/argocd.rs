//! Objects of Argo CD.

pub(crate) mod application;
pub(crate) mod application_set;
pub(crate) mod directory;
mod path_glob;
