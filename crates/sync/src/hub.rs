//! The API server that holds Sync objects, with their status, Events, and the scheduler's memory.

mod client;
mod deletion;
mod events;
mod install;
mod leader;
mod leases;
mod memory;
mod objects;
mod requests;
mod secrets;
mod store;
mod tenancy;
mod watcher;

pub use client::{Error, Hub};
pub use events::{SyncEvent, SyncEventList};
pub use leader::{Leader, LeaderOptions};
pub use memory::{MemoryError, MemoryIndex};
pub use objects::read_sync;
pub use requests::Request;
pub use store::HubStateStore;
pub use tenancy::Tenancy;
pub use watcher::Objects;

pub(crate) use deletion::release;
pub(crate) use objects::{Invalid, clashes, loaded};
