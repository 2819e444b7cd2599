//! How far the deletion of an object is.

use serde::Serialize;

/// How far the deletion of an object on the control plane's host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionProgress {
    /// Whether the control plane removes its finalizer, so that the object goes.
    pub finalizer_removed: bool,
    /// Whether the member clusters are done.
    pub state: DeletionState,
}

/// Whether a deletion is done in the member clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DeletionState {
    /// Nothing is left to do.
    Done,
    /// Some objects are still there.
    Waiting,
    /// The deletion cannot continue, for example because a cluster is not ready.
    Failed,
}
