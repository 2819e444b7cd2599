//! The KubeFed dialect.

pub mod import;
