//! The message about a place that contains files that federate did not write.

use std::fmt::Display;

/// How many names are shown.
const MAX_SHOWN: usize = 5;

/// Why `place` is refused: it contains foreign `files`, with or without a `plan` of federate. `instead` is
/// the next step.
pub(super) fn explain_foreign_files(
    place: &dyn Display,
    files: &[String],
    plan: bool,
    instead: &str,
) -> String {
    let names: Vec<_> = files.iter().take(MAX_SHOWN).map(|name| name.escape_debug().to_string()).collect();
    let more = match files.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let (why, what) = if plan {
        ("which its placements.yaml does not account for", "move them out of it")
    } else {
        ("and no placements.yaml written by federate", instead)
    };
    format!("{place} contains {}{more}, {why}: publishing would delete them; {what}", names.join(", "))
}
