//! What is said of a place that holds files which federate did not write.

use std::fmt::Display;

/// Names that are shown.
const SHOWN: usize = 5;

/// Why `place` is refused: `files` are foreign, and it has a plan of federate's or not; `instead` is what
/// to choose then.
pub(super) fn refusal(place: &dyn Display, files: &[String], plan: bool, instead: &str) -> String {
    let names: Vec<_> = files.iter().take(SHOWN).map(|name| name.escape_debug().to_string()).collect();
    let more = match files.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let (why, what) = if plan {
        ("that its placements.yaml does not account for", "move them out of it")
    } else {
        ("and no placements.yaml of federate's", instead)
    };
    format!("{place} holds {}{more}, {why}: publishing would delete them; {what}", names.join(", "))
}
