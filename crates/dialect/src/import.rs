//! Import: how an object that already runs becomes an object of the repo for a control plane.
//!
//! Some control planes mark the object itself, so that it keeps its text but for a few edits. Others wrap it in
//! an object of their own. [`clean`](super::clean) removes what servers and other controllers wrote, for all of
//! them.

use serde_json::{Map, Value};

use super::Dialects;
use federate_kubernetes::pointer::{escape, unescape};
use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

/// The importer of a control plane.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// Imports an object, or returns why that is not possible.
    pub import_object: fn(&Object, &ObjectImportOptions) -> Result<ImportOutcome, Vec<Finding>>,
    /// Why its objects name neither a policy nor clusters; `None` where they must name a policy.
    pub unnamed: Option<&'static str>,
    /// Why its objects do not name clusters, where they name a policy; `None` where they may name clusters.
    pub everywhere: Option<&'static str>,
    /// Whether it wraps objects in objects of its own.
    pub wraps: bool,
    /// Whether it can enable types from definitions.
    pub enables_types: bool,
    /// What adoption needs besides the object, in a sentence.
    pub note: Option<&'static str>,
    /// Retains fields of the live object, where the control plane does that.
    pub retain: Option<RetainFields>,
}

/// Returns what is sent in place of an object of the repo (the first one), given the live object: with the fields
/// that stay as they run. `None` where nothing stays.
pub type RetainFields = fn(&Repo, &Object, &Object) -> Option<Value>;

/// The options of an import.
#[derive(Clone, Debug, Default)]
pub struct ObjectImportOptions {
    /// The policy that places the objects.
    pub policy: Option<PolicyName>,
    /// The clusters in which objects that run may be adopted; empty for all.
    pub clusters: Vec<String>,
    /// Whether to enable types instead of federating objects.
    pub enable: bool,
    /// The control planes whose own objects are not imported.
    pub dialects: Dialects,
}

/// A policy by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// A policy in the namespace of the object, or a cluster-scoped one for a cluster-scoped object.
    Beside(String),
    /// A cluster-scoped policy.
    OfCluster(String),
}

/// The result of importing an object.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportOutcome {
    /// The same object with these changes. Each change has an effect.
    Edits(Vec<ImportEdit>),
    /// Other objects, which wrap it.
    Objects(Vec<Value>),
}

/// A change to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportEdit {
    /// The JSON pointer of the value.
    pub pointer: String,
    /// The new value; `None` removes it.
    pub value: Option<Value>,
}

impl ImportEdit {
    /// Makes the change, and creates the mappings that hold the value.
    pub fn apply_to(&self, body: &mut Value) {
        let Some((parent, key)) = self.pointer.rsplit_once('/') else { return };
        let key = unescape(key).into_owned();
        let Some(value) = &self.value else {
            match body.pointer_mut(parent) {
                Some(Value::Object(map)) => drop(map.shift_remove(&key)),
                Some(Value::Array(items)) => {
                    if let Some(index) = key.parse().ok().filter(|index| *index < items.len()) {
                        items.remove(index);
                    }
                }
                _ => {}
            }
            return;
        };
        let mut at = body;
        for step in parent.split('/').skip(1) {
            let Value::Object(map) = at else { return };
            at = map.entry(unescape(step).into_owned()).or_insert_with(|| Map::new().into());
        }
        if let Value::Object(map) = at {
            map.insert(key, value.clone());
        }
    }
}

/// Makes changes, in their order.
pub fn apply_edits(edits: &[ImportEdit], body: &mut Value) {
    for edit in edits {
        edit.apply_to(body);
    }
}

/// Edits of one object that have an effect.
pub struct ImportEdits<'o> {
    /// The object.
    pub object: &'o Object,
    edits: Vec<ImportEdit>,
}

impl<'o> ImportEdits<'o> {
    /// Returns an empty list of edits.
    pub fn for_object(object: &'o Object) -> Self {
        Self { object, edits: Vec::new() }
    }

    /// Removes a value, if there is one.
    pub fn remove_value(&mut self, pointer: &str) {
        let is_first = self.edits.iter().all(|edit| edit.pointer != pointer);
        if is_first && self.object.body.pointer(pointer).is_some() {
            self.edits.push(ImportEdit { pointer: pointer.to_owned(), value: None });
        }
    }

    /// Removes labels or annotations.
    pub fn remove_keys(&mut self, map: &str, keys: &[&str]) {
        for key in keys {
            self.remove_value(&format!("/metadata/{map}/{}", escape(key)));
        }
    }

    /// Sets a label or an annotation.
    pub fn set_key(&mut self, map: &str, key: &str, value: &str) {
        let pointer = format!("/metadata/{map}/{}", escape(key));
        let value = Value::from(value);
        if self.object.body.pointer(&pointer) != Some(&value) {
            self.edits.push(ImportEdit { pointer, value: Some(value) });
        }
    }

    /// Returns all edits, in the order in which they were made.
    pub fn into_edits(self) -> Vec<ImportEdit> {
        self.edits
    }
}

/// The controller that creates an object, as `Kind name`.
pub fn find_controller(object: &Object) -> Option<String> {
    let owners = object.value_at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
    let [kind, name] = ["kind", "name"].map(|key| controller[key].as_str().unwrap_or_default());
    Some(format!("{kind} {name}"))
}

/// Why an object cannot be a template: a controller creates it, or it belongs to a control plane.
pub fn check_importable(object: &Object, dialects: Dialects) -> Option<Finding> {
    if let Some(maker) = find_controller(object) {
        let message = format!(
            "{} is created by {maker}, which would create it again in addition to the template",
            object.id
        );
        return Some(
            Finding::error("controlled", object, message)
                .with_pointer("/metadata/ownerReferences")
                .with_help("import the object that creates it instead"),
        );
    }
    dialects.is_own_domain(object.id.group()).then(|| {
        let message = format!("{} belongs to a control plane, so it is not a template", object.id);
        Finding::error("not-a-template", object, message)
            .with_pointer("/apiVersion")
            .with_help("leave it out")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edits_are_made_in_values() {
        let mut body = json!({"a": {"b/c": 1, "l": [1, 2]}, "t": "text"});
        let edit = |pointer: &str, value: Option<Value>| ImportEdit { pointer: pointer.to_owned(), value };
        for edit in [
            edit("/a/b~1c", None),
            edit("/a/l/0", None),
            edit("/a/l/7", None),
            edit("/absent/x", None),
            edit("/m/n~0/o", Some(json!(7))),
            edit("/t/below", Some(json!(7))),
        ] {
            edit.apply_to(&mut body);
        }
        assert_eq!(body, json!({"a": {"l": [2]}, "t": "text", "m": {"n~": {"o": 7}}}));
    }
}
