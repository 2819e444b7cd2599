//! The edits of a mapping, by entry of its text.

use super::plan::EditPlan;
use super::tree::MappingEntry;
use serde_json::{Map, Value};

/// The changes to a mapping.
#[derive(Default)]
pub(super) struct MappingChanges<'p> {
    /// For each entry, whether it is removed.
    pub(super) gone: Vec<bool>,
    /// Entries whose values are edited inside, with the content before and after.
    pub(super) within: Vec<(usize, NestedEdit<'p>)>,
    /// Entries whose values are replaced.
    pub(super) becomes: Vec<(usize, Value)>,
    /// New entries.
    pub(super) new: Vec<(String, Value)>,
}

/// An edit inside a value.
pub(super) struct NestedEdit<'p> {
    pub(super) plan: &'p EditPlan,
    pub(super) before: &'p Value,
    pub(super) after: Value,
}

impl<'p> MappingChanges<'p> {
    /// Computes the changes to the text of a mapping; `None` if the text cannot express them, because a key
    /// from a merge key cannot be removed.
    pub(super) fn compute_changes(
        entries: &[MappingEntry],
        map: &'p Map<String, Value>,
        changes: &'p [(String, EditPlan)],
    ) -> Option<Self> {
        let mut changed = Self { gone: vec![false; entries.len()], ..Self::default() };
        for (key, plan) in changes {
            let before = map.get(key);
            let after = plan.apply_to(before, "").ok()?;
            let at = entries.iter().rposition(|entry| entry.key.as_ref() == Some(key));
            match (before, after, at) {
                (before, after, _) if before == after.as_ref() => {}
                (Some(_), None, Some(at)) => *changed.gone.get_mut(at)? = true,
                (Some(before @ (Value::Object(_) | Value::Array(_))), Some(after), Some(at))
                    if matches!(plan, EditPlan::Within(_)) =>
                {
                    changed.within.push((at, NestedEdit { plan, before, after }));
                }
                (Some(_), Some(after), Some(at)) => changed.becomes.push((at, after)),
                (_, Some(after), None) => changed.new.push((key.clone(), after)),
                _ => return None,
            }
        }
        Some(changed)
    }

    /// Whether nothing of the mapping remains.
    pub(super) fn is_empty_after(&self) -> bool {
        self.gone.iter().all(|gone| *gone)
    }

    /// The indices of remaining entries.
    pub(super) fn remaining_indices(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.gone.len()).filter(|at| !self.gone.get(*at).is_none_or(|gone| *gone))
    }

    /// New entries, each with the entry before which it is written: by name in a sorted mapping of two or
    /// more entries, otherwise at the end.
    pub(super) fn place_new_entries(&self, entries: &[MappingEntry]) -> Vec<(Option<usize>, &str, &Value)> {
        let sorted = entries.len() > 1
            && entries.is_sorted_by(|a, b| a.key.is_some() && b.key.is_some() && a.key <= b.key);
        let mut placed = Vec::with_capacity(self.new.len());
        for (key, value) in &self.new {
            let place = self
                .remaining_indices()
                .find(|at| sorted && entries.get(*at).is_some_and(|entry| entry.key.as_ref() > Some(key)));
            placed.push((place, key.as_str(), value));
        }
        if sorted {
            placed.sort_by_key(|(_, key, _)| *key);
        }
        placed
    }
}
