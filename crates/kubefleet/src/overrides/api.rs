//! Overrides as they are written.
//!
//! Facts: `placement.kubernetes-fleet.io` `v1` and `v1beta1`, which are the same here.

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::Labels;
use federate_kubernetes::selector::{LabelSelector, null_default};

/// The `spec` of a `ClusterResourceOverride` or `ResourceOverride`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OverrideSpec {
    /// The placement to which it applies; absent: every placement.
    pub placement: Option<PlacementRef>,
    /// The objects of a `ClusterResourceOverride`.
    #[serde(deserialize_with = "null_default")]
    pub cluster_resource_selectors: Vec<ObjectSelector>,
    /// The objects of a `ResourceOverride`.
    #[serde(deserialize_with = "null_default")]
    pub resource_selectors: Vec<ObjectSelector>,
    /// How.
    #[serde(deserialize_with = "null_default")]
    pub policy: Policy,
}

/// A placement by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlacementRef {
    /// Its name.
    pub name: String,
    /// Its scope.
    #[serde(deserialize_with = "null_default")]
    pub scope: PlacementScope,
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

/// One object by its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectSelector {
    /// The API group.
    pub group: String,
    /// The version, which must be the object's.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// How objects are changed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Policy {
    /// The rules, in order. Every rule that matches a cluster applies.
    #[serde(deserialize_with = "null_default")]
    pub override_rules: Vec<Rule>,
}

/// A rule: changes for some clusters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    /// The clusters; absent: none.
    pub cluster_selector: Option<ClusterSelector>,
    /// Whether the object is patched or deleted.
    #[serde(deserialize_with = "null_default")]
    pub override_type: OverrideType,
    /// The changes.
    #[serde(deserialize_with = "null_default")]
    pub json_patch_overrides: Vec<PatchOperation>,
}

impl Rule {
    /// Whether it matches a cluster with these labels.
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        let Some(selector) = &self.cluster_selector else { return false };
        let terms = &selector.cluster_selector_terms;
        terms.is_empty()
            || terms.iter().any(|term| term.label_selector.as_ref().is_some_and(|s| s.matches(labels)))
    }
}

/// Which clusters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterSelector {
    /// The terms, one of which must match; none: every cluster.
    #[serde(deserialize_with = "null_default")]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}

/// Clusters by their labels.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterSelectorTerm {
    /// Absent: no cluster.
    pub label_selector: Option<LabelSelector>,
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

/// One operation of a JSON patch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PatchOperation {
    /// `add`, `remove` or `replace`.
    pub op: String,
    /// A JSON pointer.
    pub path: String,
    /// Absent with `remove`.
    pub value: Option<Value>,
}
