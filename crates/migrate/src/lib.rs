//! Writes a repo for another control plane, and proves what stays equal.
//!
//! ```text
//! Session (old) ─► read ─► PlacementIntent ─► write ─► Migration { edits, objects }
//!                                                        │
//!                       MigratedSource (old files + edits) ─► Session (new)
//!                                                                │
//! Session (old) ────────────────────────────────────────────────┴─► proof: each object equal,
//!                                                                    equal now, or different with a reason
//! ```
//!
//! A migration is a value: the edits of files, and for each object its names on both sides and the rules that
//! the other control plane does not have. Nothing is written here; callers publish the edits.

mod migration;
mod reason;
mod source;

pub use migration::{FileEdit, MigratedObject, Migration, Mode, Target, UnequalRule};
pub use reason::{DifferenceKind, Reason};
pub use source::MigratedSource;
