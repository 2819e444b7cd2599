//! The loop: watches sources, and keeps branches and clusters at what they render.
//!
//! A [`Sync`](federate_sync_api::Sync) object says what is watched and what is kept. [`read`] takes it from files, [`round`] does
//! one round of it, [`watch`] runs the loop, [`state`] is the folder with its state; [`hub`] does the same
//! with objects on an API server. No engine code is here: rendering, committing
//! and applying are the application layer's (`federate-session`).

mod changed_objects;
mod changes;
mod cluster_tracker;
mod comparison;
mod contention;
pub mod counters;
pub mod credentials;
mod deletion;
pub mod environment;
mod file_watcher;
mod github_app;
mod guard;
pub mod http_server;
pub mod hub;
pub mod inspection;
mod inventory_status;
mod member_clusters;
mod member_watches;
mod members_status;
mod metrics;
mod notifications;
mod outcome;
mod page;
mod planned_status;
pub mod private_files;
pub mod reconciliation;
mod registry;
mod rendering;
pub mod rollout;
pub mod run;
mod selection;
mod semver;
mod session_cache;
pub mod source;
mod source_state;
pub mod state;
mod submodules;
pub mod supervisor;
pub mod sync_files;
pub mod telemetry;
mod window;
mod worker;

pub use session_cache::SessionCache;
