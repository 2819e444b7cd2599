//! Rollouts: the next round of a rolling update, the stages of an update run, and evictions.
//!
//! Apart from stages, all of it depends on what clusters report and users approve, which is not in a repo.

pub mod amount;
pub(crate) mod api;
pub mod budget;
pub(crate) mod carry;
pub mod rolling;
pub mod row;
pub mod run;
pub(crate) mod scenario;
pub mod staged;
