//! JSON pointers in the notation of changed fields: `/spec/containers[name=web]/image`.

use serde_json::Value;

use super::keys::{Matching, identity, matching, plain};

/// The field at a JSON pointer, in the notation of [`super::paths`]. Below what `body` does not have, the steps stay as
/// they are.
///
/// ```
/// use serde_json::json;
/// let body = json!({"spec": {"containers": [{"name": "web", "image": "nginx"}]}});
/// let path = federate_engine::change::readable("/spec/containers/0/image", &body);
/// assert_eq!(path, "/spec/containers[name=web]/image");
/// ```
pub fn readable(pointer: &str, body: &Value) -> String {
    let mut path = String::new();
    let mut at = Some(body);
    let mut fields: Vec<&str> = Vec::new();
    for step in pointer.split('/').skip(1) {
        match at {
            Some(Value::Array(items)) => {
                let item = step.parse().ok().and_then(|index: usize| items.get(index));
                let name = item.and_then(|item| named(item, items, &fields));
                path.push_str(&name.unwrap_or_else(|| format!("/{step}")));
                at = item;
            }
            value => {
                path.push_str(&format!("/{}", step.replace('[', "~2")));
                at = value.and_then(|value| value.get(federate_kubernetes::pointer::unescape(step).as_ref()));
                fields.push(step);
            }
        }
    }
    path
}

/// The step that selects an item by its keys; `None` if only its position does.
fn named(item: &Value, items: &[Value], fields: &[&str]) -> Option<String> {
    let (field, around) = match fields {
        [.., around, field] => (*field, *around),
        [field] => (*field, ""),
        [] => ("", ""),
    };
    match matching(field, around, [items, items]) {
        Matching::Keys(keys) => Some(format!("[{}]", identity(item, keys)?)),
        Matching::Set => Some(format!("[={}]", plain(item.as_str()?))),
        Matching::Order => None,
    }
}
