//! The changes to a mapping, by entry of its text.

use super::change::Plan;
use super::tree::Entry;
use serde_json::{Map, Value};

/// The changes to a mapping.
#[derive(Default)]
pub(super) struct Changed<'p> {
    /// For each entry, whether it is removed.
    pub(super) removed: Vec<bool>,
    /// The entries with changes inside their values.
    pub(super) within: Vec<(usize, Inner<'p>)>,
    /// The entries whose values are replaced.
    pub(super) becomes: Vec<(usize, Value)>,
    /// The new entries.
    pub(super) new: Vec<(String, Value)>,
}

/// A change inside a value.
pub(super) struct Inner<'p> {
    pub(super) plan: &'p Plan,
    pub(super) before: &'p Value,
    pub(super) after: Value,
}

impl<'p> Changed<'p> {
    /// Computes the changes to the text of a mapping. `None` if they cannot be made in place: an entry from a merge key
    /// cannot be removed.
    pub(super) fn of(
        entries: &[Entry],
        map: &'p Map<String, Value>,
        changes: &'p [(String, Plan)],
    ) -> Option<Self> {
        let mut changed = Self { removed: vec![false; entries.len()], ..Self::default() };
        for (key, plan) in changes {
            let before = map.get(key);
            let after = plan.applied(before, "").ok()?;
            let at = entries.iter().rposition(|entry| entry.key.as_ref() == Some(key));
            match (before, after, at) {
                (before, after, _) if before == after.as_ref() => {}
                (Some(_), None, Some(at)) => *changed.removed.get_mut(at)? = true,
                (Some(before @ (Value::Object(_) | Value::Array(_))), Some(after), Some(at))
                    if matches!(plan, Plan::Within(_)) =>
                {
                    changed.within.push((at, Inner { plan, before, after }));
                }
                (Some(_), Some(after), Some(at)) => changed.becomes.push((at, after)),
                (_, Some(after), None) => changed.new.push((key.clone(), after)),
                _ => return None,
            }
        }
        Some(changed)
    }

    /// Whether all entries are removed.
    pub(super) fn leaves_nothing(&self) -> bool {
        self.removed.iter().all(|removed| *removed)
    }

    /// Returns the indices of the entries that are not removed.
    pub(super) fn kept(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.removed.len()).filter(|at| !self.removed.get(*at).is_none_or(|removed| *removed))
    }

    /// Returns the new entries, each with the index of the entry before which it is inserted: in the order of keys if
    /// the mapping has two or more entries that are sorted, and otherwise at the end.
    pub(super) fn new_entries(&self, entries: &[Entry]) -> Vec<(Option<usize>, &str, &Value)> {
        let sorted = entries.len() > 1
            && entries.is_sorted_by(|a, b| a.key.is_some() && b.key.is_some() && a.key <= b.key);
        let place = |key: &String| {
            let mut kept = self.kept();
            kept.find(|at| sorted && entries.get(*at).is_some_and(|e| e.key.as_ref() > Some(key)))
        };
        let mut placed: Vec<_> =
            self.new.iter().map(|(key, value)| (place(key), key.as_str(), value)).collect();
        if sorted {
            placed.sort_by_key(|(_, key, _)| *key);
        }
        placed
    }
}
