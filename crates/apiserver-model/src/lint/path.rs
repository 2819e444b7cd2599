//! Corrections of override paths that do not exist in an object.

use serde_json::Value;

use federate_kubernetes::finding::format_count;
use federate_kubernetes::pointer::{escape, unescape};
use federate_kubernetes::schema::find_nearest;

use crate::kinds::ResourceKind;
use crate::schema::Type;

/// The correction of a path (a JSON pointer) that does not exist in an object: the nearest path of the kind's schema, or
/// the advice to add a field that the object does not set.
pub fn near_path(kind: &ResourceKind, object: &Value, path: &str) -> Option<String> {
    let slashed = path.replace('.', "/");
    if slashed != path && object.pointer(&slashed).is_some() {
        return Some(format!("did you mean `{slashed}`?"));
    }
    let (mut ty, mut at) = (Some(&kind.schema), Some(object));
    let (mut fixed, mut changed) = (String::new(), false);
    let tokens: Vec<&str> = path.split('/').skip(1).collect();
    let mut parent = None;
    for (number, token) in tokens.iter().enumerate() {
        if let Some(Type::Map { value, .. }) = ty.map(Type::resolve_name)
            && is_scalar(value.resolve_name())
            && let Some(help) = correct_escapes(&fixed, tokens.get(number..).unwrap_or_default())
        {
            return Some(help);
        }
        if at.is_none() && parent.is_none() {
            parent = Some(fixed.clone());
        }
        let mut key = unescape(token).into_owned();
        let mut below = None;
        match ty.map(Type::resolve_name) {
            Some(Type::List { item, .. }) => {
                let length = at.and_then(Value::as_array).map_or(0, Vec::len);
                if key.parse::<usize>().is_ok_and(|index| index >= length) && !changed {
                    let items = format_count(length, "item");
                    return Some(format!("`{fixed}` has {items}; the first one is number 0"));
                }
                below = Some(item.as_ref());
            }
            Some(other) => {
                let parts = other.parts();
                let fields = parts.and_then(|parts| parts.fields).into_iter().flatten();
                let known: Vec<&str> = fields.map(|(name, _)| name.as_str()).collect();
                let of_all = fixed.is_empty() && matches!(key.as_str(), "apiVersion" | "kind");
                if !of_all && parts.is_some_and(|parts| parts.get(&key).is_none()) {
                    key = find_nearest(&key, &known)?.to_owned();
                    changed = true;
                }
                below = parts.and_then(|parts| parts.get(&key)).or(below);
            }
            None => {}
        }
        at = at.and_then(|at| match at {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            other => other.get(&key),
        });
        fixed.push('/');
        fixed.push_str(&escape(&key));
        ty = below;
    }
    if changed {
        return Some(format!("did you mean `{fixed}`?"));
    }
    if let Some(parent) = parent {
        return Some(format!(
            "the object has no `{parent}`, in which the field would be: add that as a whole first"
        ));
    }
    at.is_none()
        .then(|| "the object does not set the field: add it instead of replacing or removing it".to_owned())
}

/// Whether values of a type have no fields.
fn is_scalar(ty: &Type) -> bool {
    matches!(ty, Type::Text | Type::Number | Type::Boolean | Type::Quantity | Type::IntOrString)
}

/// The correction of a path to a label or an annotation whose key is not escaped as JSON pointers require.
pub fn near_metadata_path(path: &str) -> Option<String> {
    ["/metadata/labels", "/metadata/annotations"].into_iter().find_map(|map| {
        let key: Vec<&str> = path.strip_prefix(map)?.strip_prefix('/')?.split('/').collect();
        correct_escapes(map, &key)
    })
}

/// Characters that are not part of a key.
const QUOTES: [char; 5] = ['"', '\'', '`', '[', ']'];

/// The correction of a key below `map` that is not escaped as JSON pointers require; `None` if it is.
fn correct_escapes(map: &str, tokens: &[&str]) -> Option<String> {
    let written = tokens.join("/");
    let key = tokens.iter().map(|token| unescape(token)).collect::<Vec<_>>().join("/");
    let key = escape(key.trim_matches(QUOTES)).into_owned();
    if key == written {
        return None;
    }
    let why = match (tokens.len() > 1, written.starts_with(QUOTES) || written.ends_with(QUOTES)) {
        (true, false) => "a `/` in a key is written `~1`",
        (true, true) => "a `/` in a key is written `~1`, and a key has no quotes",
        (false, true) => "a key has no quotes",
        (false, false) => "a `~` in a key is written `~0`",
    };
    Some(format!("{why}: did you mean `{map}/{key}`?"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_path_is_named() {
        let kind = ResourceKind::find_builtin("apps/v1", "Deployment").unwrap();
        let object =
            json!({"metadata": {}, "spec": {"replicas": 1, "template": {"spec": {"containers": [{}]}}}});
        for (path, want) in [
            ("/spec.replicas", Some("did you mean `/spec/replicas`?")),
            ("/spec/replcas", Some("did you mean `/spec/replicas`?")),
            (
                "/spec/templat/spec/container/0/image",
                Some("did you mean `/spec/template/spec/containers/0/image`?"),
            ),
            (
                "/spec/template/spec/containers/1/image",
                Some("`/spec/template/spec/containers` has 1 item; the first one is number 0"),
            ),
            (
                "/spec/paused",
                Some("the object does not set the field: add it instead of replacing or removing it"),
            ),
            ("/spec/replicas", None),
            (
                "/metadata/annotations/lb.example.com/vpc",
                Some(
                    "a `/` in a key is written `~1`: did you mean `/metadata/annotations/lb.example.com~1vpc`?",
                ),
            ),
            (
                "/spec/template/spec/nodeSelector/\"kubernetes.io/os\"",
                Some(
                    "a `/` in a key is written `~1`, and a key has no quotes: did you mean \
                     `/spec/template/spec/nodeSelector/kubernetes.io~1os`?",
                ),
            ),
            ("/metadata/labels/'a'", Some("a key has no quotes: did you mean `/metadata/labels/a`?")),
            (
                "/metadata/labels/a~b",
                Some("a `~` in a key is written `~0`: did you mean `/metadata/labels/a~0b`?"),
            ),
            (
                "/metadata/annotations/lb.example.com~1vpc",
                Some(
                    "the object has no `/metadata/annotations`, in which the field would be: add that as a whole first",
                ),
            ),
            ("/spec/wholly", None),
        ] {
            assert_eq!(near_path(kind, &object, path).as_deref(), want, "{path}");
        }
    }
}
