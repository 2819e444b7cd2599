//! Parses the paths of [`change::paths`](federate_engine::change::paths) into steps and JSON pointers.

use serde_json::Value;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    /// A field, or an index of a list.
    Field(String),
    /// The item of a list with these values of its keys, as text.
    Item(Vec<(String, String)>),
    /// The item of a set.
    Value(String),
}

/// The steps of a path.
pub(super) fn parse_path(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut rest = path;
    while let Some(next) = rest.chars().next() {
        if next == '/' {
            let end = rest[1..].find(['/', '[']).map_or(rest.len(), |at| at + 1);
            let key = rest[1..end].replace("~2", "[").replace("~1", "/").replace("~0", "~");
            steps.push(PathStep::Field(key));
            rest = &rest[end..];
        } else {
            let end = rest.find(']').map_or(rest.len(), |at| at + 1);
            let inner = rest[..end].trim_start_matches('[').trim_end_matches(']');
            steps.push(match inner.strip_prefix('=') {
                Some(value) => PathStep::Value(unquote_text(value)),
                None => PathStep::Item(
                    inner
                        .split(',')
                        .filter_map(|pair| pair.split_once('='))
                        .map(|(k, v)| (k.to_owned(), unquote_text(v)))
                        .collect(),
                ),
            });
            rest = &rest[end..];
        }
    }
    steps
}

fn unquote_text(text: &str) -> String {
    serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned())
}

/// A value, as paths show it.
pub(super) fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The JSON pointer of the field in an object; `None` where an item does not exist.
pub(super) fn resolve_pointer(path: &str, object: &Value) -> Option<String> {
    let mut pointer = String::new();
    let mut at = Some(object);
    for step in parse_path(path) {
        let step = match step {
            PathStep::Field(key) => federate_kubernetes::pointer::escape(&key).into_owned(),
            PathStep::Item(keys) => {
                let list = at?;
                let exact =
                    find_index(list, &|item| keys.iter().all(|key| has_key_value(item, key) == Some(true)));
                // A key that an item omits has its default.
                exact.or_else(|| {
                    find_index(list, &|item| keys.iter().all(|key| has_key_value(item, key).unwrap_or(true)))
                })?
            }
            PathStep::Value(value) => find_index(at?, &|item| value_text(item) == value)?,
        };
        pointer = format!("{pointer}/{step}");
        at = object.pointer(&pointer);
    }
    Some(pointer)
}

fn find_index(list: &Value, is: &dyn Fn(&Value) -> bool) -> Option<String> {
    list.as_array()?.iter().position(is).map(|place| place.to_string())
}

/// Whether an item has this value; `None` where it omits the key.
fn has_key_value(item: &Value, (key, value): &(String, String)) -> Option<bool> {
    item.get(key).map(|found| value_text(found) == *value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_pointers_of_an_object() {
        let object = json!({"spec": {"containers": [{"name": "a"}, {"name": "b/c", "ports": [
            {"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}]},
            "metadata": {"finalizers": ["x", "y"]}});
        for (path, expected) in [
            ("/spec/containers[name=b/c]/image", Some("/spec/containers/1/image")),
            (
                "/spec/containers[name=b/c]/ports[containerPort=80,protocol=UDP]/hostPort",
                Some("/spec/containers/1/ports/1/hostPort"),
            ),
            ("/metadata/finalizers[=y]", Some("/metadata/finalizers/1")),
            ("/metadata/annotations/a~1b", Some("/metadata/annotations/a~1b")),
            ("/spec/containers[name=z]", None),
        ] {
            assert_eq!(resolve_pointer(path, &object).as_deref(), expected, "{path}");
        }
    }
}
