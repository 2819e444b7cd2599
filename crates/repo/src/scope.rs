//! Applies the scope of its kind to each object: whether it has a namespace.
//!
//! An API server knows every kind; a repo does not. A custom resource without `metadata.namespace` is namespaced unless
//! something says otherwise, because most are. A dump of an API server has the namespace of every namespaced object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Claims, ImpliedScope};
use federate_kubernetes::kinds::{self, Scope};
use federate_kubernetes::{Object, ecosystem};

/// The namespace of namespaced objects without one.
const DEFAULT_NAMESPACE: &str = "default";

/// A group and a kind.
type GroupKind = (String, String);

/// What the objects of a repo say about the scopes of kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scopes {
    /// By definitions (`CustomResourceDefinition`) and declarations.
    defined: BTreeMap<GroupKind, Scope>,
    /// By what policies can select.
    implied: BTreeMap<GroupKind, Scope>,
    /// Whether the objects come from API servers.
    dumped: bool,
}

/// How the scope of an object is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeSource {
    /// By its kind, or because the object has a namespace.
    Known,
    /// It is not: the object counts as namespaced.
    Assumed,
}

impl Scopes {
    /// Reads the definitions and declarations in the objects of a repo. A definition takes precedence over a
    /// declaration; otherwise the first one of a kind counts.
    pub(crate) fn from_objects<'o>(
        objects: impl Iterator<Item = &'o Object> + Clone,
        claims: &dyn Claims,
    ) -> Self {
        let mut scopes = Self { defined: read_defined_scopes(objects.clone()), ..Self::default() };
        for (_, declared) in objects.clone().filter_map(|o| claims.declared_kind(o)) {
            if let Some(scope) = declared.scope {
                scopes.defined.entry((declared.group, declared.kind)).or_insert(scope);
            }
        }
        for ImpliedScope { group, kind, scope } in objects.flat_map(|object| claims.implied_scopes(object)) {
            scopes.implied.entry((group, kind)).or_insert(scope);
        }
        scopes
    }

    /// Reads the definitions in the objects of a dump.
    pub(crate) fn from_dump<'o>(objects: impl Iterator<Item = &'o Object>) -> Self {
        Self { defined: read_defined_scopes(objects), dumped: true, ..Self::default() }
    }

    /// Adds or removes the object's namespace, in body and identity, according to the scope of its kind.
    pub(crate) fn normalize_namespace(&self, object: &mut Object, claims: &dyn Claims) -> ScopeSource {
        let (scope, source) = self.find_scope(object, claims);
        let namespace = match scope {
            Scope::Cluster => None,
            Scope::Namespaced => {
                Some(object.id.namespace.take().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()))
            }
        };
        if let Some(Value::Object(metadata)) = object.body.get_mut("metadata") {
            match &namespace {
                Some(namespace) if metadata.get("namespace").and_then(Value::as_str) == Some(namespace) => {}
                Some(namespace) => drop(metadata.insert("namespace".to_owned(), namespace.as_str().into())),
                None => drop(metadata.shift_remove("namespace")),
            }
        }
        object.id.namespace = namespace;
        source
    }

    /// Sets the namespace of a namespaced object that has none.
    pub(crate) fn apply_default(&self, object: &mut Object, namespace: &str, claims: &dyn Claims) {
        if object.id.namespace.is_none() && self.find_scope(object, claims).0 == Scope::Namespaced {
            object.id.namespace = Some(namespace.to_owned());
        }
    }

    fn find_scope(&self, object: &Object, claims: &dyn Claims) -> (Scope, ScopeSource) {
        let (group, kind) = (object.id.group(), object.id.kind.as_str());
        let known = find_in(&self.defined, group, kind)
            .or_else(|| kinds::find_scope(group, kind))
            .or_else(|| claims.scope_of_kind(group, kind))
            .or_else(|| ecosystem::find_scope(group, kind));
        let has_namespace = object.id.namespace.is_some();
        match known.or_else(|| has_namespace.then_some(Scope::Namespaced)) {
            Some(scope) => return (scope, ScopeSource::Known),
            None if self.dumped => return (Scope::Cluster, ScopeSource::Known),
            None => {}
        }
        match find_in(&self.implied, group, kind).or_else(|| ecosystem::usual_scope(group, kind)) {
            Some(scope) => (scope, ScopeSource::Known),
            None => (Scope::Namespaced, ScopeSource::Assumed),
        }
    }
}

/// The scopes that definitions among the objects have.
fn read_defined_scopes<'o>(objects: impl Iterator<Item = &'o Object>) -> BTreeMap<GroupKind, Scope> {
    let mut scopes = BTreeMap::new();
    for object in
        objects.filter(|o| o.id.kind == "CustomResourceDefinition" && o.id.group() == "apiextensions.k8s.io")
    {
        let scope = match object.text_at(&["spec", "scope"]) {
            "Namespaced" => Scope::Namespaced,
            "Cluster" => Scope::Cluster,
            _ => continue,
        };
        let kind = object.text_at(&["spec", "names", "kind"]);
        let key = (object.text_at(&["spec", "group"]).to_owned(), kind.to_owned());
        scopes.entry(key).or_insert(scope);
    }
    scopes
}

fn find_in(scopes: &BTreeMap<GroupKind, Scope>, group: &str, kind: &str) -> Option<Scope> {
    if scopes.is_empty() { None } else { scopes.get(&(group.to_owned(), kind.to_owned())).copied() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{DeclaredKind, Role};
    use super::*;

    fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Object {
        let body = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        Object::from_manifest(body, "a.yaml")
    }

    fn crd(group: &str, kind: &str, scope: &str) -> Object {
        let mut crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "x");
        crd.body["spec"] = json!({"group": group, "names": {"kind": kind}, "scope": scope});
        crd
    }

    /// A dialect with one namespaced kind.
    struct Policies;

    impl Claims for Policies {
        fn role_of_kind(&self, _: &str, _: &str) -> Option<(&'static str, Role)> {
            None
        }

        fn scope_of_kind(&self, group: &str, _: &str) -> Option<Scope> {
            (group == "policy.example.org").then_some(Scope::Namespaced)
        }

        fn declared_kind(&self, _: &Object) -> Option<(&'static str, DeclaredKind)> {
            None
        }
    }

    fn scoped(scopes: &Scopes, mut object: Object) -> (Option<String>, Option<String>) {
        scopes.normalize_namespace(&mut object, &Policies);
        let in_body = object.value_at(&["metadata", "namespace"]).and_then(Value::as_str).map(str::to_owned);
        (object.id.namespace, in_body)
    }

    #[test]
    fn the_scope_decides_the_namespace_in_body_and_identity() {
        let crds = [crd("x.io", "Global", "Cluster"), crd("x.io", "Local", "Namespaced")];
        let scopes = Scopes { defined: read_defined_scopes(crds.iter()), ..Scopes::default() };
        for (api_version, kind, written, want) in [
            ("v1", "Pod", None, Some("default")),
            ("v1", "Pod", Some("a"), Some("a")),
            ("v1", "Node", Some("a"), None),
            ("x.io/v1", "Global", Some("a"), None),
            ("x.io/v1", "Local", None, Some("default")),
            ("x.io/v1", "Unknown", Some("a"), Some("a")),
            ("x.io/v1", "Unknown", None, Some("default")),
            ("kyverno.io/v1", "ClusterPolicy", Some("a"), None),
            ("s3.aws.upbound.io/v1beta1", "Bucket", None, None),
            ("s3.aws.upbound.io/v1beta1", "Bucket", Some("a"), Some("a")),
            ("policy.example.org/v1", "Policy", None, Some("default")),
        ] {
            let want = want.map(str::to_owned);
            let got = scoped(&scopes, object(api_version, kind, written, "n"));
            assert_eq!(got, (want.clone(), want), "{api_version} {kind}");
        }
    }

    #[test]
    fn a_definition_goes_before_the_table() {
        let crds = [crd("policy.karmada.io", "PropagationPolicy", "Cluster")];
        let scopes = Scopes { defined: read_defined_scopes(crds.iter()), ..Scopes::default() };
        let policy = object("policy.karmada.io/v1alpha1", "PropagationPolicy", Some("a"), "n");
        assert_eq!(scoped(&scopes, policy), (None, None));
    }

    #[test]
    fn what_a_policy_can_select_says_the_scope_of_an_unknown_kind() {
        let implied = BTreeMap::from([(("x.io".to_owned(), "Widget".to_owned()), Scope::Cluster)]);
        let scopes = Scopes { implied, ..Scopes::default() };
        assert_eq!(scoped(&scopes, object("x.io/v1", "Widget", None, "n")), (None, None));
        let namespaced = scoped(&scopes, object("x.io/v1", "Widget", Some("a"), "n")).0;
        assert_eq!(namespaced.as_deref(), Some("a"));
    }

    #[test]
    fn a_dump_has_the_namespace_of_every_namespaced_object() {
        let scopes = Scopes::from_dump([].iter());
        assert_eq!(scoped(&scopes, object("x.io/v1", "Widget", None, "n")), (None, None));
    }
}
