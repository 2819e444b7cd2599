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

fn filter_fields(ty: &Type, value: &Value, fields: &FieldSet, taken: bool) -> Value {
    let part = |element: &PathElement, ty: &Type, value: &Value| -> Option<Value> {
        let below = fields.find_below(element).filter(|below| !below.is_empty());
        match below {
            Some(below) if below.has_own() && !taken => None,
            Some(below) if below.entries().next().is_none() => Some(value.clone()),
            Some(below) => Some(filter_fields(ty, value, below, taken)),
            None => (!taken).then(|| value.clone()),
        }
    };
    match ty.merge_shape(value) {
        MergeShape::Map(parts) => {
            let map: Map<String, Value> = value
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| {
                    let ty = parts.get(key).unwrap_or(&Type::Atomic);
                    Some((key.clone(), part(&PathElement::field(key), ty, value)?))
                })
                .collect();
            if map.is_empty() { Value::Null } else { Value::Object(map) }
        }
        MergeShape::List(ty, list_type) => {
            let items = value.as_array().into_iter().flatten().filter_map(|item| {
                match element_of(item, ty, list_type) {
                    Ok(element) => part(&element, ty, item),
                    Err(_) => (!taken).then(|| item.clone()),
                }
            });
            let items: Vec<Value> = items.collect();
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
        MergeShape::Leaf => value.clone(),
    }
}
