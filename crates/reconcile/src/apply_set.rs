//! The objects that federate manages in a cluster are tracked with an ApplySet, as by `kubectl apply --prune
//! --applyset`, so that other tools can read it.
//!
//! Facts: KEP-3659. The parent object carries the label `applyset.kubernetes.io/id` and the annotations
//! `tooling`, `contains-group-kinds` and `additional-namespaces`; its members carry `part-of`. The
//! id is made of the parent's name, namespace, kind and group.

use std::collections::BTreeSet;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ownership::PART_OF_LABEL;
use super::repo_ref::RepoRef;
use federate_apiserver_model::values::text_at;
use federate_kubernetes::ObjectRef;

/// An `ApplySet`, by its parent, a `ConfigMap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplySet {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for ApplySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The members of an `ApplySet`, as its parent records them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplySetContents {
    /// `Kind.group`, or the kind alone in the core group.
    pub group_kinds: BTreeSet<String>,
    /// Namespaces of members, without that of the parent.
    pub namespaces: BTreeSet<String>,
}

impl ApplySet {
    /// The id, which its members carry as a label.
    pub fn compute_id(&self) -> String {
        let text = format!("{}.{}.ConfigMap.", self.name, self.namespace);
        format!("applyset-{}-v1", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(text)))
    }

    /// An object with the label that makes it a member.
    pub fn with_label(&self, body: &Value) -> Value {
        let mut body = body.clone();
        self.add_label(&mut body);
        body
    }

    /// Adds the label that makes an object a member.
    pub(super) fn add_label(&self, body: &mut Value) {
        let metadata = body.as_object_mut().and_then(|map| {
            let metadata = map.entry("metadata").or_insert_with(|| json!({}));
            metadata.as_object_mut()
        });
        if let Some(metadata) = metadata {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if labels.is_null() {
                *labels = json!({});
            }
            if let Some(labels) = labels.as_object_mut() {
                labels.insert(PART_OF_LABEL.to_owned(), self.compute_id().into());
            }
        }
    }

    /// The parent object, for these members of this repo.
    pub fn build_parent(&self, members: &ApplySetContents, repo: Option<&RepoRef>) -> Value {
        let [group_kinds, namespaces] = [&members.group_kinds, &members.namespaces]
            .map(|set| set.iter().map(String::as_str).collect::<Vec<_>>().join(","));
        let mut parent = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"applyset.kubernetes.io/id": self.compute_id()},
                "annotations": {
                    "applyset.kubernetes.io/tooling": concat!("federate/v", env!("CARGO_PKG_VERSION")),
                    "applyset.kubernetes.io/contains-group-kinds": group_kinds,
                    "applyset.kubernetes.io/additional-namespaces": namespaces,
                },
            },
        });
        let annotations = parent.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        if let (Some(annotations), Some(repo)) = (annotations, repo) {
            repo.write_annotations(annotations);
        }
        parent
    }

    /// Whether an object is the parent of this set.
    pub fn is_parent(&self, object: &Value) -> bool {
        let id = object.pointer("/metadata/labels/applyset.kubernetes.io~1id");
        id.and_then(Value::as_str) == Some(&self.compute_id())
    }

    /// The record of these objects.
    pub fn collect_contents<'o>(&self, objects: impl Iterator<Item = &'o ObjectRef>) -> ApplySetContents {
        let mut members = ApplySetContents::default();
        for object in objects {
            members.group_kinds.insert(group_kind(object));
            members.namespaces.extend(object.namespace.clone().filter(|ns| *ns != self.namespace));
        }
        members
    }
}

/// `Kind.group`, or the kind alone in the core group.
pub fn group_kind(object: &ObjectRef) -> String {
    if object.group().is_empty() {
        object.kind.clone()
    } else {
        format!("{}.{}", object.kind, object.group())
    }
}

impl ApplySetContents {
    /// Reads the record of a parent.
    pub fn from_parent(parent: &Value) -> Self {
        let [group_kinds, namespaces] = ["contains-group-kinds", "additional-namespaces"].map(|name| {
            let text = text_at(parent, &format!("/metadata/annotations/applyset.kubernetes.io~1{name}"));
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
        });
        Self { group_kinds, namespaces }
    }

    /// The union of two records.
    #[must_use]
    pub fn merged_with(&self, other: &Self) -> Self {
        Self {
            group_kinds: &self.group_kinds | &other.group_kinds,
            namespaces: &self.namespaces | &other.namespaces,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_that_of_kubectl() {
        let id = ApplySet { namespace: "default".into(), name: "federate".into() }.compute_id();
        assert!(id.starts_with("applyset-") && id.ends_with("-v1") && id.len() == 9 + 43 + 3, "{id}");
    }

    #[test]
    fn members_are_read_back() {
        let apply_set = ApplySet { namespace: "default".into(), name: "federate".into() };
        let object = |api_version: &str, kind: &str, namespace: Option<&str>| ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.map(Into::into),
            name: "a".into(),
        };
        let objects = [
            object("apps/v1", "Deployment", Some("shop")),
            object("v1", "Namespace", None),
            object("v1", "ConfigMap", Some("default")),
        ];
        let members = apply_set.collect_contents(objects.iter());
        let parent = apply_set.build_parent(&members, None);
        let annotations = &parent["metadata"]["annotations"];
        assert_eq!(
            annotations["applyset.kubernetes.io/contains-group-kinds"],
            "ConfigMap,Deployment.apps,Namespace"
        );
        assert_eq!(annotations["applyset.kubernetes.io/additional-namespaces"], "shop");
        assert_eq!(ApplySetContents::from_parent(&parent), members);
        assert_eq!(
            apply_set.with_label(&json!({"metadata": {"labels": null}}))["metadata"]["labels"][PART_OF_LABEL],
            apply_set.compute_id()
        );
    }
}
