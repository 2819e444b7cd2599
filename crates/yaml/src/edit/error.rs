//! Why an edit is not possible.

/// Why an edit is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The document does not exist, or cannot be parsed.
    #[error("document {0} does not exist or cannot be parsed")]
    NoDocument(u32),
    /// The parent value is a scalar, or a list without that index.
    #[error("cannot set a value at `{0}`: a parent value is not a mapping")]
    NoRoom(String),
}
