//! Overrides as they are written.
//!
//! Facts: `placement.kubernetes-fleet.io` `v1` and `v1beta1`, which are the same here.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::Labels;
use federate_kubernetes::schema::{Field, Schema, Shape};

use super::variables;
use crate::api::{ClusterSelector, ClusterSelectorTerm};

federate_kubernetes::crd! {
    /// The `spec` of a `ClusterResourceOverride` or `ResourceOverride`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct KubeFleetOverrideSpec {
        /// The placement to which it applies; absent: every placement.
        pub placement: Option<PlacementRef> = optional("placement"),
        /// How.
        pub policy: KubeFleetOverridePolicy = required("policy"),
    }
}

/// Reads the selectors of an override: `clusterResourceSelectors` of a `ClusterResourceOverride`, or
/// `resourceSelectors` of a `ResourceOverride`.
pub(super) fn read_selectors(spec: &Value) -> Result<Vec<ObjectSelector>, serde_json::Error> {
    let mut all = Vec::new();
    for key in ["clusterResourceSelectors", "resourceSelectors"] {
        let selectors = spec.get(key).filter(|selectors| !selectors.is_null());
        all.append(&mut selectors.map_or(Ok(Vec::new()), Vec::deserialize)?);
    }
    Ok(all)
}

federate_kubernetes::crd! {
    /// A placement by name.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PlacementRef {
        /// Its name.
        pub name: String = required("name"),
        /// Its scope.
        pub scope: PlacementScope = optional("scope", Shape::OneOf(&["Cluster", "Namespaced"])),
    }
}

/// The scope of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PlacementScope {
    /// A `ClusterResourcePlacement`.
    #[default]
    Cluster,
    /// A `ResourcePlacement` in the override's own namespace.
    Namespaced,
}

federate_kubernetes::crd! {
    /// One object by its name.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct ObjectSelector {
        /// The API group.
        pub group: String = required("group"),
        /// The version, which must be the object's.
        pub version: String = required("version"),
        /// The kind.
        pub kind: String = required("kind"),
        /// The name.
        pub name: String = required("name", Shape::Filled),
    }
}

federate_kubernetes::crd! {
    /// How objects are changed.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct KubeFleetOverridePolicy {
        /// The rules, in order. Every rule that matches a cluster applies.
        pub override_rules: Vec<KubeFleetOverrideRule> = required("overrideRules", Shape::List(1, &KubeFleetOverrideRule::SHAPE)),
    }
}

federate_kubernetes::crd! {
    /// A rule: changes for some clusters.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct KubeFleetOverrideRule {
        /// The clusters; absent: none.
        pub cluster_selector: Option<ClusterSelector> = optional("clusterSelector", Shape::Object(&[&[Field::optional("clusterSelectorTerms", Shape::List(0, &ClusterSelectorTerm::SHAPE))]])),
        /// Whether the object is patched or deleted.
        pub override_type: OverrideType = optional("overrideType", Shape::OneOf(&["JSONPatch", "Delete"])),
        /// The changes.
        pub json_patch_overrides: Vec<PatchOperation> = optional("jsonPatchOverrides"),
    }
}

impl KubeFleetOverrideRule {
    /// Whether it matches a cluster with these labels.
    pub(super) fn matches_labels(&self, labels: &Labels) -> bool {
        let Some(selector) = &self.cluster_selector else { return false };
        let terms = &selector.cluster_selector_terms;
        terms.is_empty()
            || terms.iter().any(|term| term.label_selector.as_ref().is_some_and(|s| s.matches(labels)))
    }
}

impl KubeFleetOverrideRule {
    /// The keys of the labels of clusters that it reads.
    pub(super) fn label_keys(&self) -> Vec<String> {
        let terms = self.cluster_selector.iter().flat_map(|selector| &selector.cluster_selector_terms);
        let selectors = terms.filter_map(|term| term.label_selector.as_ref());
        let selected = selectors.flat_map(|selector| {
            let expressions = selector.match_expressions.iter().map(|requirement| requirement.key.clone());
            selector.match_labels.keys().cloned().chain(expressions)
        });
        let values = self.json_patch_overrides.iter().filter_map(|operation| operation.value.as_ref());
        selected.chain(values.flat_map(variables::label_keys)).collect()
    }
}

/// Whether objects are patched or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum OverrideType {
    /// They are patched.
    #[default]
    JSONPatch,
    /// They are deleted.
    Delete,
}

federate_kubernetes::crd! {
    /// One operation of a JSON patch.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct PatchOperation {
        /// `add`, `remove` or `replace`.
        pub op: String = required("op", Shape::OneOf(&["add", "remove", "replace"])),
        /// A JSON pointer.
        pub path: String = required("path"),
        /// Absent with `remove`.
        pub value: Option<Value> = optional("value"),
    }
}
