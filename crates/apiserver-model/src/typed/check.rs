//! Checks that an object can be merged: its fields are declared, its values have the right types, and the items of
//! its lists have unique keys. The messages are those of the server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::fields::element_of;
use super::super::schema::{ListType, Type};

/// The errors of an object, one line each: the path, a colon and the reason.
pub fn check_types(ty: &Type, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check_value(ty, value, &mut String::new(), &mut wrong);
    wrong
}

fn check_value(ty: &Type, value: &Value, path: &mut String, wrong: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let expected = match ty.resolve_name() {
        Type::Any | Type::Atomic | Type::Named(_) => None,
        Type::Text => (!value.is_string()).then(|| format!("string, got {}", format_unstructured(value))),
        Type::Boolean => {
            (!value.is_boolean()).then(|| format!("boolean, got {}", format_unstructured(value)))
        }
        Type::Number => {
            (!value.is_number()).then(|| format!("numeric (int or float), got {}", type_name(value)))
        }
        Type::Quantity | Type::IntOrString | Type::Time => {
            let scalar = !value.is_object() && !value.is_array();
            (!scalar).then(|| format!("any scalar, got {value}"))
        }
        Type::Struct(_) | Type::Map { .. } => {
            if value.is_object() {
                check_fields(ty, value, path, wrong);
            }
            (!value.is_object()).then(|| format!("map, got {}", format_unstructured(value)))
        }
        Type::List { item, list_type } => match value.as_array() {
            Some(values) => {
                check_items(item, list_type, values, path, wrong);
                None
            }
            None => Some(format!("list, got {}", format_unstructured(value))),
        },
    };
    if let Some(expected) = expected {
        wrong.push(format!("{path}: expected {expected}"));
    }
}

fn check_fields(ty: &Type, value: &Value, path: &mut String, wrong: &mut Vec<String>) {
    let Some(parts) = ty.parts() else { return };
    let length = path.len();
    for (key, value) in value.as_object().into_iter().flatten() {
        path.push('.');
        path.push_str(key);
        match parts.get(key) {
            Some(ty) => check_value(ty, value, path, wrong),
            None => wrong.push(format!("{path}: field not declared in schema")),
        }
        path.truncate(length);
    }
}

fn check_items(
    ty: &Type,
    list_type: &ListType,
    values: &[Value],
    path: &mut String,
    wrong: &mut Vec<String>,
) {
    let length = path.len();
    let mut seen = BTreeSet::new();
    for (place, value) in values.iter().enumerate() {
        if *list_type == ListType::Atomic {
            path.push_str(&format!("[{place}]"));
        } else {
            match element_of(value, ty, list_type) {
                Err(reason) => {
                    wrong.push(format!("{path}: element {place}: {reason}"));
                    continue;
                }
                Ok(element) if seen.contains(&element) => {
                    wrong.push(format!("{path}: duplicate entries for key {element}"));
                    continue;
                }
                Ok(element) => {
                    path.push_str(&element.to_string());
                    seen.insert(element);
                }
            }
        }
        check_value(ty, value, path, wrong);
        path.truncate(length);
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Null => "<nil>",
    }
}

/// A value, as the server writes it in the message about its type.
fn format_unstructured(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => {
            format!("&value.valueUnstructured{{Value:{}}}", format_go(value))
        }
        scalar => format!("&value.valueUnstructured{{Value:{scalar}}}"),
    }
}

/// A value as Go source.
fn format_go(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<String> =
                map.iter().map(|(k, v)| format!("{k:?}:{}", format_go(v))).collect();
            entries.sort();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_go).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Null => "interface {}(nil)".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// The fields that the schema does not declare, as paths with list indices: they are dropped.
pub fn find_undeclared(ty: &Type, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk_values(ty, value, &mut String::new(), &mut |path, ty, _| {
        if ty.is_none() {
            found.push(path.trim_start_matches('.').to_owned());
        }
    });
    found
}

/// The first value of the wrong type, in the message of the server's decoder.
pub fn find_mistyped(ty: &Type, value: &Value) -> Option<String> {
    let mut found = None;
    walk_values(ty, value, &mut String::new(), &mut |path, ty, value| {
        let Some(wanted) = ty else { return };
        let fits = match wanted.resolve_name() {
            _ if value.is_null() => true,
            Type::Any | Type::Atomic | Type::Named(_) => true,
            Type::Text | Type::Time => value.is_string(),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
            Type::Quantity => crate::normalization::normalize_quantity(value).is_some(),
            Type::IntOrString => value.is_string() || value.is_number(),
            Type::Struct(_) | Type::Map { .. } => value.is_object(),
            Type::List { .. } => value.is_array(),
        };
        if !fits && found.is_none() {
            let path = path.trim_start_matches('.');
            found = Some(format!("json: cannot unmarshal {} into field {path}", type_name(value)));
        }
    });
    found
}

/// Visits every value with its path and its type, if it has one.
fn walk_values(
    ty: &Type,
    value: &Value,
    path: &mut String,
    visit: &mut dyn FnMut(&str, Option<&Type>, &Value),
) {
    visit(path, Some(ty), value);
    let length = path.len();
    match (ty.resolve_name(), value) {
        (Type::List { item, .. }, Value::Array(values)) => {
            for (place, value) in values.iter().enumerate() {
                path.push_str(&format!("[{place}]"));
                walk_values(item, value, path, visit);
                path.truncate(length);
            }
        }
        (Type::Struct(_) | Type::Map { .. }, Value::Object(map)) => {
            let Some(parts) = ty.parts() else { return };
            for (key, value) in map {
                path.push('.');
                path.push_str(key);
                match parts.get(key) {
                    Some(ty) => walk_values(ty, value, path, visit),
                    None => visit(path, None, value),
                }
                path.truncate(length);
            }
        }
        _ => {}
    }
}
