//! The text of new values, in the style of their surroundings.

use serde::Serialize;
use serde_json::{Map, Value};

/// An entry of a block mapping from its first column; each line ends in `\n`.
pub(super) fn format_entry(key: &str, value: &Value, step: usize) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut out = format_block(key, &Value::Null);
            out.truncate(out.len() - " null\n".len());
            out.push('\n');
            for (key, value) in map {
                indent_lines(&format_entry(key, value, step), step, &mut out);
            }
            out
        }
        other => format_block(key, other),
    }
}

fn format_block(key: &str, value: &Value) -> String {
    let mut out = String::new();
    let entry: Map<String, Value> = [(key.to_owned(), value.clone())].into_iter().collect();
    crate::write_document(&Value::Object(entry), &mut out);
    out
}

/// Appends lines with more indentation.
pub(super) fn indent_lines(lines: &str, by: usize, out: &mut String) {
    for line in lines.split_inclusive('\n') {
        if line.trim_end_matches(['\r', '\n']).is_empty() {
            out.push_str(line);
        } else {
            out.push_str(&" ".repeat(by));
            out.push_str(line);
        }
    }
}

/// A value in a flow collection, or on the line of its key.
pub(super) fn format_flow(value: &Value, json: bool) -> String {
    if json {
        return value.to_string();
    }
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| format_flow(item, json)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", format_flow_string(key), format_flow(value, json)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::String(string) => format_flow_string(string),
        other => other.to_string(),
    }
}

/// A JSON value on several lines, with its parts indented `step` deeper than `margin`.
pub(super) fn flow_lines(value: &Value, json: bool, margin: &str, step: &str, eol: &str) -> String {
    let mut out = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(step.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, format);
    match (json, value.serialize(&mut serializer), String::from_utf8(out)) {
        (true, Ok(()), Ok(text)) => text.replace('\n', &format!("{eol}{margin}")),
        _ => format_flow(value, json),
    }
}

/// A string in a flow collection, without quotes if it is unambiguous.
pub(super) fn format_flow_string(string: &str) -> String {
    let mut written = String::new();
    crate::write_document(&Value::String(string.to_owned()), &mut written);
    let written = written.trim_end_matches('\n');
    let single = written.starts_with('\'') && !written.contains('\n');
    let bare = string == written && !string.contains([',', '[', ']', '{', '}', ':', '?', '#']);
    if single || bare { written.to_owned() } else { quote_string(string) }
}

/// A string in double quotes.
pub(super) fn quote_string(string: &str) -> String {
    Value::String(string.to_owned()).to_string()
}
