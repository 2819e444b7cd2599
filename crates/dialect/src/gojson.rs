//! JSON as Go's `encoding/json` writes it. Control planes hash it, and keep it in annotations.
//!
//! Facts: the form is compact, and the keys of maps are sorted. `<`, `>`, `&` and the line separators are
//! escaped. A float has its shortest digits, and an exponent only below 1e-6 and from 1e21 on.

use serde_json::{Map, Number, Value};

/// The value as Go writes it, without a newline.
pub fn write_sorted(value: &Value) -> String {
    let mut text = String::new();
    append_value(value, true, &mut text);
    text
}

/// The value as Go writes structs: the keys stay in the order given.
pub fn write_fields(value: &Value) -> String {
    let mut text = String::new();
    append_value(value, false, &mut text);
    text
}

fn append_value(value: &Value, sort: bool, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => append_quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                append_separator(index, out);
                append_value(item, sort, out);
            }
            out.push(']');
        }
        Value::Object(map) => append_object(map, sort, out),
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
    }
}

fn append_object(map: &Map<String, Value>, sort: bool, out: &mut String) {
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    if sort {
        entries.sort_by_key(|(key, _)| *key);
    }
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        append_separator(index, out);
        append_quoted(key, out);
        out.push(':');
        append_value(value, sort, out);
    }
    out.push('}');
}

fn append_separator(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

/// A text in quotes.
pub fn append_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A number: what does not fit 64 bits is a float.
fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(float)) => float_text(float),
        _ => number.to_string(),
    }
}

fn float_text(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_and_some_characters_escaped() {
        let value = json!({"b": [1, true, null], "a": "<é&\u{2028}\"\\\n\u{1}>"});
        let want = r#"{"a":"\u003cé\u0026\u2028\"\\\n\u0001\u003e","b":[1,true,null]}"#;
        assert_eq!(write_sorted(&value), want);
    }

    #[test]
    fn floats_have_an_exponent_only_far_out() {
        for (value, want) in [
            (json!(1.5), "1.5"),
            (json!(3.0), "3"),
            (json!(1e20), "100000000000000000000"),
            (json!(1e21), "1e+21"),
            (json!(1.25e-7), "1.25e-7"),
            (json!(-2.5e30), "-2.5e+30"),
            (json!(u64::MAX), "18446744073709552000"),
            (json!(i64::MIN), "-9223372036854775808"),
        ] {
            assert_eq!(write_sorted(&value), want);
        }
    }
}
