//! Rollouts: the next round of a rolling update, the stages of an update run, and evictions.
//!
//! Apart from stages, all of it depends on what clusters report and users approve: on the hub, not in a repo.

pub mod amount;
pub(crate) mod api;
pub(crate) mod budget;
pub(crate) mod carry;
pub(crate) mod rolling;
pub(crate) mod row;
pub mod run;
pub(crate) mod scenario;
pub mod staged;
