//! The parts of placements, update strategies and disruption budgets that control a rollout.
//!
//! Facts: `placement.kubernetes-fleet.io` `v1` and `v1beta1` with their defaults.

use serde::Deserialize;
use serde_json::Value;

use super::amount::Amount;
use federate_kubernetes::Object;
use federate_kubernetes::selector::{LabelSelector, null_default};

/// Reads the `spec` of an object.
pub(crate) fn spec<T: Default + for<'de> Deserialize<'de>>(object: &Object) -> Result<T, serde_json::Error> {
    match object.at(&["spec"]) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(spec) => T::deserialize(spec),
    }
}

/// The parts of a placement that control its rollout.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlacementSpec {
    /// The number of clusters.
    #[serde(deserialize_with = "null_default")]
    pub policy: Policy,
    /// The rollout strategy.
    #[serde(deserialize_with = "null_default")]
    pub strategy: Strategy,
}

/// How many clusters a placement picks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// How they are picked.
    #[serde(deserialize_with = "null_default")]
    pub placement_type: PlacementType,
    /// The clusters of `PickFixed`.
    #[serde(deserialize_with = "null_default")]
    pub cluster_names: Vec<String>,
    /// The number of `PickN`.
    pub number_of_clusters: Option<i64>,
}

/// How clusters are picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PlacementType {
    /// All eligible clusters.
    #[default]
    PickAll,
    /// The best clusters, up to a number.
    PickN,
    /// The named clusters.
    PickFixed,
}

/// How a placement is rolled out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// The limits of a rolling update.
    #[serde(deserialize_with = "null_default")]
    pub rolling_update: RollingUpdate,
}

/// The limits of a rolling update.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    max_unavailable: Option<Amount>,
    max_surge: Option<Amount>,
    unavailable_period_seconds: Option<i64>,
}

impl RollingUpdate {
    /// How many clusters may be unavailable.
    pub fn max_unavailable(&self) -> Amount {
        self.max_unavailable.unwrap_or(Amount::Percent(25))
    }

    /// How many clusters above the target may have the placement.
    pub fn max_surge(&self) -> Amount {
        self.max_surge.unwrap_or(Amount::Percent(25))
    }

    /// How long an object whose availability cannot be tracked counts as not ready.
    pub fn unavailable_period_seconds(&self) -> i64 {
        self.unavailable_period_seconds.unwrap_or(60)
    }
}

/// A `StagedUpdateStrategy` or `ClusterStagedUpdateStrategy`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StagedSpec {
    /// The stages, in order.
    #[serde(deserialize_with = "null_default")]
    pub stages: Vec<StageSpec>,
}

/// A stage of an update run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StageSpec {
    /// Its name.
    pub name: String,
    /// Selects its clusters; absent: none.
    pub label_selector: Option<LabelSelector>,
    /// The label that sorts them.
    pub sorting_label_key: Option<String>,
    /// How many clusters are updated at a time.
    pub max_concurrency: Option<Amount>,
    /// The tasks before the stage.
    #[serde(deserialize_with = "null_default")]
    pub before_stage_tasks: Vec<Task>,
    /// The tasks after the stage.
    #[serde(deserialize_with = "null_default")]
    pub after_stage_tasks: Vec<Task>,
}

/// A task before or after a stage.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Task {
    /// `Approval` or `TimedWait`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How long a `TimedWait` takes, as a Go duration.
    pub wait_time: Option<String>,
}

/// A `ClusterResourcePlacementDisruptionBudget`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// How many clusters may be unavailable.
    pub max_unavailable: Option<Amount>,
    /// How many clusters must be available.
    pub min_available: Option<Amount>,
}
