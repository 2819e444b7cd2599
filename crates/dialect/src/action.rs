//! What a control plane does about an object in a member cluster.

use serde_json::{Map, Value};

/// A decision about an object in a member cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPlaneAction {
    /// The operation.
    pub op: SyncOp,
    /// Whether it adopts an object that the control plane did not write.
    pub adopts: bool,
    /// The control plane's own status: `OK`, or why nothing is done.
    pub status: &'static str,
    /// Which setting keeps the control plane from adopting an object of that name.
    pub hint: Option<String>,
}

impl ControlPlaneAction {
    /// Returns an action that does nothing, with its status.
    pub fn do_nothing(status: &'static str) -> Self {
        Self { op: SyncOp::Nothing, adopts: false, status, hint: None }
    }

    /// Sets the setting that keeps the control plane from adopting the object.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// An operation, with the object as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum SyncOp {
    /// The object is created.
    Create(Value),
    /// The live object is replaced.
    Update(Value),
    /// The manifest is applied by the cluster's API server, which merges it.
    Apply {
        /// The manifest.
        manifest: Value,
        /// The field manager to apply it as.
        manager: &'static str,
        /// Whether fields are taken from other managers.
        force: bool,
    },
    /// The live object stays, but no longer belongs to the control plane: it is updated to this.
    Release(Value),
    /// The live object is deleted.
    Delete(DeleteOptions),
    /// Nothing is done.
    Nothing,
}

/// The fields of the `DeleteOptions` of a deletion.
pub type DeleteOptions = Map<String, Value>;
