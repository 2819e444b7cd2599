//! A small schema language for the objects that dialects read, and the one checker that walks it.
//!
//! It says what a Kubernetes API server says of an object before anything else looks at it: wrong
//! types, missing and unknown fields, values outside an enumeration or a range. `null` counts as
//! absent, as it does in Go; an unknown field is dropped by the API server and so is only a warning.

use serde_json::Value;

use super::finding::list as listed;
use super::quantity::Quantity;
use super::{Finding, Object};

mod cursor;
mod nearest;

pub use cursor::Cursor;
pub use nearest::nearest;

/// What a value has to be.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A string.
    Text,
    /// A string that is not empty.
    Filled,
    /// One of these strings; an optional field may also be empty.
    OneOf(&'static [&'static str]),
    /// An integer from the first number to the second.
    Integer(i64, i64),
    /// `true` or `false`.
    Bool,
    /// A quantity such as `500m` or `2Gi`.
    Quantity,
    /// A mapping with keys of one's own choice.
    Map(&'static Shape),
    /// A list with at least so many items.
    List(usize, &'static Shape),
    /// A mapping with the fields of all these groups.
    Object(&'static [&'static [Field]]),
    /// Anything.
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
    /// A field that has to be there.
    pub const fn required(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: true }
    }

    /// A field that may be absent.
    pub const fn optional(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: false }
    }
}

/// Everything in which `object` differs from `shape`: errors under `code`, unknown fields as warnings
/// under `unknown-field`, in the order of the object's fields.
pub fn check(object: &Object, shape: &Shape, code: &'static str) -> Vec<Finding> {
    let mut checker = Checker { object, code, findings: Vec::new() };
    checker.value(&Cursor::new(&object.body), shape, true);
    checker.findings
}

struct Checker<'o> {
    object: &'o Object,
    code: &'static str,
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn value(&mut self, at: &Cursor<'_>, shape: &Shape, required: bool) {
        match (shape, at.value()) {
            (Shape::Any, _) | (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => {}
            (Shape::Filled, Value::String(text)) if text.is_empty() => {
                self.refuse(at, "must not be empty", None);
            }
            (Shape::Filled, Value::String(_)) => {}
            (Shape::OneOf(allowed), Value::String(text)) => self.one_of(at, allowed, text, required),
            (Shape::Integer(least, most), Value::Number(number)) => {
                self.integer(at, (*least, *most), number.as_i64());
            }
            (Shape::Quantity, Value::String(_) | Value::Number(_)) => {
                if Quantity::from_json(at.value()).is_none() {
                    self.refuse(at, "is no quantity", Some("write it like `500m`, `2` or `16Gi`".to_owned()));
                }
            }
            (Shape::Map(of), Value::Object(map)) => {
                for key in map.keys() {
                    self.value(&at.entry(key), of, true);
                }
            }
            (Shape::List(least, of), Value::Array(items)) => {
                if items.len() < *least {
                    self.refuse(at, "must have at least one item", None);
                }
                for item in at.items() {
                    self.value(&item, of, true);
                }
            }
            (Shape::Object(groups), Value::Object(_)) => self.fields(at, groups),
            (_, found) => self.wrong_type(at, shape, found),
        }
    }

    fn fields(&mut self, at: &Cursor<'_>, groups: &[&[Field]]) {
        let fields = || groups.iter().copied().flatten();
        for key in at.value().as_object().into_iter().flat_map(serde_json::Map::keys) {
            match fields().find(|f| f.name == key) {
                Some(field) if at.field(key).present() => {
                    self.value(&at.field(key), &field.shape, field.required);
                }
                Some(_) => {}
                None => self.unknown(&at.entry(key), key, &fields().map(|f| f.name).collect::<Vec<_>>()),
            }
        }
        for missing in fields().filter(|f| f.required && !at.field(f.name).present()) {
            let message = format!("{} lacks the required field `{}`", at.described(), missing.name);
            let help = format!("add `{}:` {}", missing.name, expected(&missing.shape));
            self.findings.push(Finding::error(self.code, self.object, message).at(at.pointer()).help(help));
        }
    }

    fn unknown(&mut self, at: &Cursor<'_>, key: &str, known: &[&str]) {
        let message = format!("there is no field {}: the API server drops it silently", at.described());
        let help = match nearest(key, known) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("remove it; fields known here: {}", listed(known, 12)),
        };
        let warning = Finding::warning("unknown-field", self.object, message);
        self.findings.push(warning.at(at.pointer()).help(help));
    }

    fn one_of(&mut self, at: &Cursor<'_>, allowed: &[&str], text: &str, required: bool) {
        if allowed.contains(&text) || (text.is_empty() && !required) {
            return;
        }
        let help = nearest(text, allowed).map(|name| format!("did you mean `{name}`?"));
        self.refuse(at, &format!("is `{text}`, but must be one of {}", allowed.join(", ")), help);
    }

    fn integer(&mut self, at: &Cursor<'_>, (least, most): (i64, i64), number: Option<i64>) {
        match number {
            None => self.wrong_type(at, &Shape::Integer(least, most), at.value()),
            Some(number) if number < least => self.refuse(at, &format!("must be {least} or more"), None),
            Some(number) if number > most => self.refuse(at, &format!("must be {most} or less"), None),
            Some(_) => {}
        }
    }

    /// The value itself is not shown: it may be a secret put in the wrong place.
    fn wrong_type(&mut self, at: &Cursor<'_>, shape: &Shape, found: &Value) {
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
        let what = format!("must be {}, but is {}", expected(shape), actual(found));
        self.refuse(at, &what, help.map(str::to_owned));
    }

    fn refuse(&mut self, at: &Cursor<'_>, what: &str, help: Option<String>) {
        let message = format!("{} {what}", at.described());
        let mut finding = Finding::error(self.code, self.object, message).at(at.pointer());
        finding.help = help;
        self.findings.push(finding);
    }
}

fn expected(shape: &Shape) -> String {
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

fn actual(value: &Value) -> &'static str {
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
