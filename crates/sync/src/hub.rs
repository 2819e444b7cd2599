//! The API server that holds Sync objects, with their status, Events, and the previous plan.

mod client;
mod events;
mod finalizers;
mod installation;
mod leader;
mod leases;
mod objects;
mod record_store;
mod requests;
mod secrets;
mod store;
mod tenancy;
mod watcher;

pub use client::{Error, HubClient};
pub(crate) use events::EventType;
pub use events::{SyncEvent, SyncEventList};
pub use leader::{Leader, LeaderOptions};
pub use objects::read_sync;
pub use record_store::{RecordStoreError, RecordStoreIndex};
pub use requests::SyncOperation;
pub use store::HubStates;
pub use tenancy::Tenancy;
pub use watcher::SyncObjects;

pub(crate) use objects::{InvalidSync, load_object, remove_clashing};
