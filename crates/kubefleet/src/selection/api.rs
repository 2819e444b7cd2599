//! The resource selectors of a placement.
//!
//! Facts: `placement.kubernetes-fleet.io` `v1` and `v1beta1`, which are the same here.

use federate_kubernetes::Object;
use federate_kubernetes::schema::Shape;
use federate_kubernetes::selector::LabelSelector;
use serde::Deserialize;

/// Reads the resource selectors of a placement.
pub(super) fn resource_selectors(placement: &Object) -> Result<Vec<ResourceSelectorTerm>, serde_json::Error> {
    let selectors =
        placement.value_at(&["spec", "resourceSelectors"]).filter(|selectors| !selectors.is_null());
    selectors.map_or(Ok(Vec::new()), Vec::deserialize)
}

federate_kubernetes::crd! {
    /// Selects objects of one kind: by name, by labels, or all.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ResourceSelectorTerm {
        /// The API group.
        pub group: String = required("group"),
        /// The kind.
        pub kind: String = required("kind"),
        /// The name; empty where labels select.
        pub name: String = optional("name"),
        /// The labels; absent: all.
        pub label_selector: Option<LabelSelector> = optional("labelSelector"),
        /// Which objects of a namespace are selected.
        pub selection_scope: SelectionScope = optional("selectionScope", Shape::OneOf(&["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"])),
    }
    unread {
        required("version", Shape::Text),
    }
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

impl ResourceSelectorTerm {
    /// Whether it selects namespaces.
    pub(super) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }

    /// Whether it also selects everything in the namespaces.
    pub(super) fn includes_content(&self) -> bool {
        self.selection_scope == SelectionScope::NamespaceWithResources
    }

    /// Whether the other selectors select in its namespace.
    pub(super) fn selects_inside(&self) -> bool {
        self.is_namespace() && self.selection_scope == SelectionScope::NamespaceWithResourceSelectors
    }

    /// The kind with its group, for messages.
    pub(super) fn kind_name(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }
}
