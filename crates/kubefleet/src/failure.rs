//! The reason why a scheduling cycle is aborted.

/// Why a cycle was aborted.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Failure {
    /// A property that cannot be compared.
    pub(super) fn property(message: String) -> Self {
        Self { reason: "InvalidPropertyValue", message }
    }
}
