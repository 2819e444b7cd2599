//! What a session knows of kinds: those of the dialects, and what was observed in clusters.

use std::collections::BTreeMap;

use federate_dialect::Dialects;
use federate_engine::snapshot::StoredSnapshot;
use federate_kubernetes::kinds::{self, Scope};
use federate_kubernetes::{LiveObjects, Object};
use federate_repo::{Claims, DeclaredKind, ImpliedScope, Role};

/// The dialects, with the scopes of custom resources in clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownKinds {
    dialects: Dialects,
    /// By group and kind.
    observed: BTreeMap<(String, String), Scope>,
}

impl KnownKinds {
    /// Reads the scopes of custom resources from their definitions and from the objects themselves: an API server
    /// writes the namespace of every namespaced object. What the API servers of a snapshot have said is known, too.
    pub(crate) fn new(dialects: Dialects, live: &LiveObjects, snapshot: Option<&StoredSnapshot>) -> Self {
        let served = snapshot.into_iter().flat_map(|snapshot| &snapshot.scopes);
        let mut observed: BTreeMap<(String, String), Scope> = served
            .filter_map(|(name, scope)| {
                let (kind, group) = name.split_once('.')?;
                Some(((group.to_owned(), kind.to_owned()), *scope))
            })
            .collect();
        let objects: Vec<_> = live.clusters().flat_map(|cluster| live.cluster_objects(cluster)).collect();
        for object in &objects {
            if kinds::find_scope(object.id.group(), &object.id.kind).is_some() {
                continue;
            }
            let scope = if object.id.namespace.is_some() { Scope::Namespaced } else { Scope::Cluster };
            observed.entry((object.id.group().to_owned(), object.id.kind.clone())).or_insert(scope);
        }
        for object in objects.iter().filter(|object| object.id.kind == "CustomResourceDefinition") {
            let scope = match object.text_at(&["spec", "scope"]) {
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => continue,
            };
            let kind = object.text_at(&["spec", "names", "kind"]).to_owned();
            observed.insert((object.text_at(&["spec", "group"]).to_owned(), kind), scope);
        }
        Self { dialects, observed }
    }
}

impl Claims for KnownKinds {
    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<(&'static str, Role)> {
        Claims::role_of_kind(&self.dialects, api_version, kind)
    }

    fn scope_of_kind(&self, group: &str, kind: &str) -> Option<Scope> {
        Claims::scope_of_kind(&self.dialects, group, kind).or_else(|| {
            if self.observed.is_empty() {
                return None;
            }
            self.observed.get(&(group.to_owned(), kind.to_owned())).copied()
        })
    }

    fn control_plane(&self, group: &str) -> Option<&'static str> {
        self.dialects.control_plane(group)
    }

    fn implied_scopes(&self, object: &Object) -> Vec<ImpliedScope> {
        self.dialects.implied_scopes(object)
    }

    fn owns_domain(&self, domain: &str) -> bool {
        Claims::owns_domain(&self.dialects, domain)
    }

    fn declared_kind(&self, object: &Object) -> Option<(&'static str, DeclaredKind)> {
        self.dialects.declared_kind(object)
    }
}
