//! Holds an object against a compact description of its kind: types, required fields, enumerations,
//! unknown fields.
//!
//! A description says no more than what people get wrong; an API server says the same and more. `null`
//! counts as absent, as in Go. Unknown fields are only warned of, because the server drops them.

use serde_json::{Map, Value};

use crate::patch::escape;

/// What a field may hold.
#[derive(Clone, Copy)]
pub enum Type {
    /// Text.
    Text,
    /// A whole number, at least this.
    Integer(i64),
    /// `true` or `false`.
    Boolean,
    /// One of these words; the empty text counts as absent.
    OneOf(&'static [&'static str]),
    /// A mapping of text to text.
    TextMap,
    /// A list.
    List(&'static Type),
    /// A mapping with these fields.
    Object(&'static [Field]),
    /// Anything.
    Any,
}

/// A field of an object.
#[derive(Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub is: Type,
    /// Whether it must be there; a list must also not be empty, nor a text.
    pub required: bool,
}

/// A field that may be left out.
pub const fn optional(name: &'static str, is: Type) -> Field {
    Field { name, is, required: false }
}

/// A field that must be there.
pub const fn required(name: &'static str, is: Type) -> Field {
    Field { name, is, required: true }
}

/// Something that does not fit a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// The field that was probably meant.
    pub meant: Option<&'static str>,
    /// Whether the server would only drop it.
    pub dropped: bool,
}

/// Everything below `value` (at `pointer`) that does not fit.
pub fn check(value: &Value, is: Type, pointer: &str) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    walk(value, is, pointer, &mut misfits);
    misfits
}

fn walk(value: &Value, is: Type, pointer: &str, misfits: &mut Vec<Misfit>) {
    let mut wrong = |message: String| {
        misfits.push(Misfit { pointer: pointer.to_owned(), message, meant: None, dropped: false });
    };
    match (is, value) {
        (_, Value::Null)
        | (Type::Any, _)
        | (Type::Text, Value::String(_))
        | (Type::Boolean, Value::Bool(_)) => {}
        (Type::Integer(least), Value::Number(number)) => match number.as_i64() {
            Some(number) if number >= least => {}
            Some(number) => wrong(format!("{number} is too small: it must be at least {least}")),
            None => wrong(format!("{number} is no whole number")),
        },
        (Type::OneOf(words), Value::String(text)) => {
            if !text.is_empty() && !words.contains(&text.as_str()) {
                wrong(format!("`{text}` is not one of {}", words.join(", ")));
            }
        }
        (Type::TextMap, Value::Object(map)) => {
            for (key, value) in map {
                walk(value, Type::Text, &format!("{pointer}/{}", escape(key)), misfits);
            }
        }
        (Type::List(of), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, *of, &format!("{pointer}/{index}"), misfits);
            }
        }
        (Type::Object(fields), Value::Object(map)) => object(map, fields, pointer, misfits),
        (is, value) => wrong(format!("{} is expected here, not {}", noun(is), kind(value))),
    }
}

fn object(map: &Map<String, Value>, fields: &'static [Field], pointer: &str, misfits: &mut Vec<Misfit>) {
    for field in fields {
        match map.get(field.name) {
            Some(value) if !(field.required && is_empty(value)) => {
                walk(value, field.is, &format!("{pointer}/{}", field.name), misfits);
            }
            _ if field.required => misfits.push(Misfit {
                pointer: pointer.to_owned(),
                message: format!("`{}` is missing", field.name),
                meant: None,
                dropped: false,
            }),
            _ => {}
        }
    }
    for key in map.keys().filter(|key| fields.iter().all(|field| field.name != *key)) {
        misfits.push(Misfit {
            pointer: format!("{pointer}/{}", escape(key)),
            message: format!("`{key}` is no field here, so it has no effect"),
            meant: fields.iter().map(|f| f.name).find(|name| close(key, name)),
            dropped: true,
        });
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn noun(is: Type) -> &'static str {
    match is {
        Type::Text | Type::OneOf(_) => "text",
        Type::Integer(_) => "a whole number",
        Type::Boolean => "true or false",
        Type::TextMap | Type::Object(_) => "a mapping",
        Type::List(_) => "a list",
        Type::Any => "anything",
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Whether one word becomes the other, case aside, by at most two edits.
fn close(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().is_some_and(|edits| *edits <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KIND: Type = Type::Object(&[
        required("name", Type::Text),
        optional("weight", Type::Integer(1)),
        optional("mode", Type::OneOf(&["A", "B"])),
        optional("labels", Type::TextMap),
        optional("items", Type::List(&Type::Object(&[optional("on", Type::Boolean)]))),
    ]);

    fn found(value: &Value) -> Vec<(String, bool)> {
        check(value, KIND, "/spec").into_iter().map(|m| (m.pointer, m.dropped)).collect()
    }

    #[test]
    fn fits() {
        let value =
            json!({"name": "n", "weight": 2, "mode": null, "labels": {"a": "b"}, "items": [{"on": true}]});
        assert_eq!(found(&value), []);
    }

    #[test]
    fn every_misfit_is_found_at_its_place() {
        let value =
            json!({"name": "", "weight": 0, "mode": "C", "labels": {"a/b": 1}, "items": [{"on": "yes"}]});
        let pointers: Vec<String> = found(&value).into_iter().map(|(pointer, _)| pointer).collect();
        assert_eq!(
            pointers,
            ["/spec", "/spec/weight", "/spec/mode", "/spec/labels/a~1b", "/spec/items/0/on"]
        );
    }

    #[test]
    fn a_typo_is_dropped_with_a_suggestion() {
        let misfits = check(&json!({"name": "n", "wieght": 2}), KIND, "/spec");
        assert_eq!((misfits[0].meant, misfits[0].dropped), (Some("weight"), true));
    }
}
