//! Taking objects in: what a control plane needs of an object that ran before it came.
//!
//! Some mark the object itself, which then stays the text that a person wrote, with a few edits; others
//! wrap it in an object of their own. What servers and other controllers wrote goes for all of them alike
//! ([`clean`](super::clean)).

use serde_json::{Map, Value};

use super::Dialects;
use federate_kubernetes::patch::escape;
use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

/// How a control plane takes objects in.
#[derive(Clone, Copy, Debug)]
pub struct Importer {
    /// Takes an object in, or says why it cannot be.
    pub take: fn(&Object, &Import) -> Result<Imported, Vec<Finding>>,
    /// Why its objects name no policy and no clusters; `None` where they must name a policy.
    pub unnamed: Option<&'static str>,
    /// Whether it makes objects of its own, and can make types of definitions.
    pub wraps: bool,
    /// What adoption takes besides the object.
    pub note: Option<&'static str>,
    /// What is sent in place of an object of the repo (the first one), given the live object: with the fields
    /// that stay as they run. `None` where nothing stays.
    pub retain: Option<fn(&Repo, &Object, &Object) -> Option<Value>>,
}

/// How objects are to be taken in.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The policy that is to place them.
    pub policy: Option<PolicyName>,
    /// The clusters that may hand over what already runs in them; empty for all.
    pub clusters: Vec<String>,
    /// Whether types are to be enabled, instead of objects federated.
    pub enable: bool,
    /// The control planes whose own objects are not taken in.
    pub dialects: Dialects,
}

/// A policy by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// One that stands where the object does: in its namespace, or for the cluster as a whole.
    Beside(String),
    /// One for the cluster as a whole.
    OfCluster(String),
}

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Imported {
    /// The same object with these changes. Each has an effect.
    Edits(Vec<Edit>),
    /// Other objects, which hold it.
    Objects(Vec<Value>),
}

/// A change to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// Which value, as a JSON pointer.
    pub pointer: String,
    /// What it becomes; `None` removes it.
    pub value: Option<Value>,
}

impl Edit {
    /// Makes the change. Mappings that should hold the value are created.
    pub fn apply(&self, body: &mut Value) {
        let Some((parent, key)) = self.pointer.rsplit_once('/') else { return };
        let key = key.replace("~1", "/").replace("~0", "~");
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
            at = map.entry(step.replace("~1", "/").replace("~0", "~")).or_insert_with(|| Map::new().into());
        }
        if let Value::Object(map) = at {
            map.insert(key, value.clone());
        }
    }
}

/// Makes changes, in their order.
pub fn apply(edits: &[Edit], body: &mut Value) {
    for edit in edits {
        edit.apply(body);
    }
}

/// Edits of one object that have an effect.
pub struct Edits<'o> {
    /// The object.
    pub object: &'o Object,
    edits: Vec<Edit>,
}

impl<'o> Edits<'o> {
    /// No edits yet.
    pub fn of(object: &'o Object) -> Self {
        Self { object, edits: Vec::new() }
    }

    /// Removes a value, if it is there.
    pub fn remove(&mut self, pointer: &str) {
        let anew = self.edits.iter().all(|edit| edit.pointer != pointer);
        if anew && self.object.body.pointer(pointer).is_some() {
            self.edits.push(Edit { pointer: pointer.to_owned(), value: None });
        }
    }

    /// Removes labels or annotations.
    pub fn remove_keys(&mut self, map: &str, keys: &[&str]) {
        for key in keys {
            self.remove(&format!("/metadata/{map}/{}", escape(key)));
        }
    }

    /// Sets a label or an annotation.
    pub fn set(&mut self, map: &str, key: &str, value: &str) {
        let pointer = format!("/metadata/{map}/{}", escape(key));
        let value = Value::from(value);
        if self.object.body.pointer(&pointer) != Some(&value) {
            self.edits.push(Edit { pointer, value: Some(value) });
        }
    }

    /// All edits, in the order they were made.
    pub fn done(self) -> Vec<Edit> {
        self.edits
    }
}

/// The owner that makes an object, and would make it again: as `Kind name`.
pub fn maker(object: &Object) -> Option<String> {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true)?;
    let text = |key: &str| controller[key].as_str().unwrap_or_default();
    Some(format!("{} {}", text("kind"), text("name")))
}

/// What cannot be a template, with the reason: objects that a controller makes, and those of a control plane.
pub fn refusal(object: &Object, dialects: Dialects) -> Option<Finding> {
    if let Some(maker) = maker(object) {
        let message =
            format!("{} is made by {maker}, which would make it again beside the template", object.id);
        return Some(
            Finding::error("controlled", object, message)
                .at("/metadata/ownerReferences")
                .help("take in the object that makes it instead"),
        );
    }
    dialects.own(object.id.group()).then(|| {
        let message = format!("{} belongs to a control plane itself: it is no template", object.id);
        Finding::error("not-a-template", object, message).at("/apiVersion").help("leave it out")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edits_are_made_in_values() {
        let mut body = json!({"a": {"b/c": 1, "l": [1, 2]}, "t": "text"});
        let edit = |pointer: &str, value: Option<Value>| Edit { pointer: pointer.to_owned(), value };
        for edit in [
            edit("/a/b~1c", None),
            edit("/a/l/0", None),
            edit("/a/l/7", None),
            edit("/absent/x", None),
            edit("/m/n~0/o", Some(json!(7))),
            edit("/t/below", Some(json!(7))),
        ] {
            edit.apply(&mut body);
        }
        assert_eq!(body, json!({"a": {"l": [2]}, "t": "text", "m": {"n~": {"o": 7}}}));
    }
}
