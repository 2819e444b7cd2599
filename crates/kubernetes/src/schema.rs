//! A small schema language for the objects of dialects, and its checker.
//!
//! It reports what a Kubernetes API server reports for an object: wrong types, missing and unknown fields,
//! values outside of an enumeration or a range. `null` counts as absent, as in Go. An unknown field is only a
//! warning, because the API server drops it.

use crate::pointer;
use serde_json::{Map, Value};

use super::finding::join_names as listed;
use super::quantity::Quantity;
use super::{Finding, Object};

mod crd;
mod cursor;
mod nearest;
mod refusals;

pub use crd::{Schema, read_field};
pub use cursor::Cursor;
pub use nearest::{find_nearest, find_similar};
pub use refusals::{Refusals, SpecRules, check_by};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A string.
    Text,
    /// A string that is not empty.
    Filled,
    /// One of these strings; an optional field may also be empty.
    OneOf(&'static [&'static str]),
    /// An integer in this inclusive range.
    Integer(i64, i64),
    /// `true` or `false`.
    Bool,
    /// A quantity such as `500m` or `2Gi`.
    Quantity,
    /// A mapping with arbitrary keys.
    Map(&'static Shape),
    /// A list with at least this number of items.
    List(usize, &'static Shape),
    /// A mapping with the fields of all these groups.
    Object(&'static [&'static [Field]]),
    /// Any value.
    Any,
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name: &'static str,
    shape: Shape,
    required: bool,
}

impl Field {
    /// A required field.
    pub const fn required(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: true }
    }

    /// An optional field.
    pub const fn optional(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: false }
    }
}

/// The metadata of an object.
const METADATA: Shape = Shape::Object(&[&[
    Field::optional("annotations", Shape::Any),
    Field::optional("creationTimestamp", Shape::Any),
    Field::optional("deletionGracePeriodSeconds", Shape::Any),
    Field::optional("deletionTimestamp", Shape::Any),
    Field::optional("finalizers", Shape::Any),
    Field::optional("generateName", Shape::Any),
    Field::optional("generation", Shape::Any),
    Field::optional("labels", Shape::Any),
    Field::optional("managedFields", Shape::Any),
    Field::optional("name", Shape::Any),
    Field::optional("namespace", Shape::Any),
    Field::optional("ownerReferences", Shape::Any),
    Field::optional("resourceVersion", Shape::Any),
    Field::optional("selfLink", Shape::Any),
    Field::optional("uid", Shape::Any),
]]);

/// Checks `object` against `shape`: reports errors under `code`, and unknown fields as warnings under
/// `unknown-field`, in the order of the object's fields.
pub fn check_shape(object: &Object, shape: &Shape, code: &'static str) -> Vec<Finding> {
    let mut checker = Checker { object, code, pointer: String::new(), findings: Vec::new() };
    checker.check_value(&object.body, shape, true);
    checker.findings
}

/// Reports unknown fields in the metadata of an object as warnings under `unknown-field`.
pub fn check_metadata(object: &Object) -> Vec<Finding> {
    let mut checker = Checker { object, code: "unknown-field", pointer: String::new(), findings: Vec::new() };
    if let Some(metadata @ Value::Object(_)) = object.body.get("metadata") {
        checker.check_below("metadata", |c| c.check_value(metadata, &METADATA, true));
    }
    checker.findings
}

struct Checker<'o> {
    object: &'o Object,
    code: &'static str,
    /// The current place.
    pointer: String,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn check_value(&mut self, value: &Value, shape: &Shape, required: bool) {
        match (shape, value) {
            (Shape::Any, _) | (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => {}
            (Shape::Filled, Value::String(text)) => {
                if text.is_empty() {
                    self.report_error("must not be empty", None);
                }
            }
            (Shape::OneOf(allowed), Value::String(text)) => self.one_of(allowed, text, required),
            (Shape::Integer(least, most), Value::Number(_)) => self.check_integer(value, *least, *most),
            (Shape::Quantity, Value::String(_) | Value::Number(_)) => {
                if Quantity::from_json(value).is_none() {
                    self.report_error(
                        "is not a quantity",
                        Some("write it like `500m`, `2` or `16Gi`".to_owned()),
                    );
                }
            }
            (Shape::Map(of), Value::Object(map)) => {
                for (key, value) in map {
                    self.check_below(&pointer::escape(key), |c| c.check_value(value, of, true));
                }
            }
            (Shape::List(least, of), Value::Array(items)) => {
                if items.len() < *least {
                    self.report_error("must have at least one item", None);
                }
                for (index, item) in items.iter().enumerate() {
                    self.check_below(&index.to_string(), |c| c.check_value(item, of, true));
                }
            }
            (Shape::Object(groups), Value::Object(map)) => self.check_fields(map, groups),
            _ => self.wrong_type(shape, value),
        }
    }

    /// Runs a check one level deeper.
    fn check_below(&mut self, token: &str, act: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(token);
        act(self);
        self.pointer.truncate(length);
    }

    fn check_fields(&mut self, map: &Map<String, Value>, groups: &[&[Field]]) {
        let fields = groups.iter().copied().flatten();
        for (key, value) in map {
            match fields.clone().find(|field| field.name == key) {
                Some(_) if value.is_null() => {}
                Some(field) => {
                    self.check_below(field.name, |c| c.check_value(value, &field.shape, field.required));
                }
                None => {
                    let known: Vec<&str> = fields.clone().map(|field| field.name).collect();
                    self.check_below(&pointer::escape(key), |c| c.report_unknown_field(key, &known));
                }
            }
        }
        for missing in fields.filter(|field| field.required && map.get(field.name).is_none_or(Value::is_null))
        {
            let help = format!("add `{}:` {}", missing.name, describe_shape(&missing.shape));
            self.report_error(&format!("is missing the required field `{}`", missing.name), Some(help));
        }
    }

    fn report_unknown_field(&mut self, key: &str, known: &[&str]) {
        let (message, near) = if key.is_empty() {
            let parent = self.pointer.strip_suffix('/').unwrap_or_default();
            let message = format!(
                "a field of {} has an empty name: the API server drops it silently",
                describe_pointer(parent)
            );
            (message, None)
        } else {
            let field = describe_pointer(&self.pointer);
            (format!("unknown field {field}: the API server drops it silently"), find_nearest(key, known))
        };
        let help = match near {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("remove it; fields known here: {}", listed(known, 12)),
        };
        let warning = Finding::warning("unknown-field", self.object, message);
        self.findings.push(warning.with_pointer(self.pointer.clone()).with_help(help));
    }

    fn one_of(&mut self, allowed: &[&str], text: &str, required: bool) {
        if allowed.contains(&text) || (text.is_empty() && !required) {
            return;
        }
        let help = find_nearest(text, allowed).map(|name| format!("did you mean `{name}`?"));
        self.report_error(&format!("is `{text}`, but must be one of {}", allowed.join(", ")), help);
    }

    fn check_integer(&mut self, value: &Value, least: i64, most: i64) {
        match value.as_i64() {
            None => self.wrong_type(&Shape::Integer(least, most), value),
            Some(number) if number < least => self.report_error(&format!("must be {least} or more"), None),
            Some(number) if number > most => self.report_error(&format!("must be {most} or less"), None),
            Some(_) => {}
        }
    }

    /// The value itself is not shown, because it may be a secret in the wrong place.
    fn wrong_type(&mut self, shape: &Shape, found: &Value) {
        let help = match (shape, found) {
            (Shape::Text | Shape::Filled | Shape::OneOf(_), Value::Bool(_) | Value::Number(_)) => {
                Some("put the value in quotes to make it text")
            }
            (Shape::Integer(..) | Shape::Bool, Value::String(_)) => Some("write the value without quotes"),
            (Shape::List(..), Value::String(_) | Value::Object(_)) => {
                Some("write it as a list: `- ` before each item")
            }
            _ => None,
        };
        let what = format!("must be {}, but is {}", describe_shape(shape), describe_value(found));
        self.report_error(&what, help.map(str::to_owned));
    }

    fn report_error(&mut self, what: &str, help: Option<String>) {
        let message = format!("{} {what}", describe_pointer(&self.pointer));
        let mut finding = Finding::error(self.code, self.object, message).with_pointer(self.pointer.clone());
        finding.help = help;
        self.findings.push(finding);
    }
}

/// A JSON pointer in readable form: `` `spec.taints[0].key` ``, or `the object`.
fn describe_pointer(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        if token.parse::<usize>().is_ok() {
            path.extend(["[", token, "]"]);
        } else {
            let dot = if path.is_empty() { "" } else { "." };
            path.extend([dot, &pointer::unescape(token)]);
        }
    }
    if path.is_empty() { "the object".to_owned() } else { format!("`{path}`") }
}

fn describe_shape(shape: &Shape) -> String {
    match shape {
        Shape::Text | Shape::Filled => "text".to_owned(),
        Shape::OneOf(allowed) => format!("one of {}", allowed.join(", ")),
        Shape::Integer(..) => "a whole number".to_owned(),
        Shape::Bool => "true or false".to_owned(),
        Shape::Quantity => "a quantity".to_owned(),
        Shape::Map(_) | Shape::Object(_) => "a mapping".to_owned(),
        Shape::List(..) => "a list".to_owned(),
        Shape::Any => "a value".to_owned(),
    }
}

fn describe_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false without quotes",
        Value::Number(n) if n.as_i64().is_none() => "a number with a fraction or beyond 64 bits",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests;
