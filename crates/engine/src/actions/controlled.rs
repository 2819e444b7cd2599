//! Fields that a controller of Kubernetes or the API server owns by definition. federate sends none of them,
//! and a difference in one of them is not a difference.
//!
//! Facts: the API conventions of Kubernetes, and the documentation of each kind. A field that a user may
//! set as well (`spec.clusterIP` of a `Service`, `spec.volumeName` of a claim) is not listed; nor is one that
//! belongs to a controller only in some clusters, such as replicas under an autoscaler
//! (`autoscaled`).

use serde_json::{Map, Value};

use federate_kubernetes::pointer::escape;

/// A field, and who owns it.
#[derive(Clone, Copy, Debug)]
pub struct Controlled {
    /// API group and kind; every kind where `None`.
    pub kind: Option<(&'static str, &'static str)>,
    /// The keys of the path to the field.
    pub path: &'static [&'static str],
    /// A top-level field that must be set for the rule to apply.
    pub when: Option<&'static str>,
    /// Who owns it, and why.
    pub reason: &'static str,
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// All fields that are owned by definition.
pub const CONTROLLED: &[Controlled] = &[
    every(&["metadata", "uid"], "the API server gives each object its identity"),
    every(&["metadata", "resourceVersion"], "the API server counts versions"),
    every(&["metadata", "generation"], "the API server counts changes of the specification"),
    every(&["metadata", "creationTimestamp"], "the API server notes the time of the creation"),
    every(&["metadata", "deletionTimestamp"], "only a request to delete the object sets it"),
    every(&["metadata", "deletionGracePeriodSeconds"], "only a request to delete the object sets it"),
    every(&["metadata", "managedFields"], "the API server notes who owns which field"),
    every(&["metadata", "selfLink"], "API servers filled it in before Kubernetes 1.20, and ignore it now"),
    one(
        ("apps", "Deployment"),
        &["metadata", "annotations", "deployment.kubernetes.io/revision"],
        "the Deployment controller numbers its revisions",
    ),
    one(
        ("apps", "DaemonSet"),
        &["metadata", "annotations", "deprecated.daemonset.template.generation"],
        "the API server counts changes of the pod template",
    ),
    Controlled {
        kind: Some((RBAC, "ClusterRole")),
        path: &["rules"],
        when: Some("aggregationRule"),
        reason: "the aggregation controller replaces all rules with those of the selected ClusterRoles",
    },
];

const fn every(path: &'static [&'static str], reason: &'static str) -> Controlled {
    Controlled { kind: None, path, when: None, reason }
}

const fn one(
    kind: (&'static str, &'static str),
    path: &'static [&'static str],
    reason: &'static str,
) -> Controlled {
    Controlled { kind: Some(kind), path, when: None, reason }
}

impl Controlled {
    /// Whether the rule is about an object.
    fn applies(&self, object: &Value) -> bool {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        self.kind.is_none_or(|kind| kind == (group, text("kind")))
            && self.when.is_none_or(|field| object.get(field).is_some_and(|value| !value.is_null()))
    }

    /// The field as a JSON pointer.
    pub fn pointer(&self) -> String {
        self.path.iter().flat_map(|key| ["/".into(), escape(key)]).collect()
    }
}

/// Removes these fields from an object.
pub(super) fn remove_controlled(object: &mut Value) {
    for field in CONTROLLED {
        if let (true, Some((last, parents))) = (field.applies(object), field.path.split_last()) {
            remove(object, parents, last);
        }
    }
}

/// Removes a field, and the map around it where that is empty then.
fn remove(object: &mut Value, parents: &[&str], last: &str) {
    let Some(map) = object.as_object_mut() else { return };
    let Some((first, rest)) = parents.split_first() else {
        map.shift_remove(last);
        return;
    };
    let Some(child) = map.get_mut(*first) else { return };
    let had = child.as_object().is_some_and(|map| !map.is_empty());
    remove(child, rest, last);
    if had && child.as_object().is_some_and(Map::is_empty) {
        map.shift_remove(*first);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn without(mut object: Value) -> Value {
        remove_controlled(&mut object);
        object
    }

    #[test]
    fn what_a_controller_owns_is_removed_and_nothing_else() {
        let role = |more: Value| {
            let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "a", "annotations": {"deployment.kubernetes.io/revision": "1"}}, "rules": []});
            role.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            role
        };
        assert_eq!(without(role(json!({}))), role(json!({})), "a role of its own has its own rules");
        assert_eq!(without(role(json!({"aggregationRule": {}}))).get("rules"), None);
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a", "uid": "u",
            "annotations": {"deprecated.daemonset.template.generation": "3"}, "labels": {}}});
        assert_eq!(
            without(set),
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a", "labels": {}}})
        );
    }

    #[test]
    fn every_field_has_a_pointer_and_a_reason_of_its_own_place() {
        let pointers: std::collections::BTreeSet<String> =
            CONTROLLED.iter().map(Controlled::pointer).collect();
        assert_eq!(pointers.len(), CONTROLLED.len());
        assert!(pointers.contains("/metadata/annotations/deployment.kubernetes.io~1revision"));
        assert!(CONTROLLED.iter().all(|field| !field.reason.is_empty()));
    }
}
