//! The parts of placements and disruption budgets that control a rollout.
//!
//! Facts: `placement.kubernetes-fleet.io` `v1` and `v1beta1` with their defaults.

use serde::Deserialize;

use federate_dialect::stages::ClusterAmount;
use federate_kubernetes::Object;
use federate_kubernetes::schema::Schema;

/// Reads the `spec` of a budget.
pub(crate) fn read_budget(budget: &Object) -> Result<BudgetSpec, serde_json::Error> {
    budget.value_at(&["spec"]).map_or(Ok(None), Option::deserialize).map(Option::unwrap_or_default)
}

/// Reads the limits of a placement's rolling update.
pub(crate) fn read_rolling_update(placement: &Object) -> Result<RollingUpdate, serde_json::Error> {
    let written = placement.value_at(&["spec", "strategy", "rollingUpdate"]);
    Ok(written.map_or(Ok(None), Option::deserialize)?.unwrap_or_default())
}

/// Whether only update runs roll a placement out.
pub(crate) fn is_external(placement: &Object) -> bool {
    placement.text_at(&["spec", "strategy", "type"]) == "External"
}

federate_kubernetes::crd! {
    /// The limits of a rolling update.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct RollingUpdate {
        max_unavailable: Option<ClusterAmount> = optional("maxUnavailable"),
        max_surge: Option<ClusterAmount> = optional("maxSurge"),
        unavailable_period_seconds: Option<i64> = optional("unavailablePeriodSeconds", i32::SHAPE),
    }
}

impl RollingUpdate {
    /// How many clusters may be unavailable.
    pub(crate) fn max_unavailable(&self) -> ClusterAmount {
        self.max_unavailable.unwrap_or(ClusterAmount::Percent(25))
    }

    /// How many clusters above the target may have the placement.
    pub(crate) fn max_surge(&self) -> ClusterAmount {
        self.max_surge.unwrap_or(ClusterAmount::Percent(25))
    }

    /// How long an object whose availability cannot be tracked counts as not ready.
    pub(crate) fn unavailable_period_seconds(&self) -> i64 {
        self.unavailable_period_seconds.unwrap_or(60)
    }
}

federate_kubernetes::crd! {
    /// A `ClusterResourcePlacementDisruptionBudget`.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct BudgetSpec {
        /// How many clusters may be unavailable.
        pub max_unavailable: Option<ClusterAmount> = optional("maxUnavailable"),
        /// How many clusters must be available.
        pub min_available: Option<ClusterAmount> = optional("minAvailable"),
    }
}
