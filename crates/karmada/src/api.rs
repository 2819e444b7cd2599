//! Karmada's policy objects as Rust types, with the defaults that its API server and admission fill
//! in. Field names and defaults are those of `policy.karmada.io/v1alpha1`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::version::Zones;
use federate_kubernetes::selector::{LabelSelector, null_default};

/// `spec` of `PropagationPolicy` and `ClusterPropagationPolicy`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PropagationSpec {
    #[serde(deserialize_with = "null_default")]
    pub resource_selectors: Vec<ResourceSelector>,
    #[serde(deserialize_with = "null_default")]
    pub propagate_deps: bool,
    #[serde(deserialize_with = "null_default")]
    pub placement: Placement,
    #[serde(deserialize_with = "null_default")]
    pub priority: i32,
    pub preemption: Option<String>,
    #[serde(deserialize_with = "null_default")]
    pub dependent_overrides: Vec<String>,
    pub scheduler_name: Option<String>,
    pub failover: Option<Failover>,
    pub conflict_resolution: Option<String>,
    pub suspension: Option<Suspension>,
    pub preserve_resources_on_deletion: Option<bool>,
    /// How many tolerations admission has added, at the end.
    #[serde(skip)]
    pub added_tolerations: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceSelector {
    #[serde(deserialize_with = "null_default")]
    pub api_version: String,
    #[serde(deserialize_with = "null_default")]
    pub kind: String,
    #[serde(deserialize_with = "null_default")]
    pub namespace: String,
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    pub label_selector: Option<LabelSelector>,
}

/// Where and how to place. Serialises with empty parts left out, so that two placements compare as
/// the real scheduler compares them: after a JSON round trip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Placement {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub cluster_affinities: Vec<AffinityTerm>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub cluster_tolerations: Vec<Toleration>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub spread_constraints: Vec<SpreadConstraint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaScheduling>,
    /// Behind an alpha gate that is off: kept only to compare placements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterAffinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub cluster_names: Vec<String>,
    #[serde(rename = "exclude", skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub exclude_clusters: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FieldSelector {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub match_expressions: Vec<federate_kubernetes::selector::Requirement>,
    /// Not written in policies: the release says it.
    #[serde(skip)]
    pub zones: Zones,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AffinityTerm {
    #[serde(deserialize_with = "null_default")]
    pub affinity_name: String,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub overflow_affinities: Vec<OverflowAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OverflowAffinity {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub affinity_name: String,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Toleration {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub operator: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub value: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SpreadConstraint {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub spread_by_field: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub spread_by_label: String,
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_default")]
    pub max_groups: i64,
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "null_default")]
    pub min_groups: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReplicaScheduling {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub replica_scheduling_type: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub replica_division_preference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<WeightPreference>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WeightPreference {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub static_weight_list: Vec<StaticWeight>,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub dynamic_weight: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StaticWeight {
    #[serde(deserialize_with = "null_default")]
    pub target_cluster: ClusterAffinity,
    #[serde(deserialize_with = "null_default")]
    pub weight: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Failover {
    pub application: Option<Map<String, Value>>,
    pub cluster: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Suspension {
    pub dispatching: Option<bool>,
    pub dispatching_on_clusters: Option<SuspendedClusters>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SuspendedClusters {
    #[serde(deserialize_with = "null_default")]
    pub cluster_names: Vec<String>,
}

/// `spec` of `OverridePolicy` and `ClusterOverridePolicy`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OverrideSpec {
    #[serde(deserialize_with = "null_default")]
    pub resource_selectors: Vec<ResourceSelector>,
    #[serde(deserialize_with = "null_default")]
    pub override_rules: Vec<RuleWithCluster>,
    /// The old form: with `overriders` one rule, used when `overrideRules` is empty.
    pub target_cluster: Option<ClusterAffinity>,
    #[serde(deserialize_with = "null_default")]
    pub overriders: Overriders,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RuleWithCluster {
    pub target_cluster: Option<ClusterAffinity>,
    #[serde(deserialize_with = "null_default")]
    pub overriders: Overriders,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Overriders {
    #[serde(deserialize_with = "null_default")]
    pub plaintext: Vec<PlaintextOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub image_overrider: Vec<ImageOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub command_overrider: Vec<ListOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub args_overrider: Vec<ListOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub labels_overrider: Vec<MapOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub annotations_overrider: Vec<MapOverrider>,
    #[serde(deserialize_with = "null_default")]
    pub field_overrider: Vec<FieldOverrider>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PlaintextOverrider {
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    #[serde(deserialize_with = "null_default")]
    pub operator: String,
    pub value: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ImageOverrider {
    pub predicate: Option<ImagePredicate>,
    #[serde(deserialize_with = "null_default")]
    pub component: String,
    #[serde(deserialize_with = "null_default")]
    pub operator: String,
    #[serde(deserialize_with = "null_default")]
    pub value: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ImagePredicate {
    #[serde(deserialize_with = "null_default")]
    pub path: String,
}

/// `commandOverrider` and `argsOverrider`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListOverrider {
    #[serde(deserialize_with = "null_default")]
    pub container_name: String,
    #[serde(deserialize_with = "null_default")]
    pub operator: String,
    #[serde(deserialize_with = "null_default")]
    pub value: Vec<String>,
}

/// `labelsOverrider` and `annotationsOverrider`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MapOverrider {
    #[serde(deserialize_with = "null_default")]
    pub operator: String,
    #[serde(deserialize_with = "null_default")]
    pub value: federate_kubernetes::Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FieldOverrider {
    #[serde(deserialize_with = "null_default")]
    pub field_path: String,
    #[serde(deserialize_with = "null_default")]
    pub json: Vec<FieldPatch>,
    #[serde(deserialize_with = "null_default")]
    pub yaml: Vec<FieldPatch>,
}

/// One operation inside the text of a field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FieldPatch {
    #[serde(deserialize_with = "null_default")]
    pub sub_path: String,
    #[serde(deserialize_with = "null_default")]
    pub operator: String,
    pub value: Option<Value>,
}
