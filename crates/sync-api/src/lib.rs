//! The `Sync` object of `federate.dev/v1alpha1`: what the loop watches, and what it keeps at what that renders.
//!
//! The types of the object, with the `CustomResourceDefinition` that is made from them (`crd`); its [`status`]; what
//! the loop keeps of it between reconciliations ([`record`]); its [`rollout`], and how far that is ([`progress`]). The loop
//! itself is `federate-sync`: everything here is a function of its arguments, without clock, files and network.

mod clock;
mod crd;
mod interval;
pub mod managed_scope;
pub mod progress;
mod push;
pub mod record;
pub mod rollout;
mod source;
pub mod stage;
pub mod status;
pub mod summary;
mod sync;
mod window;

pub use crd::build_crds;
pub use interval::Interval;
pub use push::{MAX_TAGS, MediaTypes, PushSpec};
pub use source::{SecretRef, SourceRef, SourceVerification, SyncSource, VerificationMode};
pub use sync::{
    AdoptionRule, ApplySpec, ClusterSelection, CommitLayout, CommitSpec, DeletionPolicy, DriftMode,
    DriftSpec, HubInventory, InventorySource, KubeConfig, NamespacedName, Notification, NotificationType,
    SecretKeyRef, Sync, SyncApiVersion, SyncDependency, SyncKind, SyncMetadata, SyncSpec,
};
pub use window::{MaintenanceWindow, WindowState, find_window_state};
