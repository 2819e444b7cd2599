//! The loop: watches sources, and keeps branches and clusters at what they render.
//!
//! A [`Sync`](federate_sync_api::Sync) object says what is watched and what is kept. [`read`] takes it from files, [`round`] does
//! one round of it, [`watch`] runs the loop, [`state`] is the folder with its state; [`hub`] does the same
//! with objects on an API server. No engine code is here: rendering, committing
//! and applying are the application layer's (`federate-session`).

mod board;
pub mod environment;
mod files;
pub mod hub;
pub mod inspection;
mod lane;
pub mod listen;
mod members;
mod metrics;
mod notify;
mod observe;
mod outcome;
mod page;
mod plan;
pub mod private;
pub mod read;
pub mod rollout;
pub mod round;
pub mod run;
pub mod source;
pub mod state;
pub mod tally;
pub mod telemetry;
pub mod watch;
mod window;

pub use plan::sessions::SessionCache;
pub use source::credentials;
