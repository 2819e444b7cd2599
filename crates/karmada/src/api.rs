//! Karmada's objects, each declared once: how it is read, and the fields, types and bounds that its
//! custom resource definition (for `Cluster`, its aggregated API) validates.
//!
//! Facts: names, types and bounds are those of `policy.karmada.io/v1alpha1` and
//! `cluster.karmada.io/v1alpha1`. Where the admission webhook writes an absent structure back as `{}`
//! before the definition is applied (`targetCluster` of a static weight, `decisionConditions`), the
//! structure is not required here either.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use federate_kubernetes::schema::Shape;
use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};
use federate_kubernetes::{Object, crd};

use super::version::ZoneMatch;

mod cluster;
mod failover;
mod overrides;
mod propagation;

pub(crate) use cluster::{
    AllocatableModeling, ApiEnablement, KarmadaClusterSpec, KarmadaClusterStatus, ResourceModel,
    ResourceRange, ResourceSummary,
};
pub use failover::{Failover, StateRule};
pub(crate) use overrides::{
    FieldOverrider, FieldPatch, KarmadaImageOverrider, KarmadaMapOverrider, KarmadaOverrideSpec,
    KarmadaOverriders, ListOverrider, PlaintextOverrider,
};
pub(crate) use propagation::{
    AffinityTerm, KarmadaPlacement, KarmadaSpreadConstraint, KarmadaToleration, PropagationSpec,
    ReplicaScheduling,
};

crd! {
    /// One of the `resourceSelectors` of a policy.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    pub(crate) struct KarmadaResourceSelector {
        pub api_version: String = required("apiVersion", Shape::Filled),
        pub kind: String = required("kind", Shape::Filled),
        pub namespace: String = optional("namespace"),
        pub name: String = optional("name"),
        pub label_selector: Option<LabelSelector> = optional("labelSelector"),
    }
}

crd! {
    /// Which clusters are meant.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct KarmadaClusterAffinity {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub label_selector: Option<LabelSelector> = optional("labelSelector"),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub field_selector: Option<FieldSelector> = optional("fieldSelector"),
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub cluster_names: Vec<String> = optional("clusterNames"),
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub exclude_clusters: Vec<String> = optional("exclude"),
    }
}

crd! {
    /// Requirements on provider, region and zone.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(crate) struct FieldSelector {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub match_expressions: Vec<SelectorRequirement> = optional("matchExpressions"),
    }
    internal {
        /// How the release compares zones.
        pub zones: ZoneMatch,
    }
}

/// Reads a section of an object; its default where it is absent or null.
pub(crate) fn read_section<T: Default + DeserializeOwned>(
    object: &Object,
    key: &str,
) -> Result<T, serde_json::Error> {
    object.value_at(&[key]).filter(|value| !value.is_null()).map_or(Ok(T::default()), T::deserialize)
}
