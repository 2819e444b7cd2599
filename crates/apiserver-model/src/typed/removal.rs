//! Removes fields from an object, or keeps only some.

use serde_json::{Map, Value};

use super::super::fields::{FieldSet, PathElement, element_of};
use super::super::schema::{MergeShape, Type};

/// The object without these fields. A mapping or list that becomes empty becomes null.
pub fn remove_fields(ty: &Type, value: &Value, fields: &FieldSet) -> Value {
    filter_fields(ty, value, fields, false)
}

/// The object with these fields only.
pub fn keep_fields(ty: &Type, value: &Value, fields: &FieldSet) -> Value {
    filter_fields(ty, value, fields, true)
}

/// Keeps the fields if `taken`, or else removes them.
fn filter_fields(ty: &Type, value: &Value, fields: &FieldSet, taken: bool) -> Value {
    match ty.merge_shape(value) {
        MergeShape::Map(parts) => {
            let map: Map<String, Value> = value
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| {
                    let ty = parts.get(key).unwrap_or(&Type::Atomic);
                    let below = fields.find_below(&PathElement::field(key));
                    Some((key.clone(), filter_below(ty, value, below, taken)?))
                })
                .collect();
            if map.is_empty() { Value::Null } else { Value::Object(map) }
        }
        MergeShape::List(ty, list_type) => {
            let items = value.as_array().into_iter().flatten().filter_map(|item| {
                match element_of(item, ty, list_type) {
                    Ok(element) => filter_below(ty, item, fields.find_below(&element), taken),
                    Err(_) => (!taken).then(|| item.clone()),
                }
            });
            let items: Vec<Value> = items.collect();
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
        MergeShape::Leaf => value.clone(),
    }
}

/// Filters a field or an item; `below` are the fields below it.
fn filter_below(ty: &Type, value: &Value, below: Option<&FieldSet>, taken: bool) -> Option<Value> {
    match below.filter(|below| !below.is_empty()) {
        Some(below) if below.has_own() && !taken => None,
        Some(below) if below.entries().next().is_none() => Some(value.clone()),
        Some(below) => Some(filter_fields(ty, value, below, taken)),
        None => (!taken).then(|| value.clone()),
    }
}
