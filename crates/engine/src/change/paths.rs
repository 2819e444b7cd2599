//! Compares two values field by field, and matches the items of lists as Kubernetes matches them.
//!
//! A path identifies exactly one field, in a readable notation:
//!
//! ```text
//! /spec/template/spec/containers[name=web]/env[name=LOG]/value
//! /spec/ports[port=80,protocol=TCP]/targetPort
//! /spec/template/spec/containers[name=web]/args/0
//! /metadata/finalizers[=example.com/hold]
//! /metadata/annotations/example.com~1owner
//! ```
//!
//! A step `/key` selects a key of a mapping; in the key, `~` is written as `~0`, `/` as `~1` (as in a JSON pointer)
//! and `[` as `~2`. A step `/0` selects an item of a list by index. A step in brackets selects the item of a list
//! with these values (or, for a set, the value itself). Within brackets, `/` is not a separator, and a value with
//! special characters is written as a JSON string. Lists without keys are matched by the shortest edit; the index of
//! a removed item counts in the old list, any other index in the new list.
//!
//! The differences between desired and live objects use the same paths.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use similar::DiffOp;

use super::keys::{ItemMatching, ListKey, NamedItems, choose_matching, item_identity, quote_value};
use super::sequence;
use federate_kubernetes::pointer;

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct PathChange {
    /// The path of the field.
    pub path: String,
    /// The earlier value; left out if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The later value; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// Returns the fields that differ, in the order of their paths. The order of items is not a difference in a list
/// whose items are matched by keys.
///
/// ```
/// use serde_json::json;
/// let ports = |target: u16| json!({"spec": {"ports": [{"port": 80, "targetPort": target}]}});
/// let changes = federate_engine::change::diff_paths(&ports(8080), &ports(8081));
/// assert_eq!(changes[0].path, "/spec/ports[port=80,protocol=TCP]/targetPort");
/// assert_eq!(changes[0].to, Some(json!(8081)));
/// ```
pub fn diff_paths(from: &Value, to: &Value) -> Vec<PathChange> {
    let mut walk = Walk::default();
    walk.compare_values(from, to);
    walk.changes
}

/// The state of a walk through two values.
#[derive(Default)]
struct Walk<'v> {
    path: String,
    /// The names of the enclosing fields. Items of lists add no name.
    fields: Vec<&'v str>,
    changes: Vec<PathChange>,
}

impl<'v> Walk<'v> {
    fn compare_values(&mut self, from: &'v Value, to: &'v Value) {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => self.compare_maps(from, to),
            (Value::Array(from), Value::Array(to)) => self.compare_lists(from, to),
            _ if from != to => self.report_change(Some(from), Some(to)),
            _ => {}
        }
    }

    fn report_change(&mut self, from: Option<&Value>, to: Option<&Value>) {
        self.changes.push(PathChange { path: self.path.clone(), from: from.cloned(), to: to.cloned() });
    }

    /// Descends one step: compares a value that both sides have, or reports one that only one side has.
    fn compare_step(&mut self, step: &str, from: Option<&'v Value>, to: Option<&'v Value>) {
        let length = self.path.len();
        self.path.push_str(step);
        match (from, to) {
            (Some(from), Some(to)) => self.compare_values(from, to),
            _ => self.report_change(from, to),
        }
        self.path.truncate(length);
    }

    fn compare_maps(&mut self, from: &'v Map<String, Value>, to: &'v Map<String, Value>) {
        let mut keys: Vec<&'v String> = from.keys().chain(to.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.fields.push(key);
            let step = format!("/{}", pointer::escape(key).replace('[', "~2"));
            self.compare_step(&step, from.get(key), to.get(key));
            self.fields.pop();
        }
    }

    fn compare_lists(&mut self, from: &'v [Value], to: &'v [Value]) {
        let (field, around) = match self.fields.as_slice() {
            [.., around, field] => (*field, *around),
            [field] => (*field, ""),
            [] => ("", ""),
        };
        match choose_matching(field, around, [from, to]) {
            ItemMatching::Keys(keys) => self.compare_keyed(keys, from, to),
            ItemMatching::Set => self.compare_sets(from, to),
            ItemMatching::Order => self.compare_ordered(from, to),
        }
    }

    /// Compares items in the order of the new list, then reports the removed ones.
    fn compare_keyed(&mut self, keys: &[ListKey], from: &'v [Value], to: &'v [Value]) {
        let [from, to] = [from, to].map(|items| NamedItems::new(items, &|item| item_identity(item, keys)));
        for (id, item) in &to.0 {
            self.compare_step(&format!("[{id}]"), from.find(id), Some(item));
        }
        for (id, item) in from.0.iter().filter(|(id, _)| to.find(id).is_none()) {
            self.compare_step(&format!("[{id}]"), Some(item), None);
        }
    }

    fn compare_sets(&mut self, from: &'v [Value], to: &'v [Value]) {
        for item in to.iter().filter(|item| !from.contains(item)) {
            self.compare_step(&set_step(item), None, Some(item));
        }
        for item in from.iter().filter(|item| !to.contains(item)) {
            self.compare_step(&set_step(item), Some(item), None);
        }
    }

    fn compare_ordered(&mut self, from: &'v [Value], to: &'v [Value]) {
        for op in sequence::diff_values(from, to) {
            let (old, new) = match op {
                DiffOp::Equal { .. } => continue,
                op => (op.old_range(), op.new_range()),
            };
            let both = old.len().min(new.len());
            for (item, at) in from[old.clone()].iter().zip(new.clone()) {
                self.compare_step(&format!("/{at}"), Some(item), to.get(at));
            }
            for at in old.skip(both) {
                self.compare_step(&format!("/{at}"), from.get(at), None);
            }
            for at in new.skip(both) {
                self.compare_step(&format!("/{at}"), None, to.get(at));
            }
        }
    }
}

/// The step of a path to an item of a set.
fn set_step(item: &Value) -> String {
    format!("[={}]", quote_value(item.as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
