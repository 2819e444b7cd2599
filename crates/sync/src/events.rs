//! What happens outside of the loop.

/// An event outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEvent {
    /// The process is to end.
    End,
    /// The files with the Syncs may have changed.
    Files,
    /// The Sync objects may have changed.
    Objects,
    /// The source of a Sync may have changed.
    Source(String),
}
