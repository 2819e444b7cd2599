//! Objects with their types: their fields, merging, comparing, and removing fields.
//!
//! Facts: the merge of Kubernetes' server-side apply. Mappings are merged by key; lists with keys and
//! sets by item; atomic values, and values that are not mappings or lists, are one field.

mod check;
mod comparison;
mod lists;
mod merge;
mod removal;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::fields::{FieldSet, PathElement, compare_values, element_of};
use super::schema::{MergeShape, Type};
use lists::index_items;

pub use check::{check_types, find_mistyped, find_undeclared};
pub use comparison::{FieldComparison, compare_objects};
pub use merge::merge_objects;
pub use removal::{keep_fields, remove_fields};

/// Whether two values are equal, numbers by their value, keys in any order.
pub fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| are_equal(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal(a, b))
        }
        _ => compare_values(a, b).is_eq(),
    }
}

/// The fields that an object has: its leaves, the items of its lists, mappings that are empty, and nulls.
pub fn collect_fields(ty: &Type, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match ty.merge_shape(value) {
        MergeShape::Leaf => set.insert_own(),
        MergeShape::Map(parts) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                let Some(ty) = parts.get(key) else { continue };
                let mut below = collect_fields(ty, value);
                let nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if nothing || parts.find_field(key).is_none() {
                    below.insert_own();
                }
                if !below.is_empty() {
                    *set.below_or_insert(PathElement::field(key)) = below;
                }
            }
        }
        MergeShape::List(ty, list_type) => {
            let items = value.as_array().map(Vec::as_slice);
            for (element, items) in index_items(items, ty, list_type) {
                // Of an item with duplicates only the item itself is owned.
                let mut below = match items.as_slice() {
                    [one] => collect_fields(ty, one),
                    _ => FieldSet::default(),
                };
                below.insert_own();
                *set.below_or_insert(element) = below;
            }
        }
    }
    set
}

/// Whether all items of all lists have keys, which need not be unique.
pub(super) fn is_separable(ty: &Type, value: &Value) -> bool {
    match ty.merge_shape(value) {
        MergeShape::Leaf => true,
        MergeShape::Map(parts) => value
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| parts.get(key).is_none_or(|ty| is_separable(ty, value))),
        MergeShape::List(ty, list_type) => value
            .as_array()
            .into_iter()
            .flatten()
            .all(|item| element_of(item, ty, list_type).is_ok() && is_separable(ty, item)),
    }
}

/// Whether a value is null, or an empty mapping or list.
pub(super) fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Adds the declared fields that contain fields of the set: a manager that owns a part of a declared field also owns the
/// field.
pub(super) fn with_declared_fields(ty: &Type, set: &FieldSet) -> FieldSet {
    let mut all = FieldSet::default();
    if set.has_own() {
        all.insert_own();
    }
    for (element, below) in set.entries() {
        let (child, declared) = type_below(ty, element);
        let mut below = with_declared_fields(child, below);
        if declared {
            below.insert_own();
        }
        *all.below_or_insert(element.clone()) = below;
    }
    all
}

/// The type one step down, and whether the step is a declared field.
fn type_below<'t>(ty: &'t Type, element: &PathElement) -> (&'t Type, bool) {
    match (ty.resolve_name(), element) {
        (Type::List { item, .. }, _) => (item, false),
        (Type::Any, _) => (&Type::Any, false),
        (other, PathElement::Field(name)) => {
            let parts = other.parts();
            let child = parts.and_then(|p| p.get(name)).unwrap_or(&Type::Atomic);
            (child, parts.is_some_and(|p| p.find_field(name).is_some()))
        }
        _ => (&Type::Atomic, false),
    }
}
