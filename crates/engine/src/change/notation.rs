//! JSON pointers in the notation of changed fields: `/spec/containers[name=web]/image`.

use serde_json::Value;

use super::keys::{ItemMatching, choose_matching, item_identity, quote_value};

/// The field at a JSON pointer, in the notation of `paths`. Below what `body` does not have, the steps stay as
/// they are.
///
/// ```
/// use serde_json::json;
/// let body = json!({"spec": {"containers": [{"name": "web", "image": "nginx"}]}});
/// let path = federate_engine::change::readable_path("/spec/containers/0/image", &body);
/// assert_eq!(path, "/spec/containers[name=web]/image");
/// ```
pub fn readable_path(pointer: &str, body: &Value) -> String {
    let mut path = String::new();
    let mut at = Some(body);
    let mut fields: Vec<&str> = Vec::new();
    for step in pointer.split('/').skip(1) {
        match at {
            Some(Value::Array(items)) => {
                let item = step.parse().ok().and_then(|index: usize| items.get(index));
                let name = item.and_then(|item| keyed_step(item, items, &fields));
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

/// The JSON pointer of the field at a path in the notation of `paths`. It ends before the first step that `body` does
/// not have.
///
/// ```
/// use serde_json::json;
/// let body = json!({"spec": {"containers": [{"name": "web", "image": "nginx"}]}});
/// let pointer = federate_engine::change::find_pointer("/spec/containers[name=web]/image", &body);
/// assert_eq!(pointer, "/spec/containers/0/image");
/// ```
pub fn find_pointer(path: &str, body: &Value) -> String {
    let mut pointer = String::new();
    let (mut at, mut rest) = (body, path);
    let mut fields: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        let next = match at {
            Value::Array(items) => find_item(items, &fields, rest),
            _ => rest.strip_prefix('/').and_then(|rest| {
                let end = rest.find(['/', '[']).unwrap_or(rest.len());
                let (step, rest) = rest.split_at(end);
                let key = step.replace("~2", "[");
                let key = federate_kubernetes::pointer::unescape(&key).into_owned();
                fields.push(step);
                Some((federate_kubernetes::pointer::escape(&key).into_owned(), at.get(&key)?, rest))
            }),
        };
        let Some((token, value, after)) = next else { break };
        pointer.push('/');
        pointer.push_str(&token);
        (at, rest) = (value, after);
    }
    pointer
}

/// The item of a list at the first step of a path, with its index and the rest of the path.
fn find_item<'v, 'p>(
    items: &'v [Value],
    fields: &[&str],
    path: &'p str,
) -> Option<(String, &'v Value, &'p str)> {
    if let Some(index) = path.strip_prefix('/') {
        let end = index.find(['/', '[']).unwrap_or(index.len());
        let (index, rest) = index.split_at(end);
        return Some((index.to_owned(), items.get(index.parse::<usize>().ok()?)?, rest));
    }
    items.iter().enumerate().find_map(|(index, item)| {
        let rest = path.strip_prefix(&keyed_step(item, items, fields)?)?;
        Some((index.to_string(), item, rest))
    })
}

/// The step that selects an item by its keys; `None` if only its position does.
fn keyed_step(item: &Value, items: &[Value], fields: &[&str]) -> Option<String> {
    let (field, around) = match fields {
        [.., around, field] => (*field, *around),
        [field] => (*field, ""),
        [] => ("", ""),
    };
    match choose_matching(field, around, [items, items]) {
        ItemMatching::Keys(keys) => Some(format!("[{}]", item_identity(item, keys)?)),
        ItemMatching::Set => Some(format!("[={}]", quote_value(item.as_str()?))),
        ItemMatching::Order => None,
    }
}
