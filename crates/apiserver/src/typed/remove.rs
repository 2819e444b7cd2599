//! Removes fields from an object, or keeps only some.

use serde_json::{Map, Value};

use super::super::fields::{Element, FieldSet, element_of};
use super::super::schema::{Shape, Type};

/// The object without these fields. A mapping or list that becomes empty becomes null.
pub fn remove(ty: &Type, value: &Value, fields: &FieldSet) -> Value {
    filter_fields(ty, value, fields, false)
}

/// The object with these fields only.
pub fn extract(ty: &Type, value: &Value, fields: &FieldSet) -> Value {
    filter_fields(ty, value, fields, true)
}

fn filter_fields(ty: &Type, value: &Value, fields: &FieldSet, taken: bool) -> Value {
    let part = |element: &Element, ty: &Type, value: &Value| -> Option<Value> {
        let below = fields.below(element).filter(|below| !below.is_empty());
        match below {
            Some(below) if below.has_own() && !taken => None,
            Some(below) if below.entries().next().is_none() => Some(value.clone()),
            Some(below) => Some(filter_fields(ty, value, below, taken)),
            None => (!taken).then(|| value.clone()),
        }
    };
    match ty.shape(value) {
        Shape::Map(parts) => {
            let map: Map<String, Value> = value
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| {
                    let ty = parts.get(key).unwrap_or(&Type::Atomic);
                    Some((key.clone(), part(&Element::field(key), ty, value)?))
                })
                .collect();
            if map.is_empty() { Value::Null } else { Value::Object(map) }
        }
        Shape::List(ty, list_type) => {
            let items = value.as_array().into_iter().flatten().filter_map(|item| {
                match element_of(item, ty, list_type) {
                    Ok(element) => part(&element, ty, item),
                    Err(_) => (!taken).then(|| item.clone()),
                }
            });
            let items: Vec<Value> = items.collect();
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
        Shape::Leaf => value.clone(),
    }
}
