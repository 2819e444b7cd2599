//! The parts of placements, update strategies and disruption budgets that control a rollout.
//!
//! Facts: `placement.kubernetes-fleet.io` `v1` and `v1beta1` with their defaults.

use serde::Deserialize;
use serde_json::Value;

use super::amount::Amount;
use federate_kubernetes::Object;
use federate_kubernetes::schema::{Schema, Shape};
use federate_kubernetes::selector::LabelSelector;

/// Reads the `spec` of an object.
pub(crate) fn spec<T: Default + for<'de> Deserialize<'de>>(object: &Object) -> Result<T, serde_json::Error> {
    match object.at(&["spec"]) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(spec) => T::deserialize(spec),
    }
}

/// Reads the limits of a placement's rolling update.
pub(crate) fn rolling_update(placement: &Object) -> Result<RollingUpdate, serde_json::Error> {
    let written = placement.at(&["spec", "strategy", "rollingUpdate"]);
    Ok(written.map_or(Ok(None), Option::deserialize)?.unwrap_or_default())
}

/// Whether only update runs roll a placement out.
pub(crate) fn is_external(placement: &Object) -> bool {
    placement.text(&["spec", "strategy", "type"]) == "External"
}

federate_kubernetes::crd! {
    /// The limits of a rolling update.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct RollingUpdate {
        max_unavailable: Option<Amount> = optional("maxUnavailable"),
        max_surge: Option<Amount> = optional("maxSurge"),
        unavailable_period_seconds: Option<i64> = optional("unavailablePeriodSeconds", i32::SHAPE),
    }
}

impl RollingUpdate {
    /// How many clusters may be unavailable.
    pub(crate) fn max_unavailable(&self) -> Amount {
        self.max_unavailable.unwrap_or(Amount::Percent(25))
    }

    /// How many clusters above the target may have the placement.
    pub(crate) fn max_surge(&self) -> Amount {
        self.max_surge.unwrap_or(Amount::Percent(25))
    }

    /// How long an object whose availability cannot be tracked counts as not ready.
    pub(crate) fn unavailable_period_seconds(&self) -> i64 {
        self.unavailable_period_seconds.unwrap_or(60)
    }
}

federate_kubernetes::crd! {
    /// A `StagedUpdateStrategy` or `ClusterStagedUpdateStrategy`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct StagedSpec {
        /// The stages, in order.
        pub stages: Vec<StageSpec> = optional("stages"),
    }
}

federate_kubernetes::crd! {
    /// A stage of an update run.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct StageSpec {
        /// Its name.
        pub name: String = required("name"),
        /// Selects its clusters; absent: none.
        pub label_selector: Option<LabelSelector> = optional("labelSelector"),
        /// The label that sorts them.
        pub sorting_label_key: Option<String> = optional("sortingLabelKey"),
        /// How many clusters are updated at a time.
        pub max_concurrency: Option<Amount> = optional("maxConcurrency"),
        /// The tasks before the stage.
        pub before_stage_tasks: Vec<Task> = optional("beforeStageTasks"),
        /// The tasks after the stage.
        pub after_stage_tasks: Vec<Task> = optional("afterStageTasks"),
    }
}

federate_kubernetes::crd! {
    /// A task before or after a stage.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct Task {
        /// `Approval` or `TimedWait`.
        pub kind: String = required("type", Shape::OneOf(&["Approval", "TimedWait"])),
        /// How long a `TimedWait` takes, as a Go duration.
        pub wait_time: Option<String> = optional("waitTime"),
    }
}

federate_kubernetes::crd! {
    /// A `ClusterResourcePlacementDisruptionBudget`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct BudgetSpec {
        /// How many clusters may be unavailable.
        pub max_unavailable: Option<Amount> = optional("maxUnavailable"),
        /// How many clusters must be available.
        pub min_available: Option<Amount> = optional("minAvailable"),
    }
}
