//! The API server that holds Sync objects: they are watched there, and status, the scheduler's memory and Events are
//! kept there.

mod client;
mod deletion;
mod events;
mod leader;
mod memory;
mod objects;
mod secrets;
mod store;
mod watcher;

pub use client::{Error, Hub};
pub use leader::{Leader, LeaderOptions};
pub use store::HubStates;
pub use watcher::Objects;

pub(crate) use deletion::release;
pub(crate) use objects::{Invalid, clashes, loaded};
