//! Objects with their types: their fields, merging, comparing, and removing fields.
//!
//! Facts: the merge of Kubernetes' server-side apply. Mappings are merged by key; lists with keys and
//! sets by item; atomic values, and values that are not mappings or lists, are one field.

mod check;
mod compare;
mod lists;
mod merge;
mod remove;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::fields::{Element, FieldSet, compare_values, element_of};
use super::schema::{Shape, Type};
use lists::indexed;

pub use check::{check, mistyped, undeclared};
pub use compare::{Comparison, compare};
pub use merge::merge;
pub use remove::{extract, remove};

/// Whether two values are equal, numbers by their value, keys in any order.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let both = |(key, value): (&String, &Value)| b.get(key).is_some_and(|other| same(value, other));
            a.len() == b.len() && a.iter().all(both)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => compare_values(a, b).is_eq(),
    }
}

/// The fields that an object has: its leaves, the items of its lists, mappings that are empty, and nulls.
pub fn fields(ty: &Type, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match ty.shape(value) {
        Shape::Leaf => set.own(),
        Shape::Map(parts) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                let Some(ty) = parts.get(key) else { continue };
                let mut below = fields(ty, value);
                let nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if nothing || parts.field(key).is_none() {
                    below.own();
                }
                if !below.is_empty() {
                    *set.enter(Element::field(key)) = below;
                }
            }
        }
        Shape::List(ty, list_type) => {
            let items = value.as_array().map(Vec::as_slice);
            for (element, items) in indexed(items, ty, list_type) {
                // Of an item with duplicates only the item itself is owned.
                let mut below = match items.as_slice() {
                    [one] => fields(ty, one),
                    _ => FieldSet::default(),
                };
                below.own();
                *set.enter(element) = below;
            }
        }
    }
    set
}

/// Whether all items of all lists have keys; there may be duplicates.
pub(super) fn separable(ty: &Type, value: &Value) -> bool {
    match ty.shape(value) {
        Shape::Leaf => true,
        Shape::Map(parts) => value
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| parts.get(key).is_none_or(|ty| separable(ty, value))),
        Shape::List(ty, list_type) => value
            .as_array()
            .into_iter()
            .flatten()
            .all(|item| element_of(item, ty, list_type).is_ok() && separable(ty, item)),
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

/// The set with every declared field of which it has some part: a manager that owns a part of a declared field also
/// owns the field.
pub(super) fn with_named(ty: &Type, set: &FieldSet) -> FieldSet {
    let mut all = FieldSet::default();
    if set.has_own() {
        all.own();
    }
    for (element, below) in set.entries() {
        let (child, declared) = type_below(ty, element);
        let mut below = with_named(child, below);
        if declared {
            below.own();
        }
        *all.enter(element.clone()) = below;
    }
    all
}

/// The type one step down, and whether the step is a declared field.
fn type_below<'t>(ty: &'t Type, element: &Element) -> (&'t Type, bool) {
    match (ty.resolve(), element) {
        (Type::List { item, .. }, _) => (item, false),
        (Type::Any, _) => (&Type::Any, false),
        (other, Element::Field(name)) => {
            let parts = other.parts();
            let child = parts.and_then(|p| p.get(name)).unwrap_or(&Type::Atomic);
            (child, parts.is_some_and(|p| p.field(name).is_some()))
        }
        _ => (&Type::Atomic, false),
    }
}
