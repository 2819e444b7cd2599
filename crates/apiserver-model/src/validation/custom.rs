//! Custom resources, by the schema of their kind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use regex::Regex;
use serde_json::{Value, json};

use federate_kubernetes::work;

use super::super::custom::CustomResource;
use super::super::failure::StatusCause;
use super::super::typed::are_equal;
use super::text_below;

/// The errors of an object, or of its change.
pub(super) fn find_causes(custom: &CustomResource, object: &Value, live: Option<&Value>) -> Vec<StatusCause> {
    let schema = &custom.schema;
    let mut causes = Vec::new();
    validate_value(schema, object, "", &mut Enumerations::default(), &mut causes);
    causes.extend(scale_cause(custom, object));
    let blocked = causes.iter().any(|cause| cause.reason != "FieldValueInvalid");
    if !has_rules(schema) {
        return causes;
    }
    if blocked {
        let why = "some validation rules were not checked because the object was invalid; correct the existing \
                   errors to complete validation";
        causes.push(StatusCause::invalid("<nil>", &Value::Null, why));
    } else if let Some(live) = live {
        check_transitions(schema, live, object, "", &mut causes);
    }
    causes
}

/// The value that the subresource `scale` reads must be a number.
fn scale_cause(custom: &CustomResource, object: &Value) -> Option<StatusCause> {
    let path = custom.replicas.as_deref()?;
    let value = object.pointer(&path.replace('.', "/"))?;
    let text = value.as_str()?;
    let why = format!("{path} accessor error: {text} is of the type string, expected int64");
    Some(StatusCause::invalid(path, &json!(0), &why))
}

fn join_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn validate_value<'s>(
    schema: &'s Value,
    value: &Value,
    path: &str,
    enumerations: &mut Enumerations<'s>,
    causes: &mut Vec<StatusCause>,
) {
    if value.is_null() || work::is_exceeded() {
        return;
    }
    let found = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.as_f64().is_some_and(|f| f.fract() == 0.0) => "integer",
        _ => "number",
    };
    let wanted = text_below(schema, "type");
    let fits = wanted.is_empty() || wanted == found || (wanted == "number" && found == "integer");
    if !fits {
        let message = format!("Invalid value: {found:?}: {path} in body must be of type {wanted}: {found:?}");
        causes.push(StatusCause::new("FieldValueTypeInvalid", path, message));
        if found == "number" {
            let message = format!(
                "Invalid value: \"\": Checked value must be of type {wanted} (default format) in {path}"
            );
            causes.push(StatusCause::new("FieldValueInvalid", "<nil>", message));
        }
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !enumerations.allows_value(allowed, value)
    {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        causes.push(StatusCause::unsupported(path, value, &allowed));
    }
    check_limits(schema, value, path, causes);
    match value {
        Value::Object(map) => {
            let required = schema.get("required").and_then(Value::as_array);
            work::charge_items(required.map_or(0, Vec::len));
            for key in required.into_iter().flatten() {
                let key = key.as_str().unwrap_or_default();
                if !map.contains_key(key) {
                    causes.push(StatusCause::required(join_path(path, key), ""));
                }
            }
            let mut parts: Vec<(&String, &Value)> = map.iter().collect();
            parts.sort_by_key(|(key, _)| *key);
            for (key, value) in parts.into_iter().filter(|(key, _)| !(path.is_empty() && *key == "metadata"))
            {
                let below = schema.get("properties").and_then(|p| p.get(key));
                let below = below.or_else(|| schema.get("additionalProperties").filter(|a| a.is_object()));
                if let Some(below) = below {
                    validate_value(below, value, &join_path(path, key), enumerations, causes);
                }
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                if let Some(below) = schema.get("items") {
                    validate_value(below, item, &format!("{path}[{place}]"), enumerations, causes);
                }
            }
        }
        _ => {}
    }
}

fn check_limits(schema: &Value, value: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    if let Some(number) = value.as_f64() {
        if let Some(most) = limit_of(schema, "maximum").filter(|most| number > *most) {
            let why = format!("{path} in body should be less than or equal to {most}");
            causes.push(StatusCause::invalid(path, value, &why));
        }
        if let Some(least) = limit_of(schema, "minimum").filter(|least| number < *least) {
            let why = format!("{path} in body should be greater than or equal to {least}");
            causes.push(StatusCause::invalid(path, value, &why));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below the limit")]
    let length = match value {
        Value::String(text) => text.chars().count() as f64,
        Value::Array(items) => items.len() as f64,
        Value::Object(map) => map.len() as f64,
        _ => return,
    };
    let (least, most, unit) = match value {
        Value::String(_) => ("minLength", "maxLength", "chars long"),
        Value::Array(_) => ("minItems", "maxItems", "items"),
        _ => ("minProperties", "maxProperties", "properties"),
    };
    if let Some(least) = limit_of(schema, least).filter(|least| length < *least) {
        let verb = if value.is_string() { "be" } else { "have" };
        let why = format!("{path} in body should {verb} at least {least} {unit}");
        causes.push(StatusCause::invalid(path, value, &why));
    }
    if let Some(most) = limit_of(schema, most).filter(|most| length > *most) {
        let cause = if value.is_string() {
            StatusCause::new(
                "FieldValueTooLong",
                path,
                format!("Too long: may not be more than {most} bytes"),
            )
        } else {
            let message = format!("Too many: {length}: must have at most {most} items");
            StatusCause::new("FieldValueTooMany", path, message)
        };
        causes.push(cause);
    }
    if let (Some(pattern), Some(text)) = (schema.get("pattern").and_then(Value::as_str), value.as_str())
        && compile_pattern(pattern).is_some_and(|pattern| !pattern.is_match(text))
    {
        let why = format!("{path} in body should match '{pattern}'");
        causes.push(StatusCause::invalid(path, value, &why));
    }
}

/// A number of a schema, such as `maximum`.
fn limit_of(schema: &Value, key: &str) -> Option<f64> {
    schema.get(key).and_then(Value::as_f64)
}

/// The most compiled patterns that are kept.
const MAX_KEPT: usize = 256;

/// Compiles a pattern; `None` if it is not valid. Patterns are kept, because the objects of a repo share their schemas.
fn compile_pattern(pattern: &str) -> Option<Arc<Regex>> {
    static COMPILED: Mutex<BTreeMap<String, Option<Arc<Regex>>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = compiled.get(pattern) {
        return known.clone();
    }
    if compiled.len() == MAX_KEPT {
        compiled.clear();
    }
    let made = Regex::new(pattern).ok().map(Arc::new);
    compiled.insert(pattern.to_owned(), made.clone());
    made
}

/// The most allowed values that are compared one by one.
const FEW_ALLOWED: usize = 64;

/// The enumerations of a schema with many values, as sets. An object may have values of one enumeration at many places.
#[derive(Default)]
struct Enumerations<'s>(HashMap<*const Value, HashSet<&'s Value>>);

impl<'s> Enumerations<'s> {
    fn allows_value(&mut self, allowed: &'s [Value], value: &Value) -> bool {
        if allowed.len() <= FEW_ALLOWED {
            return allowed.contains(value);
        }
        self.0.entry(allowed.as_ptr()).or_insert_with(|| allowed.iter().collect()).contains(value)
    }
}

/// Whether the schema has validation rules (CEL).
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("x-kubernetes-validations") || map.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// The only CEL rule that is evaluated: an immutable value.
fn check_transitions(
    schema: &Value,
    live: &Value,
    object: &Value,
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    for rule in schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        let text = text_below(rule, "rule");
        if text.replace(' ', "") == "self==oldSelf" && !are_equal(live, object) {
            let why = match text_below(rule, "message") {
                "" => format!("failed rule: {text}"),
                message => message.to_owned(),
            };
            causes.push(StatusCause::invalid(path, &summarize_value(object), &why));
        }
    }
    for (key, below) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let (Some(live), Some(object)) = (live.get(key), object.get(key)) {
            check_transitions(below, live, object, &join_path(path, key), causes);
        }
    }
}

/// A value, as messages show it: mappings and lists by their type.
fn summarize_value(value: &Value) -> Value {
    match value {
        Value::Object(_) => json!("object"),
        Value::Array(_) => json!("array"),
        scalar => scalar.clone(),
    }
}
