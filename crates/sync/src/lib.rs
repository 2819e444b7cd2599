//! The loop: watches sources, and keeps branches and clusters at what they render.
//!
//! A [`Sync`](federate_sync_api::Sync) object says what is watched and what is kept. [`read`] takes it from files, [`round`] does
//! one round of it, [`watch`] runs the loop, [`state`] is the folder with its state; [`hub`] does the same
//! with objects on an API server. No engine code is here: rendering, committing
//! and applying are the application layer's (`federate-session`).

mod backoff;
mod board;
mod changed;
mod compare;
pub mod credentials;
mod deletion;
pub mod environment;
mod fights;
mod files;
mod following;
mod github_app;
mod guard;
pub mod hub;
pub mod inspection;
mod lane;
pub mod listen;
mod members;
mod members_status;
mod metrics;
mod narrow;
mod notify;
mod observed;
mod opened;
mod outcome;
mod page;
mod planned_status;
mod polled;
pub mod private;
pub mod read;
mod render;
pub mod rollout;
pub mod round;
pub mod run;
mod selection;
mod semver;
pub mod source;
pub mod state;
mod submodules;
pub mod tally;
pub mod telemetry;
pub mod watch;
mod window;

pub use opened::SessionCache;
