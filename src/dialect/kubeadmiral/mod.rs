//! The KubeAdmiral dialect.

pub mod import;
