//! The loop: watches sources, and keeps branches and clusters at what they render.
//!
//! A [`Sync`](api::Sync) object says what is watched and what is kept. [`read`] takes it from files, [`round`] does
//! one round of it, [`watch`] does them for ever, [`state`] is the folder in which it remembers; [`hub`] does the same
//! with objects on an API server. No engine code is here: rendering, committing
//! and applying are the application layer's (`federate-session`).

pub mod api;
mod backoff;
mod board;
mod crd;
pub mod credentials;
mod files;
mod guard;
pub mod hub;
mod lane;
pub mod listen;
mod members;
pub mod metrics;
mod opened;
mod outcome;
pub mod read;
pub mod round;
pub mod run;
pub mod source;
pub mod state;
pub mod status;
pub mod watch;

pub use crd::crd;
pub use opened::SessionCache;
