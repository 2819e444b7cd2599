//! JSON as Go writes and reads it.

use serde_json::{Map, Number, Value};

use crate::budget::TemplateBudget;
use crate::error::TemplateFailure;
use crate::number::format_float;
use crate::text::{GoText, chars};
use crate::value::{GoValue, descend};

/// How JSON is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonStyle {
    /// Two blanks per level, and lines.
    pub(crate) pretty: bool,
    /// `<`, `>` and `&` as `\u003c`, `\u003e` and `\u0026`.
    pub(crate) escapes_html: bool,
}

/// Writes a value.
pub(crate) fn write_json(
    value: &GoValue,
    style: JsonStyle,
    budget: &mut TemplateBudget,
) -> Result<GoText, TemplateFailure> {
    let mut writer = JsonWriter { out: Vec::new(), style, budget };
    writer.write_value(value, 0)?;
    Ok(writer.out.into())
}

struct JsonWriter<'b> {
    out: Vec<u8>,
    style: JsonStyle,
    budget: &'b mut TemplateBudget,
}

impl JsonWriter<'_> {
    fn push(&mut self, text: &str) -> Result<(), TemplateFailure> {
        self.budget.spend_bytes(text.len())?;
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn write_value(&mut self, value: &GoValue, depth: usize) -> Result<(), TemplateFailure> {
        self.budget.spend_steps(1)?;
        match value {
            GoValue::Nil => self.push("null"),
            GoValue::Bool(bool) => self.push(if *bool { "true" } else { "false" }),
            GoValue::Int(_, number) => self.push(&number.to_string()),
            GoValue::Uint(_, number) => self.push(&number.to_string()),
            GoValue::Float(number) => {
                let text = write_json_float(*number)?;
                self.push(&text)
            }
            GoValue::Text(text) => self.write_text(text.bytes()),
            GoValue::List(list) if list.is_nil() => self.push("null"),
            GoValue::List(list) => {
                let deeper = descend(depth)?;
                self.push("[")?;
                for (at, item) in list.items().iter().enumerate() {
                    self.begin_item(at, deeper)?;
                    self.write_value(item, deeper)?;
                }
                self.end_items(list.items().len(), depth)?;
                self.push("]")
            }
            GoValue::Map(map) if map.is_nil() => self.push("null"),
            GoValue::Map(map) => {
                let deeper = descend(depth)?;
                self.push("{")?;
                for (at, (key, value)) in map.entries().into_iter().enumerate() {
                    self.begin_item(at, deeper)?;
                    self.write_text(key.bytes())?;
                    self.push(if self.style.pretty { ": " } else { ":" })?;
                    self.write_value(&value, deeper)?;
                }
                self.end_items(map.len(), depth)?;
                self.push("}")
            }
            GoValue::Time(time) => self.write_text(time.format_rfc3339().as_bytes()),
            GoValue::Version(version) => self.write_text(version.to_string().as_bytes()),
        }
    }

    fn begin_item(&mut self, at: usize, depth: usize) -> Result<(), TemplateFailure> {
        if at > 0 {
            self.push(",")?;
        }
        self.break_line(depth)
    }

    fn end_items(&mut self, count: usize, depth: usize) -> Result<(), TemplateFailure> {
        if count > 0 { self.break_line(depth) } else { Ok(()) }
    }

    fn break_line(&mut self, depth: usize) -> Result<(), TemplateFailure> {
        if self.style.pretty { self.push(&format!("\n{}", "  ".repeat(depth))) } else { Ok(()) }
    }

    fn write_text(&mut self, bytes: &[u8]) -> Result<(), TemplateFailure> {
        self.push("\"")?;
        for (part, c) in chars(bytes) {
            match c {
                '"' => self.push("\\\"")?,
                '\\' => self.push("\\\\")?,
                '\n' => self.push("\\n")?,
                '\r' => self.push("\\r")?,
                '\t' => self.push("\\t")?,
                '\u{8}' => self.push("\\b")?,
                '\u{c}' => self.push("\\f")?,
                '<' | '>' | '&' if self.style.escapes_html => {
                    self.push(&format!("\\u{:04x}", u32::from(c)))?;
                }
                c if c < ' ' || matches!(c, '\u{2028}' | '\u{2029}') => {
                    self.push(&format!("\\u{:04x}", u32::from(c)))?;
                }
                char::REPLACEMENT_CHARACTER if part.len() == 1 => self.push("\\ufffd")?,
                c => self.push(c.encode_utf8(&mut [0; 4]))?,
            }
        }
        self.push("\"")
    }
}

/// A number with an exponent only if it is very small or very large.
fn write_json_float(number: f64) -> Result<String, TemplateFailure> {
    if !number.is_finite() {
        return Err(TemplateFailure::function("json: unsupported value: not a finite number"));
    }
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        return Ok(format_float(number, 'f', None, false));
    }
    let text = format_float(number, 'e', None, false);
    Ok(text.replace("e-0", "e-"))
}

/// The value as the YAML writer takes it: numbers are what their JSON is in YAML.
pub(crate) fn to_yaml_value(
    value: &GoValue,
    depth: usize,
    budget: &mut TemplateBudget,
) -> Result<Value, TemplateFailure> {
    budget.spend_steps(1)?;
    Ok(match value {
        GoValue::Nil => Value::Null,
        GoValue::Bool(bool) => Value::Bool(*bool),
        GoValue::Int(_, number) => Value::from(*number),
        GoValue::Uint(_, number) => Value::from(*number),
        GoValue::Float(number) => read_yaml_number(&write_json_float(*number)?, *number),
        GoValue::Text(text) => {
            budget.spend_bytes(text.bytes().len())?;
            Value::String(text.to_valid().into_owned())
        }
        GoValue::List(list) if list.is_nil() => Value::Null,
        GoValue::List(list) => {
            let deeper = descend(depth)?;
            let items = list.items().iter().map(|item| to_yaml_value(item, deeper, budget));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        GoValue::Map(map) if map.is_nil() => Value::Null,
        GoValue::Map(map) => {
            let deeper = descend(depth)?;
            let mut entries = Map::new();
            for (key, value) in map.entries() {
                budget.spend_bytes(key.bytes().len())?;
                entries.insert(key.to_valid().into_owned(), to_yaml_value(&value, deeper, budget)?);
            }
            Value::Object(entries)
        }
        GoValue::Time(time) => Value::String(time.format_rfc3339()),
        GoValue::Version(version) => Value::String(version.to_string()),
    })
}

/// The number that a JSON text is in YAML: an integer if it looks like one that fits.
fn read_yaml_number(text: &str, number: f64) -> Value {
    if let Ok(int) = text.parse::<i64>() {
        return Value::from(int);
    }
    if let Ok(int) = text.parse::<u64>() {
        return Value::from(int);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}
