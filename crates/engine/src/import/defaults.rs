//! Removes the fields of an object that an API server would set to the same defaults again.
//!
//! The rules of the API server decide: a field is removed if the server completes the object to the same result
//! without it. Fields that those rules do not know stay.

use serde_json::Value;

use federate_apiserver_model::{ResourceKind, WriteOptions, complete_object, strategy};
use federate_dialect::import::ImportEdit;
use federate_kubernetes::pointer::escape;

/// Fields that stay although the server would set them: the identity of the object, and the numbers that schedulers
/// divide.
const KEPT_FIELDS: [&str; 7] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/spec/completions",
    "/spec/parallelism",
    "/spec/replicas",
];

/// Returns the removals of defaulted fields, in order.
pub(super) fn remove_defaults(kind: &ResourceKind, body: &Value) -> Vec<ImportEdit> {
    let Some(completed) = stored_object(kind, body) else { return Vec::new() };
    let mut stripping = Stripping { kind, completed, body: body.clone(), removed: Vec::new() };
    stripping.strip_below("");
    stripping.removed
}

/// Returns the object as the server would store it on creation. `None` if the server would reject it.
pub(super) fn stored_object(kind: &ResourceKind, body: &Value) -> Option<Value> {
    let write = WriteOptions { kind, manager: "", subresource: None, force: false, now: "" };
    strategy::prepare_for_create(complete_object(kind, body.clone()), &write).ok()
}

/// Whether a field stays. A volume without a source means `emptyDir`, but looks like a mistake.
fn is_kept(pointer: &str) -> bool {
    KEPT_FIELDS.contains(&pointer) || pointer.ends_with("/emptyDir")
}

struct Stripping<'k> {
    kind: &'k ResourceKind,
    /// The given object as the server would store it.
    completed: Value,
    body: Value,
    removed: Vec<ImportEdit>,
}

impl Stripping<'_> {
    /// Removes the defaults below a JSON pointer, the largest values first.
    fn strip_below(&mut self, pointer: &str) {
        let parts: Vec<String> = match self.body.pointer(pointer) {
            Some(Value::Object(map)) => map.keys().map(|key| format!("{pointer}/{}", escape(key))).collect(),
            Some(Value::Array(items)) => (0..items.len()).map(|at| format!("{pointer}/{at}")).collect(),
            _ => return,
        };
        let is_list = self.body.pointer(pointer).is_some_and(Value::is_array);
        for part in parts {
            if is_list || is_kept(&part) || !self.remove_default(&part) {
                self.strip_below(&part);
            }
        }
    }

    /// Removes a value if the server would store the same object without it. Returns whether it was removed.
    fn remove_default(&mut self, pointer: &str) -> bool {
        let Some(value) = self.body.pointer(pointer) else { return true };
        if !self.completed.pointer(pointer).is_some_and(|stored| has_all_fields(stored, value)) {
            return false;
        }
        let edit = ImportEdit { pointer: pointer.to_owned(), value: None };
        let mut body = self.body.clone();
        edit.apply_to(&mut body);
        let same = stored_object(self.kind, &body).is_some_and(|stored| stored == self.completed);
        if same {
            self.body = body;
            self.removed.push(edit);
        }
        same
    }
}

/// Whether the stored value has all fields of the given one. The server drops fields that it does not know, such as
/// those of a newer version; they must not be removed.
fn has_all_fields(stored: &Value, given: &Value) -> bool {
    match (stored, given) {
        (Value::Object(stored), Value::Object(given)) => given
            .iter()
            .all(|(key, given)| stored.get(key).is_some_and(|stored| has_all_fields(stored, given))),
        (Value::Array(stored), Value::Array(given)) => {
            stored.len() == given.len()
                && stored.iter().zip(given).all(|(stored, given)| has_all_fields(stored, given))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_apiserver_model::apply_object;
    use federate_dialect::import::apply_edits;

    fn stripped(body: &Value) -> Value {
        let text = |key: &str| body[key].as_str().unwrap();
        let kind = ResourceKind::find_builtin(text("apiVersion"), text("kind")).unwrap();
        let mut stripped = body.clone();
        apply_edits(&remove_defaults(kind, body), &mut stripped);
        stripped
    }

    /// Stripping the stored object gives the written one, whatever the server has added.
    #[test]
    fn written_fields_stay() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "containers": [{
                            "name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
                            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                            "readinessProbe": {"httpGet": {"path": "/ready", "port": 80}},
                        }],
                        "volumes": [{"name": "c", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {}}],
                    },
                },
            },
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        });
        for written in [deployment, service] {
            let kind = ResourceKind::find_builtin(
                written["apiVersion"].as_str().unwrap(),
                written["kind"].as_str().unwrap(),
            );
            let kind = kind.unwrap();
            let mut live = stored_object(kind, &written).unwrap();
            live.as_object_mut().unwrap().shift_remove("status");
            live["metadata"].as_object_mut().unwrap().shift_remove("generation");
            assert_ne!(live, written);
            assert_eq!(stripped(&live), written);
        }
    }

    #[test]
    fn applying_the_stripped_object_changes_nothing() {
        let kind = ResourceKind::find_builtin("apps/v1", "Deployment").unwrap();
        let body = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "Recreate"},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "nginx", "imagePullPolicy": "IfNotPresent"}]},
                },
            },
        });
        let write = WriteOptions { kind, manager: "kubectl", subresource: None, force: true, now: "t" };
        let live = apply_object(None, &body, &write).unwrap();
        let mut imported = live.clone();
        for key in ["managedFields", "generation"] {
            imported["metadata"].as_object_mut().unwrap().shift_remove(key);
        }
        imported.as_object_mut().unwrap().shift_remove("status");
        let imported = stripped(&imported);
        assert_eq!(imported["spec"]["template"], body["spec"]["template"]);
        let mut again =
            apply_object(Some(&live), &imported, &WriteOptions { manager: "federate", ..write }).unwrap();
        again["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
        assert_eq!(again, live);
    }

    #[test]
    fn unknown_fields_stay() {
        let body = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"ports": [{"port": 80, "protocol": "TCP", "novelty": {}}], "type": "ClusterIP", "newer": null},
        });
        let left = stripped(&body);
        assert_eq!(left["spec"], json!({"ports": [{"port": 80, "novelty": {}}], "newer": null}));
        let unknown = ResourceKind::without_schema("example.com/v1", "Widget", true);
        assert_eq!(remove_defaults(&unknown, &json!({"spec": {"size": 1}})), []);
    }
}
