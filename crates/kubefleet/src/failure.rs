//! The reason why a scheduling cycle is aborted.

/// Why a cycle was aborted.
#[derive(Clone, Debug)]
pub(super) struct SchedulingError {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl SchedulingError {
    /// A property that cannot be compared.
    pub(super) fn invalid_property(message: String) -> Self {
        Self { reason: "InvalidPropertyValue", message }
    }
}
