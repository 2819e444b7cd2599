//! The order of rollouts: what a rolling update does next, the stages of an update run, and which
//! clusters may be evicted.
//!
//! All of it is arithmetic over what a person or a cluster reports; nothing here is decided by git
//! alone.

pub mod amount;
pub mod api;
pub mod budget;
pub mod rolling;
pub mod row;
pub mod run;
pub mod staged;
