//! An object without what an API server would fill in again.
//!
//! The server's own rules decide, field by field: what the object is completed to with and without a
//! field. What those rules do not know stays.

use serde_json::Value;

use federate_apiserver::{Kind, Write, complete, strategy};
use federate_dialect::import::Edit;
use federate_kubernetes::patch::escape;

/// What stays though it would be filled in: what the object is called, and the numbers that schedulers
/// divide.
const KEPT: [&str; 7] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/spec/completions",
    "/spec/parallelism",
    "/spec/replicas",
];

/// The defaults that are removed, in that order.
pub(super) fn minimal(kind: &Kind, body: &Value) -> Vec<Edit> {
    let Some(whole) = stored(kind, body) else { return Vec::new() };
    let mut stripping = Stripping { kind, whole, body: body.clone(), removed: Vec::new() };
    stripping.below("");
    stripping.removed
}

/// The object as it would be stored anew; `None` where the server would refuse it.
pub(super) fn stored(kind: &Kind, body: &Value) -> Option<Value> {
    let write = Write { kind, manager: "", subresource: None, force: false, now: "" };
    strategy::create(complete(kind, body.clone()), &write).ok()
}

/// A volume without a source is an empty folder, but reads like a mistake.
fn is_kept(place: &str) -> bool {
    KEPT.contains(&place) || place.ends_with("/emptyDir")
}

struct Stripping<'k> {
    kind: &'k Kind,
    /// What the server makes of the object as it was given.
    whole: Value,
    body: Value,
    removed: Vec<Edit>,
}

impl Stripping<'_> {
    /// Removes what can be removed below a place; the largest parts first.
    fn below(&mut self, place: &str) {
        let parts: Vec<String> = match self.body.pointer(place) {
            Some(Value::Object(map)) => map.keys().map(|key| format!("{place}/{}", escape(key))).collect(),
            Some(Value::Array(items)) => (0..items.len()).map(|at| format!("{place}/{at}")).collect(),
            _ => return,
        };
        let is_list = self.body.pointer(place).is_some_and(Value::is_array);
        for part in parts {
            if is_list || is_kept(&part) || !self.removes(&part) {
                self.below(&part);
            }
        }
    }

    /// Removes a value if that makes no difference to the server.
    fn removes(&mut self, place: &str) -> bool {
        let Some(value) = self.body.pointer(place) else { return true };
        if !self.whole.pointer(place).is_some_and(|stored| knows(stored, value)) {
            return false;
        }
        let edit = Edit { pointer: place.to_owned(), value: None };
        let mut body = self.body.clone();
        edit.apply(&mut body);
        let same = stored(self.kind, &body).is_some_and(|stored| stored == self.whole);
        if same {
            self.body = body;
            self.removed.push(edit);
        }
        same
    }
}

/// Whether what is stored has all that was given: fields of a newer version are not lost.
fn knows(stored: &Value, given: &Value) -> bool {
    match (stored, given) {
        (Value::Object(stored), Value::Object(given)) => {
            given.iter().all(|(key, given)| stored.get(key).is_some_and(|stored| knows(stored, given)))
        }
        (Value::Array(stored), Value::Array(given)) => {
            stored.len() == given.len()
                && stored.iter().zip(given).all(|(stored, given)| knows(stored, given))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_apiserver::applied;
    use federate_dialect::import::apply;

    fn stripped(body: &Value) -> Value {
        let text = |key: &str| body[key].as_str().unwrap();
        let kind = Kind::builtin(text("apiVersion"), text("kind")).unwrap();
        let mut stripped = body.clone();
        apply(&minimal(&kind, body), &mut stripped);
        stripped
    }

    /// What was written comes out again of what the server made of it, whatever it filled in.
    #[test]
    fn what_was_written_is_left() {
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
            let kind =
                Kind::builtin(written["apiVersion"].as_str().unwrap(), written["kind"].as_str().unwrap());
            let kind = kind.unwrap();
            let mut live = stored(&kind, &written).unwrap();
            live.as_object_mut().unwrap().shift_remove("status");
            live["metadata"].as_object_mut().unwrap().shift_remove("generation");
            assert_ne!(live, written);
            assert_eq!(stripped(&live), written);
        }
    }

    #[test]
    fn an_apply_of_what_is_left_changes_nothing() {
        let kind = Kind::builtin("apps/v1", "Deployment").unwrap();
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
        let write = Write { kind: &kind, manager: "kubectl", subresource: None, force: true, now: "t" };
        let live = applied(None, &body, &write).unwrap();
        let mut taken = live.clone();
        for key in ["managedFields", "generation"] {
            taken["metadata"].as_object_mut().unwrap().shift_remove(key);
        }
        taken.as_object_mut().unwrap().shift_remove("status");
        let taken = stripped(&taken);
        assert_eq!(taken["spec"]["template"], body["spec"]["template"]);
        let mut again = applied(Some(&live), &taken, &Write { manager: "federate", ..write }).unwrap();
        again["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
        assert_eq!(again, live);
    }

    #[test]
    fn what_the_rules_do_not_know_stays() {
        let body = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"ports": [{"port": 80, "protocol": "TCP", "novelty": {}}], "type": "ClusterIP", "newer": null},
        });
        let left = stripped(&body);
        assert_eq!(left["spec"], json!({"ports": [{"port": 80, "novelty": {}}], "newer": null}));
        let unknown = Kind::unknown("example.com/v1", "Widget", true);
        assert_eq!(minimal(&unknown, &json!({"spec": {"size": 1}})), []);
    }
}
