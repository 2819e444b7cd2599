//! `spec` of an `OverridePolicy` or `ClusterOverridePolicy`.

use serde::Deserialize;
use serde_json::Value;

use super::super::api::Term;
use federate_kubernetes::Labels;
use federate_kubernetes::selector::null_default;

/// The rules, in order.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in super::super) struct OverrideSpec {
    #[serde(deserialize_with = "null_default")]
    pub(in super::super) override_rules: Vec<Rule>,
}

/// One rule: the changes for some clusters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in super::super) struct Rule {
    /// All clusters when absent.
    pub(super) target_clusters: Option<Target>,
    pub(super) overriders: Option<Overriders>,
}

/// Selects clusters. All given parts must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Target {
    #[serde(deserialize_with = "null_default")]
    pub(super) clusters: Vec<String>,
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_selector: Labels,
    #[serde(deserialize_with = "null_default")]
    pub(super) cluster_affinity: Vec<Term>,
}

/// The changes, by type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Overriders {
    #[serde(deserialize_with = "null_default")]
    pub(super) image: Vec<ImageOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub(super) command: Vec<CommandOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub(super) args: Vec<CommandOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub(super) envs: Vec<EnvOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub(super) annotations: Vec<MapOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub(super) labels: Vec<MapOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub(super) jsonpatch: Vec<PatchOverrider>,
}

/// Changes parts of image references: of the named containers, of all containers, or at a path.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ImageOverrider {
    #[serde(deserialize_with = "null_default")]
    pub(super) container_names: Vec<String>,
    #[serde(deserialize_with = "null_default")]
    pub(super) image_path: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) operations: Vec<ImageOperation>,
}

/// A change of one part of an image reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ImageOperation {
    /// `Registry`, `Repository`, `Tag` or `Digest`.
    #[serde(deserialize_with = "null_default")]
    pub(super) image_component: String,
    /// `overwrite` (also when absent), `addIfAbsent` or `delete`.
    #[serde(deserialize_with = "null_default")]
    pub(super) operator: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) value: String,
}

/// Changes a container's command or arguments.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CommandOverrider {
    #[serde(deserialize_with = "null_default")]
    pub(super) container_name: String,
    /// `append`, `overwrite` or `delete`.
    #[serde(deserialize_with = "null_default")]
    pub(super) operator: String,
    pub(super) value: Option<Vec<String>>,
}

/// Changes a container's environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EnvOverrider {
    #[serde(deserialize_with = "null_default")]
    pub(super) container_name: String,
    /// `overwrite` (also when absent), `addIfAbsent` or `delete`.
    #[serde(deserialize_with = "null_default")]
    pub(super) operator: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) value: Vec<k8s_openapi::api::core::v1::EnvVar>,
}

/// Changes labels or annotations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MapOverrider {
    /// `overwrite` (also when absent), `addIfAbsent` or `delete`.
    #[serde(deserialize_with = "null_default")]
    pub(super) operator: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) value: Labels,
}

/// An operation of a JSON patch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PatchOverrider {
    /// `replace` when absent.
    #[serde(deserialize_with = "null_default")]
    pub(super) operator: String,
    #[serde(deserialize_with = "null_default")]
    pub(super) path: String,
    pub(super) value: Value,
}
