//! The name of a kind as `kubectl` takes it: the kind, its plural or a short name, with or without its group.
//!
//! Facts: `kubectl api-resources`, and the `shortNames` in the CRDs of the control planes.

use federate_apiserver_model::ResourceKind;
use federate_kubernetes::kinds::pluralize_kind;
use federate_kubernetes::{Object, ObjectRef};

/// The short names of kinds of control planes.
const SHORT_NAMES: [(&str, &str); 7] = [
    ("pp", "PropagationPolicy"),
    ("cpp", "ClusterPropagationPolicy"),
    ("op", "OverridePolicy"),
    ("cop", "ClusterOverridePolicy"),
    ("crp", "ClusterResourcePlacement"),
    ("rp", "ResourcePlacement"),
    ("ftc", "FederatedTypeConfig"),
];

/// The parsed name of a kind.
pub(crate) struct KindName {
    /// The part before the first dot, in lower case.
    name: String,
    /// The group, or its beginning; empty for any group.
    group: String,
    /// The kinds that have this name by a definition: built-in kinds, and those of CRDs in the repo.
    kinds: Vec<String>,
}

impl KindName {
    /// Parses a name. `objects` are the objects of the repo, whose CRDs name their kinds.
    pub(crate) fn parse<'o>(text: &str, objects: impl Iterator<Item = &'o Object>) -> Self {
        let text = text.to_lowercase();
        let (name, group) = text.split_once('.').unwrap_or((&text, ""));
        let builtin = ResourceKind::all_builtins();
        let builtin =
            builtin.filter(|kind| kind.plural == name || kind.short.iter().any(|short| short == name));
        let mut kinds: Vec<String> = builtin.map(|kind| kind.kind.clone()).collect();
        kinds.extend(
            SHORT_NAMES.iter().filter(|(short, _)| *short == name).map(|(_, kind)| (*kind).to_owned()),
        );
        kinds.extend(objects.filter_map(|object| find_defined_kind(object, name)));
        Self { name: name.to_owned(), group: group.to_owned(), kinds }
    }

    /// Whether an object is of this kind.
    pub(crate) fn matches_object(&self, id: &ObjectRef) -> bool {
        let kind = id.kind.to_lowercase();
        let called = kind == self.name || pluralize_kind(&kind) == self.name || self.kinds.contains(&id.kind);
        // `deployments.v1.apps` names the version, too.
        let unversioned = self.group.split_once('.').map(|(_, group)| group);
        let mut groups = std::iter::once(self.group.as_str()).chain(unversioned);
        called
            && (self.group.is_empty()
                || groups
                    .any(|group| id.group() == group || (!group.is_empty() && id.group().starts_with(group))))
    }

    /// Whether it is the kind of an object of this name, in this namespace if there is one.
    pub(crate) fn names_object(&self, id: &ObjectRef, name: &str, namespace: Option<&str>) -> bool {
        self.matches_object(id)
            && id.name == name
            && (namespace.is_none() || id.namespace.as_deref() == namespace)
    }
}

/// The kind that a CRD defines with this plural or short name.
fn find_defined_kind(object: &Object, name: &str) -> Option<String> {
    if object.id.kind != "CustomResourceDefinition" {
        return None;
    }
    let names = object.body.pointer("/spec/names")?;
    let short = names["shortNames"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    let named = names["plural"] == name || short.into_iter().any(|short| short.eq_ignore_ascii_case(name));
    named.then(|| names["kind"].as_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_of_kubectl() {
        let id = |api_version: &str, kind: &str| ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "a".to_owned(),
        };
        let karmada = "policy.karmada.io/v1alpha1";
        for (text, api_version, kind) in [
            ("deploy", "apps/v1", "Deployment"),
            ("Deployments.apps", "apps/v1", "Deployment"),
            ("deployments.v1.apps", "apps/v1", "Deployment"),
            ("svc", "v1", "Service"),
            ("cm", "v1", "ConfigMap"),
            ("ing", "networking.k8s.io/v1", "Ingress"),
            ("ingresses", "networking.k8s.io/v1", "Ingress"),
            ("pp", karmada, "PropagationPolicy"),
            ("propagationpolicies", karmada, "PropagationPolicy"),
            ("cop", karmada, "ClusterOverridePolicy"),
            ("crp", "placement.kubernetes-fleet.io/v1", "ClusterResourcePlacement"),
        ] {
            assert!(
                KindName::parse(text, std::iter::empty()).matches_object(&id(api_version, kind)),
                "{text}"
            );
        }
        assert!(
            !KindName::parse("deploy.batch", std::iter::empty()).matches_object(&id("apps/v1", "Deployment"))
        );
    }
}
