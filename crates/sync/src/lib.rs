//! The loop: watches sources, and keeps branches, registries and clusters at what they render.
//!
//! A [`Sync`](federate_sync_api::Sync) object says what is watched and what is kept. [`sync_files`] reads it from files,
//! [`reconciliation`] is one pass of it, [`supervisor`] runs the loop, and [`state`] is the folder with its state. [`hub`] does
//! the same with objects on an API server. `docs/architecture.md` draws the way from a Sync to its status. No engine code is
//! here: rendering, committing and applying are the application layer's (`federate-session`).

pub mod counters;
mod deletion;
mod delivery;
pub mod environment;
mod events;
mod file_watcher;
pub mod http_server;
pub mod hub;
pub mod inspection;
mod member_clusters;
mod metrics;
mod notifications;
mod observe;
mod outcome;
pub mod page;
mod plan;
pub mod private_files;
pub mod reconciliation;
pub mod registry_access;
pub mod rollout;
pub mod run;
pub mod source;
pub mod state;
pub mod supervisor;
pub mod sync_files;
mod sync_registry;
pub mod telemetry;
mod uri;
mod window;
mod worker;

pub use source::credentials;
