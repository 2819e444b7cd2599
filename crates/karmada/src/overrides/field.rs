//! `fieldOverrider`: patches the JSON or YAML document that a string field holds.
//!
//! Facts: JSON comes back compact, in its order, with every number it does not touch as it was
//! written, and with Go's escapes of `<`, `>`, `&`; YAML comes back with sorted keys, as Go's library writes it.

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::api::{FieldOverrider, FieldPatch};
use federate_dialect::gojson;
use federate_kubernetes::patch::{self, JsonPatchOperation};
use federate_kubernetes::work;

/// The steps of a byte of a document that is read and written again.
const STEPS_PER_BYTE: u64 = 2;

/// Patches the field. YAML patches win when both forms are given.
pub(super) fn override_field(overrider: &FieldOverrider, manifest: &mut Value) -> Result<(), String> {
    let path = &overrider.field_path;
    let tokens = patch::parse_pointer(path).map_err(|error| error.to_string())?;
    let current = patch::find_value(manifest, &tokens)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("there is no text at `{path}`"))?;
    // Reading and writing the document.
    let of_document = STEPS_PER_BYTE * current.len() as u64;
    work::charge_steps(if overrider.yaml.is_empty() {
        of_document * overrider.json.len() as u64
    } else {
        of_document
    });
    if work::is_exceeded() {
        return Ok(());
    }
    let changed = match (overrider.yaml.is_empty(), overrider.json.is_empty()) {
        (false, _) => patch_yaml(current, &overrider.yaml),
        (true, false) => patch_json(current, &overrider.json),
        (true, true) => Ok(String::new()),
    };
    let value = Value::from(changed.map_err(|why| format!("the document at `{path}`: {why}"))?);
    let operation = JsonPatchOperation { name: "replace", path, value: Some(&value) };
    patch::apply_operation(manifest, operation).map_err(|error| error.to_string())
}

fn patch_yaml(text: &str, patches: &[FieldPatch]) -> Result<String, String> {
    let read = federate_yaml::read_as_go(text);
    let mut document = read.map_err(|error| format!("line {}: {}", error.at.line, error.message))?;
    for patch in patches {
        patch::apply_operation(&mut document, to_operation(patch)).map_err(|error| error.to_string())?;
    }
    let mut out = String::new();
    federate_yaml::write_as_go(&federate_yaml::sort_keys(document), &mut out);
    Ok(out)
}

fn to_operation(patch: &FieldPatch) -> JsonPatchOperation<'_> {
    JsonPatchOperation { name: &patch.operator, path: &patch.sub_path, value: patch.value.as_ref() }
}

fn patch_json(text: &str, patches: &[FieldPatch]) -> Result<String, String> {
    let mut document: Box<RawValue> =
        serde_json::from_str(text).map_err(|_| "it is not valid JSON".to_owned())?;
    for patch in patches {
        let tokens = patch::parse_pointer(&patch.sub_path).map_err(|error| error.to_string())?;
        document = patch_raw(&document, &tokens, to_operation(patch))?;
    }
    Ok(compact_json(document.get()))
}

/// Patches one level at a time, so that values off the path keep their text.
fn patch_raw(
    raw: &RawValue,
    tokens: &[String],
    operation: JsonPatchOperation<'_>,
) -> Result<Box<RawValue>, String> {
    let [token, deeper @ ..] = tokens else {
        return Err(format!("`{}` names the whole document", operation.path));
    };
    if deeper.is_empty() {
        return patch_level(raw, token, operation);
    }
    match read_level(raw)? {
        Level::Object(mut entries) => {
            let entry = entries.iter_mut().find(|(key, _)| key == token);
            let (_, child) = entry.ok_or_else(|| nothing_at(operation.path))?;
            *child = patch_raw(child, deeper, operation)?;
            write_level(&Level::Object(entries))
        }
        Level::Array(mut items) => {
            let at = patch::parse_index(token, items.len()).ok_or_else(|| nothing_at(operation.path))?;
            let child = items.get_mut(at).ok_or_else(|| nothing_at(operation.path))?;
            *child = patch_raw(child, deeper, operation)?;
            write_level(&Level::Array(items))
        }
        Level::Scalar => Err(nothing_at(operation.path)),
    }
}

fn nothing_at(path: &str) -> String {
    format!("there is nothing at `{path}`")
}

/// Applies the operation to a collection whose children are placeholders, then restores the children.
fn patch_level(
    raw: &RawValue,
    token: &str,
    operation: JsonPatchOperation<'_>,
) -> Result<Box<RawValue>, String> {
    // A placeholder is the child's number as text; added values are wrapped, so that they are never placeholders.
    let (mut stand_in, children): (Value, Vec<Box<RawValue>>) = match read_level(raw)? {
        Level::Object(entries) => {
            let map = entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), Value::from(at)));
            (Value::Object(map.collect()), entries.into_iter().map(|(_, child)| child).collect())
        }
        Level::Array(items) => (Value::Array((0..items.len()).map(Value::from).collect()), items),
        Level::Scalar => return Err(format!("there is nothing at `{}` to change", operation.path)),
    };
    let added = Value::Array(vec![operation.value.cloned().unwrap_or_default()]);
    let path = format!("/{}", federate_kubernetes::pointer::escape(token));
    let operation = JsonPatchOperation { path: &path, value: Some(&added), ..operation };
    patch::apply_operation(&mut stand_in, operation).map_err(|error| error.to_string())?;
    let patched = match stand_in {
        Value::Object(map) => {
            let entries = map.into_iter().map(|(key, value)| Ok((key, restore_child(value, &children)?)));
            Level::Object(entries.collect::<Result<_, String>>()?)
        }
        Value::Array(items) => {
            let items = items.into_iter().map(|value| restore_child(value, &children));
            Level::Array(items.collect::<Result<_, _>>()?)
        }
        _ => Level::Scalar,
    };
    write_level(&patched)
}

/// The child that a placeholder stands for, or the value that was added.
fn restore_child(placeholder: Value, children: &[Box<RawValue>]) -> Result<Box<RawValue>, String> {
    match placeholder {
        Value::Array(mut added) => raw_of(&added.pop().unwrap_or_default()),
        other => {
            let at = other.as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
            children.get(at).cloned().ok_or_else(|| "a child was lost".to_owned())
        }
    }
}

/// The text of a value that is added, as the control plane stores it.
fn raw_of(value: &Value) -> Result<Box<RawValue>, String> {
    RawValue::from_string(gojson::write_sorted(value)).map_err(|error| error.to_string())
}

/// A JSON value, read one level deep.
enum Level {
    Object(Vec<(String, Box<RawValue>)>),
    Array(Vec<Box<RawValue>>),
    Scalar,
}

fn read_level(raw: &RawValue) -> Result<Level, String> {
    let text = raw.get().trim_start();
    let read = match text.as_bytes().first() {
        Some(b'{') => serde_json::Deserializer::from_str(text).deserialize_map(Entries).map(Level::Object),
        Some(b'[') => serde_json::from_str(text).map(Level::Array),
        _ => Ok(Level::Scalar),
    };
    read.map_err(|error| error.to_string())
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Self::Value = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some((_, old)) => *old = value,
                None => entries.push((key, value)),
            }
        }
        Ok(entries)
    }
}

fn write_level(level: &Level) -> Result<Box<RawValue>, String> {
    let mut text = String::new();
    match level {
        Level::Object(entries) => {
            text.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                text.push_str(value.get());
            }
            text.push('}');
        }
        Level::Array(items) => {
            let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
            text = format!("[{}]", items.join(","));
        }
        Level::Scalar => text.push_str("null"),
    }
    RawValue::from_string(text).map_err(|error| error.to_string())
}

/// Without space between tokens, and with the characters escaped that Go escapes.
fn compact_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if quoted => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            ' ' | '\t' | '\n' | '\r' if !quoted => {}
            _ => out.push(c),
        }
        if escaped {
            escaped = false;
        } else if quoted && c == '\\' {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(operator: &str, sub_path: &str, value: Value) -> Vec<FieldPatch> {
        vec![FieldPatch { sub_path: sub_path.into(), operator: operator.into(), value: Some(value) }]
    }

    #[test]
    fn json_keeps_what_it_does_not_touch() {
        let text = r#"{ "price": 1.50, "b": {"x": 1e3}, "list": [1.0, "<&>"] }"#;
        let added = patch_json(text, &one("add", "/b/y", json!("<"))).unwrap();
        assert_eq!(added, r#"{"price":1.50,"b":{"x":1e3,"y":"\u003c"},"list":[1.0,"\u003c\u0026\u003e"]}"#);
        let replaced = patch_json(text, &one("replace", "/list/0", json!({"a": []}))).unwrap();
        assert!(replaced.contains(r#""list":[{"a":[]},"#), "{replaced}");
        assert!(patch_json(text, &one("remove", "/none", json!(null))).is_err());
        assert!(patch_json("{", &one("add", "/a", json!(1))).is_err());
    }

    #[test]
    fn yaml_comes_back_sorted() {
        let text = "b: 1 # comment\na:\n  - x\non: yes\n";
        let patched = patch_yaml(text, &one("add", "/a/-", json!("y"))).unwrap();
        assert_eq!(patched, "a:\n- x\n- \"y\"\nb: 1\n\"true\": true\n");
    }

    #[test]
    fn a_field_that_is_no_text_is_an_error() {
        let mut manifest = json!({"data": {"a": 1}});
        let overrider = FieldOverrider { field_path: "/data/a".into(), ..FieldOverrider::default() };
        assert!(override_field(&overrider, &mut manifest).is_err());
        assert_eq!(manifest, json!({"data": {"a": 1}}));
    }
}
