//! Compares two objects field by field.

use serde_json::{Map, Value};

use super::super::fields::{FieldSet, PathElement};
use super::super::schema::{MergeShape, Type};
use super::lists::index_items;
use super::{are_equal, is_empty_value};

/// The difference of two objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldComparison {
    /// The fields that only the new one has.
    pub added: FieldSet,
    /// The fields that both have with different values.
    pub modified: FieldSet,
    /// The fields that only the old one has.
    pub removed: FieldSet,
}

impl FieldComparison {
    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The fields that are added or modified.
    pub fn changed_fields(&self) -> FieldSet {
        self.added.clone().union(self.modified.clone())
    }

    /// The comparison without these fields and the fields below them.
    #[must_use]
    pub fn without_fields(self, fields: &FieldSet) -> Self {
        Self {
            added: self.added.without_below(fields),
            modified: self.modified.without_below(fields),
            removed: self.removed.without_below(fields),
        }
    }

    fn compare_leaf(old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut found = Self::default();
        match (old, new) {
            (None, Some(_)) => found.added.insert_own(),
            (Some(_), None) => found.removed.insert_own(),
            (Some(old), Some(new)) if !are_equal(old, new) => found.modified.insert_own(),
            _ => {}
        }
        found
    }

    fn insert_below(&mut self, element: impl Fn() -> PathElement, below: Self) {
        let parts = [
            (&mut self.added, below.added),
            (&mut self.modified, below.modified),
            (&mut self.removed, below.removed),
        ];
        for (set, below) in parts {
            if !below.is_empty() {
                *set.below_or_insert(element()) = below;
            }
        }
    }
}

/// Compares two objects. A value that is added or removed is listed with all its parts.
pub fn compare_objects(ty: &Type, old: &Value, new: &Value) -> FieldComparison {
    compare_values_at(ty, Some(old), Some(new))
}

/// Compares the items with one key in two lists. Duplicates are only marked.
fn compare_items(ty: &Type, old: &[&Value], new: &[&Value]) -> FieldComparison {
    let mut found = FieldComparison::default();
    match (old, new) {
        ([] | [_], [] | [_]) => return compare_values_at(ty, old.first().copied(), new.first().copied()),
        ([_, _, ..], [_, _, ..]) => {
            if old.len() != new.len() || !old.iter().zip(new).all(|(old, new)| are_equal(old, new)) {
                found.modified.insert_own();
            }
        }
        ([_, _, ..], _) => {
            if let Some(new) = new.first() {
                found = compare_values_at(ty, None, Some(new));
            }
            found.removed.insert_own();
        }
        _ => {
            if let Some(old) = old.first() {
                found = compare_values_at(ty, Some(old), None);
            }
            found.added.insert_own();
        }
    }
    found
}

fn as_list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

fn compare_values_at(ty: &Type, old: Option<&Value>, new: Option<&Value>) -> FieldComparison {
    if let (Some(old), Some(new)) = (old, new)
        && are_equal(old, new)
    {
        return FieldComparison::default();
    }
    let Some(any) = new.filter(|v| !v.is_null()).or(old) else {
        return FieldComparison::compare_leaf(old, new);
    };
    if old.is_none_or(is_empty_value) && new.is_none_or(is_empty_value) {
        return FieldComparison::compare_leaf(old, new);
    }
    let mut found = FieldComparison::default();
    let shapes = (old.filter(|v| !v.is_null()).map(|v| ty.merge_shape(v)), ty.merge_shape(any));
    match shapes {
        (None | Some(MergeShape::Map(_)), MergeShape::Map(parts)) => {
            let (old_map, new_map) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let added = new_map.into_iter().flat_map(Map::keys);
            let added = added.filter(|key| !old_map.is_some_and(|map| map.contains_key(*key)));
            for key in old_map.into_iter().flat_map(Map::keys).chain(added) {
                let (old, new) = (old_map.and_then(|map| map.get(key)), new_map.and_then(|map| map.get(key)));
                if let Some(ty) = parts.get(key) {
                    found.insert_below(|| PathElement::field(key), compare_values_at(ty, old, new));
                }
            }
        }
        (None | Some(MergeShape::List(..)), MergeShape::List(ty, list_type)) => {
            let before = index_items(as_list(old), ty, list_type);
            let after = index_items(as_list(new), ty, list_type);
            for element in before.keys().chain(after.keys().filter(|e| !before.contains_key(*e))) {
                let (old, new) = (before.get(element), after.get(element));
                let below = compare_items(ty, old.map_or(&[], Vec::as_slice), new.map_or(&[], Vec::as_slice));
                found.insert_below(|| element.clone(), below);
            }
        }
        _ => return FieldComparison::compare_leaf(old, new),
    }
    match (old, new) {
        (None, Some(_)) => found.added.insert_own(),
        (Some(_), None) => found.removed.insert_own(),
        _ => {}
    }
    found
}
