//! Copies selected fields, identified by their [paths](fn@super::paths), from one value to another.
//!
//! The walk is the same as in `paths.rs`, so that both use the same paths.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use similar::DiffOp;

use super::keys::{ItemMatching, ListKey, NamedItems, choose_matching, item_identity, quote_value};
use super::sequence;
use federate_kubernetes::pointer;

/// Returns `from` with the values of `to` at all paths that differ and for which `selects` returns true.
///
/// ```
/// use serde_json::json;
/// let (live, wanted) = (json!({"spec": {"replicas": 7, "paused": true}}), json!({"spec": {"replicas": 2}}));
/// let merged = federate_engine::change::overlay_paths(&live, &wanted, &|path| path == "/spec/replicas");
/// assert_eq!(merged, json!({"spec": {"replicas": 2, "paused": true}}));
/// ```
pub fn overlay_paths(from: &Value, to: &Value, selects: &dyn Fn(&str) -> bool) -> Value {
    let mut walk = Walk { path: String::new(), fields: Vec::new(), selects };
    walk.merge_values(from, to)
}

static NO_FIELDS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

fn non_empty(value: Value) -> Option<Value> {
    Some(value).filter(|value| value.as_object().is_none_or(|map| !map.is_empty()))
}

/// The state of a walk through two values.
struct Walk<'v, 't> {
    path: String,
    /// The names of the enclosing fields. Items of lists add no name.
    fields: Vec<&'v str>,
    selects: &'t dyn Fn(&str) -> bool,
}

impl<'v> Walk<'v, '_> {
    fn merge_values(&mut self, from: &'v Value, to: &'v Value) -> Value {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => self.merge_maps(from, to),
            (Value::Array(from), Value::Array(to)) => self.merge_lists(from, to),
            _ if from != to && (self.selects)(&self.path) => to.clone(),
            _ => from.clone(),
        }
    }

    /// Descends one step. `None` if the result has no value there.
    fn merge_step(&mut self, step: &str, from: Option<&'v Value>, to: Option<&'v Value>) -> Option<Value> {
        let length = self.path.len();
        self.path.push_str(step);
        let merged = match (from, to) {
            (Some(from), Some(to)) => Some(self.merge_values(from, to)),
            (_, to) if (self.selects)(&self.path) => to.cloned(),
            // Parts of a value that only one side has may be selected.
            (Some(Value::Object(from)), None) => non_empty(self.merge_maps(from, &NO_FIELDS)),
            (None, Some(Value::Object(to))) => non_empty(self.merge_maps(&NO_FIELDS, to)),
            (from, _) => from.cloned(),
        };
        self.path.truncate(length);
        merged
    }

    fn merge_maps(&mut self, from: &'v Map<String, Value>, to: &'v Map<String, Value>) -> Value {
        let mut merged = Map::new();
        for key in from.keys().chain(to.keys().filter(|key| !from.contains_key(*key))) {
            self.fields.push(key);
            let step = format!("/{}", pointer::escape(key).replace('[', "~2"));
            if let Some(value) = self.merge_step(&step, from.get(key), to.get(key)) {
                merged.insert(key.clone(), value);
            }
            self.fields.pop();
        }
        Value::Object(merged)
    }

    fn merge_lists(&mut self, from: &'v [Value], to: &'v [Value]) -> Value {
        let (field, around) = match self.fields.as_slice() {
            [.., around, field] => (*field, *around),
            [field] => (*field, ""),
            [] => ("", ""),
        };
        let merged = match choose_matching(field, around, [from, to]) {
            ItemMatching::Keys(keys) => self.merge_keyed(from, to, &|item| identity_step(item, keys)),
            ItemMatching::Set => self.merge_keyed(from, to, &|item| {
                Some(format!("[={}]", quote_value(item.as_str().unwrap_or_default())))
            }),
            ItemMatching::Order => self.merge_ordered(from, to),
        };
        Value::Array(merged)
    }

    /// Merges items in the order of `to`, then those that only `from` has. If no item changes, the order of `from`
    /// stays, too.
    fn merge_keyed(
        &mut self,
        from: &'v [Value],
        to: &'v [Value],
        step: &dyn Fn(&Value) -> Option<String>,
    ) -> Vec<Value> {
        let [old, new] = [from, to].map(|items| NamedItems::new(items, step));
        let removed = old.0.iter().filter(|(name, _)| new.find(name).is_none());
        let mut merged = Vec::new();
        let mut changed = false;
        for (name, _) in new.0.iter().chain(removed) {
            let before = old.find(name);
            let after = self.merge_step(name, before, new.find(name));
            changed |= before != after.as_ref();
            merged.extend(after);
        }
        if changed { merged } else { from.to_vec() }
    }

    fn merge_ordered(&mut self, from: &'v [Value], to: &'v [Value]) -> Vec<Value> {
        let mut merged = Vec::new();
        for op in sequence::diff_values(from, to) {
            let (old, new) = (op.old_range(), op.new_range());
            if let DiffOp::Equal { .. } = op {
                merged.extend(from[old].iter().cloned());
                continue;
            }
            let both = old.len().min(new.len());
            for (item, at) in from[old.clone()].iter().zip(new.clone()) {
                merged.extend(self.merge_step(&format!("/{at}"), Some(item), to.get(at)));
            }
            for at in old.skip(both) {
                merged.extend(self.merge_step(&format!("/{at}"), from.get(at), None));
            }
            for at in new.skip(both) {
                merged.extend(self.merge_step(&format!("/{at}"), None, to.get(at)));
            }
        }
        merged
    }
}

fn identity_step(item: &Value, keys: &[ListKey]) -> Option<String> {
    Some(format!("[{}]", item_identity(item, keys)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::diff_paths;
    use super::*;

    fn pod(containers: &Value) -> Value {
        json!({"spec": {"containers": containers}})
    }

    #[test]
    fn all_none_or_single_paths() {
        let pairs = [
            (json!({"a": 1, "b": [1, 2, 3]}), json!({"b": [1, 3, 4], "c": {"d": null}})),
            (
                pod(&json!([{"name": "a", "image": "1"}, {"name": "side"}])),
                pod(&json!([{"name": "b"}, {"name": "a", "image": "2", "args": ["x"]}])),
            ),
            (
                json!({"metadata": {"finalizers": ["a", "b"]}}),
                json!({"metadata": {"finalizers": ["c", "b"]}}),
            ),
        ];
        for (from, to) in pairs {
            assert_eq!(overlay_paths(&from, &to, &|_| false), from);
            assert!(diff_paths(&overlay_paths(&from, &to, &|_| true), &to).is_empty(), "{from} {to}");
            for change in diff_paths(&from, &to) {
                let one = overlay_paths(&from, &to, &|path| path == change.path);
                let left = diff_paths(&one, &to);
                assert!(left.iter().all(|left| left.path != change.path), "{}: {one}", change.path);
                assert!(left.len() < diff_paths(&from, &to).len());
            }
        }
    }

    #[test]
    fn one_field_of_one_item() {
        let live = pod(&json!([{"name": "side"}, {"name": "web", "image": "2", "tty": true}]));
        let wanted = pod(&json!([{"name": "web", "image": "1"}, {"name": "side"}]));
        let merged = overlay_paths(&live, &wanted, &|path| path == "/spec/containers[name=web]/image");
        assert_eq!(merged, pod(&json!([{"name": "web", "image": "1", "tty": true}, {"name": "side"}])));
    }
}
