//! `KubeFed`'s objects as its Go types read them: absent, `null` and empty are equal where they are in Go.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use federate_kubernetes::selector::{LabelSelector, null_default};
use federate_kubernetes::{Finding, Object};

/// The `spec` of a federated object, without its template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FederatedSpec {
    #[serde(deserialize_with = "null_default")]
    pub placement: PlacementSpec,
    #[serde(deserialize_with = "null_default")]
    pub overrides: Vec<ClusterOverrides>,
}

/// The placement of a federated object: by names if there is a list, even an empty one, else by labels.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PlacementSpec {
    pub clusters: Option<Vec<ClusterReference>>,
    pub cluster_selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClusterReference {
    #[serde(deserialize_with = "null_default")]
    pub name: String,
}

/// The overrides for one cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterOverrides {
    #[serde(deserialize_with = "null_default")]
    pub cluster_name: String,
    #[serde(deserialize_with = "null_default")]
    pub cluster_overrides: Vec<Override>,
}

/// One operation of a JSON patch.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Override {
    #[serde(deserialize_with = "null_default")]
    pub op: String,
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    pub value: Option<Value>,
}

/// `spec` of a `ReplicaSchedulingPreference`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PreferenceSpec {
    #[serde(deserialize_with = "null_default")]
    pub target_kind: String,
    #[serde(deserialize_with = "null_default")]
    pub total_replicas: i64,
    #[serde(deserialize_with = "null_default")]
    pub rebalance: bool,
    #[serde(deserialize_with = "null_default")]
    pub intersect_with_cluster_selector: bool,
    #[serde(deserialize_with = "null_default")]
    pub clusters: BTreeMap<String, ClusterPreference>,
}

/// The preferences for one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterPreference {
    #[serde(deserialize_with = "null_default")]
    pub weight: i64,
    #[serde(deserialize_with = "null_default")]
    pub min_replicas: i64,
    pub max_replicas: Option<i64>,
}

/// `spec` of a `KubeFedConfig`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ConfigSpec {
    #[serde(deserialize_with = "null_default")]
    pub scope: String,
    #[serde(deserialize_with = "null_default")]
    pub feature_gates: Vec<FeatureGate>,
    #[serde(deserialize_with = "null_default")]
    pub sync_controller: SyncController,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SyncController {
    #[serde(deserialize_with = "null_default")]
    pub adopt_resources: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FeatureGate {
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    #[serde(deserialize_with = "null_default")]
    pub configuration: String,
}

/// `spec` of a `FederatedTypeConfig`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TypeConfigSpec {
    #[serde(deserialize_with = "null_default")]
    pub target_type: ApiResource,
    #[serde(deserialize_with = "null_default")]
    pub federated_type: ApiResource,
    #[serde(deserialize_with = "null_default")]
    pub propagation: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiResource {
    #[serde(deserialize_with = "null_default")]
    pub group: String,
    #[serde(deserialize_with = "null_default")]
    pub version: String,
    #[serde(deserialize_with = "null_default")]
    pub kind: String,
    #[serde(deserialize_with = "null_default")]
    pub scope: String,
}

/// An object's `spec`; one that is absent reads as empty.
pub(super) fn spec<T: Default + DeserializeOwned>(object: &Object) -> Result<T, Finding> {
    let Some(value) = object.at(&["spec"]).filter(|v| !v.is_null()) else { return Ok(T::default()) };
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        Finding::error("invalid-policy", object, format!("`spec.{path}`: {}", error.inner()))
            .at(format!("/spec/{}", path.replace('.', "/")))
    })
}
