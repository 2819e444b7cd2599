//! What tests and examples share.

pub mod apiserver;
