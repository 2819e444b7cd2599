//! The reason why a scheduling cycle is aborted.

/// Why a cycle was aborted.
#[derive(Clone, Debug)]
pub struct SchedulingError {
    /// The reason in the status of the placement.
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
}

impl SchedulingError {
    /// A property that cannot be compared.
    pub(super) fn invalid_property(message: String) -> Self {
        Self { reason: "InvalidPropertyValue", message }
    }
}
