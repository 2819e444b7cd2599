//! Fields that a controller of Kubernetes or the API server owns by definition. federate sends none of them,
//! and a difference in one of them is not a difference.
//!
//! Facts: the API conventions of Kubernetes, and the documentation of each kind. A field that a user may
//! set as well (`spec.clusterIP` of a `Service`, `spec.volumeName` of a claim) is not listed; nor is one that
//! belongs to a controller only in some clusters, such as replicas under an autoscaler
//! (`autoscaled`).

use serde_json::{Map, Value};

use federate_apiserver_model::values::text_below;

/// A field, and who owns it.
#[derive(Clone, Copy, Debug)]
pub struct ControlledField {
    /// API group and kind; every kind where `None`.
    pub kind: Option<(&'static str, &'static str)>,
    /// The keys of the path to the field; `*` stands for every item of a list.
    pub path: &'static [&'static str],
    /// What must be set in the object for the rule to apply.
    pub when: FieldCondition,
    /// Who owns it, and why.
    pub reason: &'static str,
}

/// What must be set in an object.
#[derive(Clone, Copy, Debug)]
pub enum FieldCondition {
    /// Nothing.
    Always,
    /// A top-level field.
    Field(&'static str),
    /// One of these annotations, to something else than `false`.
    Annotation(&'static [&'static str]),
    /// One of these labels, to something else than `false`.
    Label(&'static [&'static str]),
}

/// The annotations by which a controller is asked for certificates of authorities.
const CA_INJECTION: FieldCondition = FieldCondition::Annotation(&[
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
    "service.alpha.openshift.io/inject-cabundle",
]);
const CA_INJECTION_REASON: &str =
    "cert-manager or OpenShift injects the certificates that an annotation asks for";

/// Values of `caBundle` that only hold its place in a manifest: nothing, or an encoded line break.
const PLACEHOLDERS: [&str; 4] = ["", "Cg==", "Cgo=", "IA=="];

/// The fields for certificates of authorities: API group, kind, path.
const CA_BUNDLES: [(&str, &str, &[&str]); 4] = [
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        &["webhooks", "*", "clientConfig", "caBundle"],
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        &["webhooks", "*", "clientConfig", "caBundle"],
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &["spec", "conversion", "webhook", "clientConfig", "caBundle"],
    ),
    ("apiregistration.k8s.io", "APIService", &["spec", "caBundle"]),
];

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// All fields that are owned by definition.
pub const CONTROLLED_FIELDS: &[ControlledField] = &[
    for_every_kind(&["metadata", "uid"], "the API server gives each object its identity"),
    for_every_kind(&["metadata", "resourceVersion"], "the API server counts versions"),
    for_every_kind(&["metadata", "generation"], "the API server counts changes of the specification"),
    for_every_kind(&["metadata", "creationTimestamp"], "the API server notes the time of the creation"),
    for_every_kind(&["metadata", "deletionTimestamp"], "only a request to delete the object sets it"),
    for_every_kind(
        &["metadata", "deletionGracePeriodSeconds"],
        "only a request to delete the object sets it",
    ),
    for_every_kind(&["metadata", "managedFields"], "the API server notes who owns which field"),
    for_every_kind(
        &["metadata", "selfLink"],
        "API servers filled it in before Kubernetes 1.20, and ignore it now",
    ),
    for_one_kind(
        ("apps", "Deployment"),
        &["metadata", "annotations", "deployment.kubernetes.io/revision"],
        "the Deployment controller numbers its revisions",
    ),
    for_one_kind(
        ("apps", "DaemonSet"),
        &["metadata", "annotations", "deprecated.daemonset.template.generation"],
        "the API server counts changes of the pod template",
    ),
    ControlledField {
        kind: Some((RBAC_GROUP, "ClusterRole")),
        path: &["rules"],
        when: FieldCondition::Field("aggregationRule"),
        reason: "the aggregation controller replaces all rules with those of the selected ClusterRoles",
    },
    ca_bundle(CA_BUNDLES[0]),
    ca_bundle(CA_BUNDLES[1]),
    ca_bundle(CA_BUNDLES[2]),
    ca_bundle(CA_BUNDLES[3]),
    ControlledField {
        kind: Some(("", "ConfigMap")),
        path: &["data", "service-ca.crt"],
        when: CA_INJECTION,
        reason: CA_INJECTION_REASON,
    },
    ControlledField {
        kind: Some(("", "ConfigMap")),
        path: &["data", "ca-bundle.crt"],
        when: FieldCondition::Label(&["config.openshift.io/inject-trusted-cabundle"]),
        reason: "OpenShift injects the certificates that the cluster trusts",
    },
];

const fn for_every_kind(path: &'static [&'static str], reason: &'static str) -> ControlledField {
    ControlledField { kind: None, path, when: FieldCondition::Always, reason }
}

const fn for_one_kind(
    kind: (&'static str, &'static str),
    path: &'static [&'static str],
    reason: &'static str,
) -> ControlledField {
    ControlledField { kind: Some(kind), path, when: FieldCondition::Always, reason }
}

const fn ca_bundle(field: (&'static str, &'static str, &'static [&'static str])) -> ControlledField {
    ControlledField {
        kind: Some((field.0, field.1)),
        path: field.2,
        when: CA_INJECTION,
        reason: CA_INJECTION_REASON,
    }
}

impl ControlledField {
    /// Whether the rule is about an object.
    fn applies_to(&self, object: &Value) -> bool {
        let group = text_below(object, "apiVersion").split_once('/').map_or("", |(group, _)| group);
        self.kind.is_none_or(|kind| kind == (group, text_below(object, "kind")))
            && match self.when {
                FieldCondition::Always => true,
                FieldCondition::Field(field) => object.get(field).is_some_and(|value| !value.is_null()),
                FieldCondition::Annotation(keys) => is_any_set(object, "annotations", keys),
                FieldCondition::Label(keys) => is_any_set(object, "labels", keys),
            }
    }
}

/// Removes these fields from an object.
pub fn remove_controlled(object: &mut Value) {
    for field in CONTROLLED_FIELDS {
        if let (true, Some((last, parents))) = (field.applies_to(object), field.path.split_last()) {
            remove_field(object, parents, last, &|_| true);
        }
    }
}

/// Removes from a rendered object what a controller owns because of the live object, and what only holds the place of a
/// certificate.
pub fn remove_controlled_of(live: &Value, body: &mut Value) {
    for field in CONTROLLED_FIELDS
        .iter()
        .filter(|field| matches!(field.when, FieldCondition::Annotation(_) | FieldCondition::Label(_)))
    {
        if let (true, Some((last, parents))) = (field.applies_to(live), field.path.split_last()) {
            remove_field(body, parents, last, &|_| true);
        }
    }
}

/// Whether one of the keys of a map in the metadata has a value other than `false`.
fn is_any_set(object: &Value, map: &str, keys: &[&str]) -> bool {
    let map = object.get("metadata").and_then(|metadata| metadata.get(map));
    let mut values = keys.iter().filter_map(|key| map?.get(*key)?.as_str());
    values.any(|value| !value.is_empty() && value != "false")
}

/// Removes placeholders of certificates from a rendered object, in which another client fills them in.
fn remove_placeholders(body: &mut Value) {
    let kind = text_below(body, "kind");
    let group = text_below(body, "apiVersion").split_once('/').map_or("", |(group, _)| group);
    let field = CA_BUNDLES.iter().find(|field| (field.0, field.1) == (group, kind));
    if let Some((last, parents)) = field.and_then(|field| field.2.split_last()) {
        remove_field(body, parents, last, &|value| {
            value.as_str().is_some_and(|text| PLACEHOLDERS.contains(&text))
        });
    }
}

/// Removes a field with such a value, and the map around it where that is empty then.
fn remove_field(object: &mut Value, parents: &[&str], last: &str, is: &dyn Fn(&Value) -> bool) {
    if let (Value::Array(items), Some(("*", rest))) =
        (&mut *object, parents.split_first().map(|(f, r)| (*f, r)))
    {
        for item in items {
            remove_field(item, rest, last, is);
        }
        return;
    }
    let Some(map) = object.as_object_mut() else { return };
    let Some((first, rest)) = parents.split_first() else {
        if map.get(last).is_some_and(is) {
            map.shift_remove(last);
        }
        return;
    };
    let Some(child) = map.get_mut(*first) else { return };
    let had = child.as_object().is_some_and(|map| !map.is_empty());
    remove_field(child, rest, last, is);
    if had && child.as_object().is_some_and(Map::is_empty) {
        map.shift_remove(*first);
    }
}

/// Prepares a rendered object for sending. `stringData` of a Secret is sent as `data`: the server records no owner
/// for keys that come from `stringData`, so that a key would stay after it is no longer rendered.
pub fn to_applied_body(body: &mut Value) {
    remove_controlled(body);
    remove_placeholders(body);
    let texts = body.get("stringData").and_then(Value::as_object);
    // The API server refuses values that are not text.
    if text_below(body, "kind") == "Secret"
        && text_below(body, "apiVersion") == "v1"
        && texts.is_some_and(|t| t.values().all(Value::is_string))
    {
        federate_apiserver_model::encode_string_data(body);
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
    fn every_field_has_a_reason_and_a_place_of_its_own() {
        let places: std::collections::BTreeSet<_> =
            CONTROLLED_FIELDS.iter().map(|field| (field.kind, field.path)).collect();
        assert_eq!(places.len(), CONTROLLED_FIELDS.len());
        let revision = ["metadata", "annotations", "deployment.kubernetes.io/revision"];
        assert!(CONTROLLED_FIELDS.iter().any(|field| field.path == revision));
        assert!(CONTROLLED_FIELDS.iter().all(|field| !field.reason.is_empty()));
    }
}
