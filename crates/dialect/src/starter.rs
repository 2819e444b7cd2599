//! What `federate init` writes.

use serde_json::Value;

/// The objects that a new repo starts with.
#[derive(Debug, Default)]
pub struct Starter {
    /// One inventory object for each cluster.
    pub inventory: Vec<Value>,
    /// The policy; `None` if the dialect has no policies.
    pub policy: Option<Value>,
    /// What else is needed, as an instruction.
    pub note: Option<&'static str>,
}
