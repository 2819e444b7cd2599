//! Whether JSON can be read as a built-in type, as strictly as Go reads it.

use federate_apiserver_model::schema::Type;
use federate_kubernetes::quantity::Quantity;
use serde_json::Value;

/// Checks that a value has a type. Unknown fields are ignored, and null counts as absent.
pub fn check_type(ty: &Type, value: &Value) -> Result<(), String> {
    let mut path = String::new();
    check_value(ty, value, &mut path)
}

fn check_value(ty: &Type, value: &Value, path: &mut String) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let (expected, holds) = match ty.resolve_name() {
        Type::Any | Type::Atomic | Type::Named(_) => return Ok(()),
        Type::Text | Type::Time => ("a string", value.is_string()),
        Type::Number => ("an integer", value.is_i64()),
        Type::Boolean => ("true or false", value.is_boolean()),
        Type::Quantity => ("a quantity", Quantity::from_json(value).is_some()),
        Type::IntOrString => ("an integer or a string", value.is_i64() || value.is_string()),
        Type::Struct(fields) => match value.as_object() {
            Some(map) => {
                for (key, value) in map {
                    let ty = fields.fields.get(key).map(|field| &field.ty).or(fields.rest.as_deref());
                    if let Some(ty) = ty {
                        check_child(ty, value, path, &format!(".{key}"))?;
                    }
                }
                return Ok(());
            }
            None => ("a mapping", false),
        },
        Type::Map { value: of, .. } => match value.as_object() {
            Some(map) => {
                return map
                    .iter()
                    .try_for_each(|(key, value)| check_child(of, value, path, &format!(".{key}")));
            }
            None => ("a mapping", false),
        },
        Type::List { item, .. } => match value.as_array() {
            Some(items) => {
                let mut items = items.iter().enumerate();
                return items.try_for_each(|(at, value)| check_child(item, value, path, &format!("[{at}]")));
            }
            None => ("a list", false),
        },
    };
    if holds { Ok(()) } else { Err(format!("`{}` must be {expected}", path.trim_start_matches('.'))) }
}

fn check_child(ty: &Type, value: &Value, path: &mut String, step: &str) -> Result<(), String> {
    let length = path.len();
    path.push_str(step);
    check_value(ty, value, path)?;
    path.truncate(length);
    Ok(())
}
