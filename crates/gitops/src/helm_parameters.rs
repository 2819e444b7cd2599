//! Values by path, as `helm template --set` reads them.
//!
//! Facts: Helm's package `strvals`. A path names keys, separated by dots, and indices in brackets; a backslash quotes the next
//! character. `true`, `false`, `null` and integers without a leading zero have their types, unless texts are asked for.

use serde_json::{Map, Value};

/// The largest index of a list.
const MAX_INDEX: usize = 1024;

/// The most parts of a path, as with Helm.
const MAX_PARTS: usize = 30;

/// A part of a path.
enum PathPart {
    Key(String),
    Index(usize),
}

/// Sets the value at a path.
pub(crate) fn set_parameter(
    set: &mut Map<String, Value>,
    path: &str,
    value: &str,
    is_text: bool,
) -> Result<(), String> {
    let parts = parse_path(path)?;
    let value = if is_text { value.into() } else { read_scalar(value)? };
    let mut root = Value::Object(std::mem::take(set));
    let place = parts.into_iter().fold(&mut root, |place, part| match part {
        PathPart::Key(key) => {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            &mut place[key]
        }
        PathPart::Index(index) => {
            if !place.is_array() {
                *place = Value::Array(Vec::new());
            }
            if let Value::Array(items) = &mut *place
                && items.len() <= index
            {
                items.resize(index + 1, Value::Null);
            }
            &mut place[index]
        }
    });
    *place = value;
    if let Value::Object(map) = root {
        *set = map;
    }
    Ok(())
}

fn parse_path(path: &str) -> Result<Vec<PathPart>, String> {
    let mut parts = Vec::new();
    let mut key = String::new();
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => key.extend(chars.next()),
            '.' => {
                if !key.is_empty() {
                    parts.push(PathPart::Key(std::mem::take(&mut key)));
                }
            }
            '[' => {
                if !key.is_empty() {
                    parts.push(PathPart::Key(std::mem::take(&mut key)));
                }
                let digits: String = chars.by_ref().take_while(|c| *c != ']').collect();
                let index = digits.parse().ok().filter(|index| *index <= MAX_INDEX);
                parts.push(PathPart::Index(
                    index.ok_or_else(|| format!("`{digits}` in `{path}` is not an index"))?,
                ));
            }
            '=' | ',' | '{' | '}' => return Err(format!("`{path}` is not the path of a value")),
            _ => key.push(c),
        }
    }
    if !key.is_empty() {
        parts.push(PathPart::Key(key));
    }
    match parts.first() {
        _ if parts.len() > MAX_PARTS => Err(format!("the path of a value has more than {MAX_PARTS} parts")),
        Some(PathPart::Key(_)) => Ok(parts),
        _ => Err(format!("`{path}` is not the path of a value")),
    }
}

fn read_scalar(text: &str) -> Result<Value, String> {
    if text.starts_with('{') || text.replace("\\,", "").contains(',') {
        return Err(format!("federate does not read lists such as `{text}`"));
    }
    let text = text.replace("\\,", ",");
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let is_number = !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    Ok(match text.as_str() {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        _ => match text.parse::<i64>().ok().filter(|_| is_number) {
            Some(number) => number.into(),
            None => text.into(),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_helm() {
        let mut set = Map::new();
        for (path, value, is_text) in [
            ("a.b", "1", false),
            ("a.c", "1", true),
            ("a.d\\.e", "true", false),
            ("l[1].x", "01", false),
            ("n", "null", false),
            ("t", "a\\,b", false),
        ] {
            set_parameter(&mut set, path, value, is_text).unwrap();
        }
        let expected =
            json!({"a": {"b": 1, "c": "1", "d.e": true}, "l": [null, {"x": "01"}], "n": null, "t": "a,b"});
        assert_eq!(Value::Object(set), expected);
        for (path, value) in
            [("a", "{x,y}"), ("a", "x,y"), ("", "x"), ("a[x]", "y"), ("a[9999]", "y"), ("a=b", "c")]
        {
            assert!(set_parameter(&mut Map::new(), path, value, false).is_err(), "{path}={value}");
        }
        assert!(set_parameter(&mut Map::new(), &"a.".repeat(1_000_000), "x", false).is_err());
    }
}
