//! Templates as the API server of the control plane stores them.
//!
//! Facts: built-in kinds have every default of their API, and `stringData` of a Secret is `data`. A template that a
//! policy claims has the policy's label and annotations. Scripts and overrides see that object. Manifests leave
//! out defaults that nothing changed, because member clusters set the same ones.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use federate_apiserver_model::{
    ResourceKind, WriteOptions, complete_object, encode_string_data, services, strategy,
};
use federate_kubernetes::{Object, ObjectRef};
use serde_json::{Map, Value};

/// What stands for the address and the node ports that the server chooses for a Service.
const ADDRESS: &str = "10.0.0.1";
const NODE_PORT: u16 = 30000;

/// The id that stands for the random one of a policy.
const PERMANENT_ID: &str = "00000000-0000-0000-0000-000000000000";

/// An object with the defaults of the API server; `None` for kinds without any.
pub(super) fn with_defaults(object: &Object) -> Option<Value> {
    let kind = ResourceKind::find_builtin(&object.id.api_version, &object.id.kind)?;
    let completed = complete_object(kind, object.body.clone());
    let write = WriteOptions { kind, manager: "", subresource: None, force: false, now: "" };
    let mut stored = strategy::prepare_for_create(completed.clone(), &write).unwrap_or(completed);
    if let Some(stored) = stored.as_object_mut() {
        stored.shift_remove("status");
    }
    keep_unknown(&object.body, &mut stored);
    if kind.is_builtin("Service") {
        services::allocate_addresses(&mut stored, || ADDRESS.to_owned(), || NODE_PORT);
    }
    if let (Some(stored), written) =
        (stored.get_mut("metadata").and_then(Value::as_object_mut), object.value_at(&["metadata"]))
    {
        // The server's own metadata is not a default.
        stored.retain(|key, _| written.is_some_and(|written| written.get(key).is_some()));
    }
    Some(stored)
}

/// Keeps the fields that the schema of a kind does not have, as a script or an override may read them.
fn keep_unknown(written: &Value, stored: &mut Value) {
    match (written, stored) {
        (Value::Object(written), Value::Object(stored)) => {
            for (key, value) in written.iter().filter(|(key, value)| !value.is_null() && *key != "status") {
                match stored.get_mut(key) {
                    Some(stored) => keep_unknown(value, stored),
                    None => drop(stored.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(written), Value::Array(stored)) if written.len() == stored.len() => {
            for (written, stored) in written.iter().zip(stored) {
                keep_unknown(written, stored);
            }
        }
        _ => {}
    }
}

/// An object whose `stringData` is in `data`.
pub(super) fn with_encoded_data(object: &Object) -> Cow<'_, Object> {
    if object.id.kind != "Secret"
        || object.id.api_version != "v1"
        || object.value_at(&["stringData"]).is_none()
    {
        return Cow::Borrowed(object);
    }
    let mut encoded = object.clone();
    encode_string_data(&mut encoded.body);
    Cow::Owned(encoded)
}

/// The result of changes to an object with its defaults, without the defaults that did not change.
pub(super) fn without_defaults(
    written: Option<&Value>,
    stored: Option<&Value>,
    result: Value,
) -> Option<Value> {
    if Some(&result) == stored {
        return written.cloned();
    }
    match (written, stored, result) {
        (Some(Value::Object(written)), Some(Value::Object(stored)), Value::Object(result)) => {
            Some(map_without_defaults(written, stored, result).into())
        }
        (Some(Value::Array(written)), Some(Value::Array(stored)), Value::Array(result)) => {
            Some(list_without_defaults(written, stored, result).into())
        }
        (_, _, result) => Some(result),
    }
}

fn map_without_defaults(
    written: &Map<String, Value>,
    stored: &Map<String, Value>,
    mut result: Map<String, Value>,
) -> Map<String, Value> {
    let mut map = Map::new();
    let image = result.get("image").cloned();
    let other_image = image.is_some() && image.as_ref() != stored.get("image");
    for key in written.keys() {
        match result.get_mut(key).map(Value::take) {
            Some(value) => {
                let value = without_defaults(written.get(key), stored.get(key), value);
                map.extend(value.map(|value| (key.clone(), value)));
            }
            // The server does not know the field.
            None if !stored.contains_key(key) => {
                let value = written.get(key).filter(|value| !value.is_null());
                map.extend(value.map(|value| (key.clone(), value.clone())));
            }
            None => {}
        }
    }
    for (key, value) in result.into_iter().filter(|(key, _)| !written.contains_key(key)) {
        // Of another image, the member would set another policy.
        let pulls = key == "imagePullPolicy"
            && other_image
            && image.as_ref().and_then(Value::as_str).is_some_and(|image| value != pull_policy(image));
        if pulls || stored.get(&key) != Some(&value) {
            map.insert(key, value);
        }
    }
    map
}

/// Items that are as they were stored are found wherever they stand. Others are compared with the one of their name, or with
/// the one at their place.
fn list_without_defaults(written: &[Value], stored: &[Value], result: Vec<Value>) -> Vec<Value> {
    let same_length = stored.len() == result.len();
    let in_place = has_same_names(stored, &result);
    let moved = LazyCell::new(|| StoredItems::new(stored));
    let mut list = Vec::with_capacity(result.len());
    for (at, item) in result.into_iter().enumerate() {
        if stored.get(at) == Some(&item) {
            list.extend(written.get(at).cloned());
        } else if in_place {
            list.extend(without_defaults(written.get(at), stored.get(at), item));
        } else if let Some(place) = moved.find_equal(&item) {
            list.extend(written.get(place).cloned());
        } else if let Some(place) = moved.find_named(&item).or(same_length.then_some(at)) {
            list.extend(without_defaults(written.get(place), stored.get(place), item));
        } else {
            list.push(item);
        }
    }
    list
}

/// Whether the items of two lists have the same names in the same order, each once: then none has moved.
fn has_same_names(stored: &[Value], result: &[Value]) -> bool {
    let name_of = |item| Value::get(item, "name").and_then(Value::as_str);
    let mut names = HashSet::new();
    stored.len() == result.len()
        && stored.iter().zip(result).all(|(stored, result)| {
            name_of(stored).is_some_and(|name| name_of(result) == Some(name) && names.insert(name))
        })
}

/// The places of the items of a list, the first ones of equal items and names. It is made where an item has changed, so that
/// a list of changed items costs what its items cost.
struct StoredItems {
    by_content: HashMap<String, usize>,
    by_name: HashMap<String, usize>,
}

impl StoredItems {
    fn new(items: &[Value]) -> Self {
        let (mut by_content, mut by_name) = (HashMap::new(), HashMap::new());
        for (at, item) in items.iter().enumerate() {
            by_content.entry(canonical_text(item)).or_insert(at);
            if let Some(name) = item.get("name") {
                by_name.entry(canonical_text(name)).or_insert(at);
            }
        }
        Self { by_content, by_name }
    }

    fn find_equal(&self, item: &Value) -> Option<usize> {
        self.by_content.get(&canonical_text(item)).copied()
    }

    fn find_named(&self, item: &Value) -> Option<usize> {
        self.by_name.get(&canonical_text(item.get("name")?)).copied()
    }
}

/// The JSON of a value, which is the same for equal values.
fn canonical_text(value: &Value) -> String {
    federate_yaml::sort_keys(value.clone()).to_string()
}

/// The default of `imagePullPolicy`.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let has_digest = image.contains('@');
    match name.split('@').next().unwrap_or(name).split_once(':') {
        _ if has_digest => "IfNotPresent",
        None | Some((_, "latest" | "")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

/// Adds the label and the annotations of the policy that claims an object.
pub(super) fn add_claim(object: &mut Object, policy: &ObjectRef) {
    let prefix = match policy.namespace {
        Some(_) => "propagationpolicy.karmada.io",
        None => "clusterpropagationpolicy.karmada.io",
    };
    object.set_label(&format!("{prefix}/permanent-id"), PERMANENT_ID);
    if let Some(namespace) = &policy.namespace {
        object.set_annotation(&format!("{prefix}/namespace"), namespace);
    }
    object.set_annotation(&format!("{prefix}/name"), &policy.name);
}

/// Adds the maps of labels and annotations that every claimed object has.
pub(super) fn add_metadata_maps(body: &mut Value) {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["labels", "annotations"] {
            let entry = metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
            if entry.is_null() {
                *entry = Value::Object(Map::new());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_that_did_not_change_are_left_out() {
        let body = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "x:1"}]}}}});
        let object = Object::from_path("apps/v1", "Deployment", "shop/web", body);
        let stored = with_defaults(&object).unwrap();
        assert_eq!(stored["spec"]["revisionHistoryLimit"], 10);
        let restore = |result: Value| without_defaults(Some(&object.body), Some(&stored), result).unwrap();
        assert_eq!(restore(stored.clone()), object.body);
        let mut changed = stored.clone();
        changed["spec"]["revisionHistoryLimit"] = json!(3);
        assert_eq!(restore(changed)["spec"]["revisionHistoryLimit"], 3);
        let mut changed = stored.clone();
        let container = &mut changed["spec"]["template"]["spec"]["containers"][0];
        container["image"] = json!("x:latest");
        let container = &restore(changed)["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(*container, json!({"name": "a", "image": "x:latest", "imagePullPolicy": "IfNotPresent"}));
    }

    #[test]
    fn items_are_found_where_they_moved() {
        let container = |name: &str| json!({"name": name, "image": "x:1"});
        let body = json!({"spec": {"template": {"spec": {"containers": [container("a"), container("b")]}}}});
        let object = Object::from_path("apps/v1", "Deployment", "shop/web", body);
        let stored = with_defaults(&object).unwrap();
        let mut changed = stored.clone();
        let containers = changed["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
        containers.insert(0, container("new"));
        containers[2]["image"] = json!("x:2");
        let restored = without_defaults(Some(&object.body), Some(&stored), changed).unwrap();
        let expected = json!([container("new"), container("a"), {"name": "b", "image": "x:2"}]);
        assert_eq!(restored["spec"]["template"]["spec"]["containers"], expected);
    }

    #[test]
    fn the_pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("localhost:5000/nginx", "Always"),
            ("localhost:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
