//! The part of a placement that says what is placed.
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
    /// The part of `placement` that says what is placed.
    pub(crate) fn of(placement: &Object) -> Result<Self, serde_json::Error> {
        match placement.at(&["spec"]) {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(spec) => Self::deserialize(spec),
        }
    }
}

/// Objects of one kind, by name, by labels, or all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceSelector {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Empty where the labels say which.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// Absent: all.
    pub label_selector: Option<LabelSelector>,
    /// What of a namespace is selected.
    #[serde(deserialize_with = "null_default")]
    pub selection_scope: SelectionScope,
}

/// What of a namespace is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[expect(clippy::enum_variant_names, reason = "the values of the API")]
pub(crate) enum SelectionScope {
    /// The namespace with everything in it.
    #[default]
    NamespaceWithResources,
    /// The namespace and nothing in it.
    NamespaceOnly,
    /// The namespace, and of what is in it the kinds that the other selectors name.
    NamespaceWithResourceSelectors,
}

impl ResourceSelector {
    /// Whether it is about namespaces.
    pub(super) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }

    /// Whether it brings along everything in the namespaces it selects.
    pub(super) fn takes_content(&self) -> bool {
        self.selection_scope == SelectionScope::NamespaceWithResources
    }

    /// Whether the other selectors look into the namespace it selects.
    pub(super) fn looks_inside(&self) -> bool {
        self.is_namespace() && self.selection_scope == SelectionScope::NamespaceWithResourceSelectors
    }

    /// The kind with its group, for messages.
    pub(super) fn kind_name(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }
}
