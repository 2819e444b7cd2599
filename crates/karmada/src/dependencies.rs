//! The other objects that a template refers to.
//!
//! Facts: references of pods, in every kind that holds pod templates; TLS Secrets of an Ingress; and what
//! a `ServiceImport` derives. References of references are not followed, nor those to other namespaces. The references
//! of an object are checked together: one without a name makes the whole operation fail, and nothing changes. Those of
//! pods without a name are skipped instead.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use super::builtin_workload::BuiltInFailure;
use super::version::KarmadaBehaviour;
use federate_kubernetes::pods::PodReferences;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Labels, Object, ObjectRef};

mod thirdparty;

/// A reference to objects that may or may not exist.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DependentObjectReference {
    pub(super) api_version: Cow<'static, str>,
    pub(super) kind: Cow<'static, str>,
    pub(super) namespace: Option<String>,
    pub(super) target: DependencyTarget,
}

impl DependentObjectReference {
    /// Reads a `DependentObjectReference`.
    pub(super) fn from_json(reference: &Value) -> Option<Self> {
        let target = match owned_text(reference, "name") {
            Some(name) => DependencyTarget::Name(name),
            None => {
                DependencyTarget::Labels(LabelSelector::deserialize(reference.get("labelSelector")?).ok()?)
            }
        };
        Some(Self {
            api_version: owned_text(reference, "apiVersion")?.into(),
            kind: owned_text(reference, "kind")?.into(),
            namespace: owned_text(reference, "namespace"),
            target,
        })
    }

    /// The object with this name that the reference would select.
    pub(super) fn object_named(&self, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: self.api_version.to_string(),
            kind: self.kind.to_string(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// Writes it as a `DependentObjectReference`.
    pub(super) fn to_json(&self) -> Value {
        let mut reference =
            json!({"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace});
        match &self.target {
            DependencyTarget::Name(name) => reference["name"] = Value::from(name.as_str()),
            DependencyTarget::Labels(selector) => {
                reference["labelSelector"] = json!({"matchLabels": selector.match_labels});
            }
        }
        reference
    }
}

/// How the objects are named.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DependencyTarget {
    Name(String),
    Labels(LabelSelector),
}

/// The paths of pod specs of Kubernetes' own kinds.
const POD_SPECS: [(&str, &str, &str); 7] = [
    ("v1", "Pod", "/spec"),
    ("apps/v1", "Deployment", "/spec/template/spec"),
    ("apps/v1", "ReplicaSet", "/spec/template/spec"),
    ("apps/v1", "StatefulSet", "/spec/template/spec"),
    ("apps/v1", "DaemonSet", "/spec/template/spec"),
    ("batch/v1", "Job", "/spec/template/spec"),
    ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template/spec"),
];

/// The references of a template, by kind and name. The error is why its interpreter fails.
pub(super) fn find_dependencies(
    template: &Object,
    behaviour: &KarmadaBehaviour,
) -> Result<Vec<DependentObjectReference>, BuiltInFailure> {
    let id = &template.id;
    let (version, kind) = (id.api_version.as_str(), id.kind.as_str());
    if !behaviour.has_interpreter(version, kind) {
        return Ok(Vec::new());
    }
    if (version, kind) == ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") {
        return Ok(id
            .namespace
            .as_deref()
            .map(|namespace| list_derived_objects(&id.name, namespace))
            .unwrap_or_default());
    }
    let mut references = thirdparty::find_references(template)?;
    if let Some((.., path)) = POD_SPECS.iter().find(|(v, k, _)| (*v, *k) == (version, kind)) {
        references.add_pod(template.body.pointer(path).unwrap_or(&Value::Null));
    }
    match (version, kind) {
        ("apps/v1", "StatefulSet") => drop_own_claims(template, &mut references),
        ("networking.k8s.io/v1", "Ingress") => visit_each(&template.body, "/spec/tls/*", &mut |tls| {
            let name = tls.get("secretName").and_then(Value::as_str).unwrap_or_default();
            references.secrets.insert(name.to_owned());
        }),
        _ => {}
    }
    // All references are checked together.
    if references.secrets.contains("") || references.config_maps.contains("") {
        return Err(BuiltInFailure::invalid_dependency("a reference has no name"));
    }
    Ok(list_named_references(references, id.namespace.as_deref()))
}

/// Calls `visit` with every value at a path in which `*` stands for all items or entries.
fn visit_each(value: &Value, path: &str, visit: &mut dyn FnMut(&Value)) {
    let Some((before, after)) = path.split_once("/*") else {
        if let Some(found) = value.pointer(path) {
            visit(found);
        }
        return;
    };
    match value.pointer(before) {
        Some(Value::Array(items)) => items.iter().for_each(|item| visit_each(item, after, visit)),
        Some(Value::Object(map)) => map.values().for_each(|item| visit_each(item, after, visit)),
        _ => {}
    }
}

/// Removes the claims that a `StatefulSet` creates itself.
fn drop_own_claims(template: &Object, references: &mut PodReferences) {
    visit_each(&template.body, "/spec/volumeClaimTemplates/*/metadata/name", &mut |name| {
        if let Some(name) = name.as_str() {
            references.claims.remove(name);
        }
    });
}

/// The Service and the `EndpointSlices` that an import creates in the control plane.
fn list_derived_objects(name: &str, namespace: &str) -> Vec<DependentObjectReference> {
    let service = format!("derived-{name}");
    let labels = Labels::from([("kubernetes.io/service-name".to_owned(), service.clone())]);
    let selector = LabelSelector { match_labels: labels, ..LabelSelector::default() };
    let namespace = Some(namespace.to_owned());
    vec![
        DependentObjectReference {
            api_version: "discovery.k8s.io/v1".into(),
            kind: "EndpointSlice".into(),
            namespace: namespace.clone(),
            target: DependencyTarget::Labels(selector),
        },
        DependentObjectReference {
            api_version: "v1".into(),
            kind: "Service".into(),
            namespace,
            target: DependencyTarget::Name(service),
        },
    ]
}

fn list_named_references(
    references: PodReferences,
    namespace: Option<&str>,
) -> Vec<DependentObjectReference> {
    let by_kind = [
        ("ConfigMap", references.config_maps),
        ("PersistentVolumeClaim", references.claims),
        ("Secret", references.secrets),
        ("ServiceAccount", references.service_accounts),
    ];
    let named = by_kind.into_iter().flat_map(|(kind, names)| names.into_iter().map(move |name| (kind, name)));
    named
        .map(|(kind, name)| DependentObjectReference {
            api_version: "v1".into(),
            kind: kind.into(),
            namespace: namespace.map(str::to_owned),
            target: DependencyTarget::Name(name),
        })
        .collect()
}

fn owned_text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}
