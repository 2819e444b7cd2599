//! Rollouts: the next round of a rolling update, update runs, and evictions.
//!
//! All of it depends on what clusters report and users approve: on the hub, not in a repo.

pub(crate) mod api;
pub(crate) mod budget;
pub(crate) mod controller;
pub(crate) mod rolling_update;
pub(crate) mod row;
pub mod run;
pub(crate) mod update_runs;
