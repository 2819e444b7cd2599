//! Paths of overrides that lead nowhere.

use serde_json::Value;

use federate_kubernetes::pointer::{escape, unescape};
use federate_kubernetes::schema::nearest;

use crate::kinds::Kind;
use crate::schema::Type;

/// What to do about a path (a JSON pointer) that does not exist in an object: the nearest one by the kind's schema, or
/// that the object does not set the field.
pub fn near_path(kind: &Kind, object: &Value, path: &str) -> Option<String> {
    let slashed = path.replace('.', "/");
    if slashed != path && object.pointer(&slashed).is_some() {
        return Some(format!("did you mean `{slashed}`?"));
    }
    let (mut ty, mut at) = (Some(&kind.schema), Some(object));
    let (mut fixed, mut changed) = (String::new(), false);
    for token in path.split('/').skip(1) {
        let mut key = unescape(token).into_owned();
        let mut below = None;
        match ty.map(Type::resolve) {
            Some(Type::List { item, .. }) => {
                let length = at.and_then(Value::as_array).map_or(0, Vec::len);
                if key.parse::<usize>().is_ok_and(|index| index >= length) && !changed {
                    return Some(format!("`{fixed}` has {length} items; the first one is number 0"));
                }
                below = Some(item.as_ref());
            }
            Some(other) => {
                let parts = other.parts();
                let fields = parts.and_then(|parts| parts.fields).into_iter().flatten();
                let known: Vec<&str> = fields.map(|(name, _)| name.as_str()).collect();
                let of_all = fixed.is_empty() && matches!(key.as_str(), "apiVersion" | "kind");
                if !of_all && parts.is_some_and(|parts| parts.get(&key).is_none()) {
                    key = nearest(&key, &known)?.to_owned();
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
    at.is_none()
        .then(|| "the object does not set the field: add it instead of replacing or removing it".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_path_is_named() {
        let kind = Kind::builtin("apps/v1", "Deployment").unwrap();
        let object = json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{}]}}}});
        for (path, want) in [
            ("/spec.replicas", Some("did you mean `/spec/replicas`?")),
            ("/spec/replcas", Some("did you mean `/spec/replicas`?")),
            (
                "/spec/templat/spec/container/0/image",
                Some("did you mean `/spec/template/spec/containers/0/image`?"),
            ),
            (
                "/spec/template/spec/containers/1/image",
                Some("`/spec/template/spec/containers` has 1 items; the first one is number 0"),
            ),
            (
                "/spec/paused",
                Some("the object does not set the field: add it instead of replacing or removing it"),
            ),
            ("/spec/replicas", None),
            ("/spec/wholly", None),
        ] {
            assert_eq!(near_path(kind, &object, path).as_deref(), want, "{path}");
        }
    }
}
