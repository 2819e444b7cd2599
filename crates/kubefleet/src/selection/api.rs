//! The resource selectors of a placement.
//!
//! Facts: `placement.kubernetes-fleet.io` `v1` and `v1beta1`, which are the same here.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::selector::{LabelSelector, null_default};

/// What a placement selects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PlacementSpec {
    /// In order.
    #[serde(deserialize_with = "null_default")]
    pub resource_selectors: Vec<ResourceSelector>,
}

impl PlacementSpec {
    /// Reads the resource selectors of a placement.
    pub(crate) fn of(placement: &Object) -> Result<Self, serde_json::Error> {
        match placement.at(&["spec"]) {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(spec) => Self::deserialize(spec),
        }
    }
}

/// Selects objects of one kind: by name, by labels, or all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceSelector {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name; empty where labels select.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The labels; absent: all.
    pub label_selector: Option<LabelSelector>,
    /// Which objects of a namespace are selected.
    #[serde(deserialize_with = "null_default")]
    pub selection_scope: SelectionScope,
}

/// Which objects of a namespace are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[expect(clippy::enum_variant_names, reason = "the values of the API")]
pub(crate) enum SelectionScope {
    /// The namespace with everything in it.
    #[default]
    NamespaceWithResources,
    /// Only the namespace itself.
    NamespaceOnly,
    /// The namespace, and the objects in it that the other selectors select.
    NamespaceWithResourceSelectors,
}

impl ResourceSelector {
    /// Whether it selects namespaces.
    pub(super) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }

    /// Whether it also selects everything in the namespaces.
    pub(super) fn takes_content(&self) -> bool {
        self.selection_scope == SelectionScope::NamespaceWithResources
    }

    /// Whether the other selectors select in its namespace.
    pub(super) fn looks_inside(&self) -> bool {
        self.is_namespace() && self.selection_scope == SelectionScope::NamespaceWithResourceSelectors
    }

    /// The kind with its group, for messages.
    pub(super) fn kind_name(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }
}
