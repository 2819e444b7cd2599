//! `known-gaps.txt`: cases that are not met, each with its reason.
//!
//! A line is `<id>: <reason>` for a case, or `<dialect>/<family>/*: <reason>` for a family that nothing
//! verifies yet. Comments start with `#`.

use std::collections::{BTreeMap, BTreeSet};

/// The gaps, by id or family.
pub(crate) struct Gaps(BTreeMap<String, String>);

impl Gaps {
    /// Reads the list.
    pub(crate) fn read(text: &str) -> Self {
        let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
        let gap = |line: &str| {
            let (id, reason) = line.split_once(": ").expect("a gap is `<id>: <reason>`");
            (id.to_owned(), reason.to_owned())
        };
        Self(lines.map(gap).collect())
    }

    /// Whether a case is listed by its id.
    pub(crate) fn case(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Why no test verifies a family.
    pub(crate) fn family(&self, family: &str) -> Option<&str> {
        self.0.get(&format!("{family}/*")).map(String::as_str)
    }

    /// Lines that say nothing: ids that no case has, of families that were read, and of all families where
    /// `whole` says that all were.
    pub(crate) fn stale(&self, known: &BTreeMap<String, BTreeSet<String>>, whole: bool) -> Vec<&str> {
        let ids = self.0.keys().map(String::as_str).filter(|id| !id.ends_with("/*"));
        ids.filter(|id| known.get(crate::cases::family(id)).map_or(whole, |ids| !ids.contains(*id))).collect()
    }
}
