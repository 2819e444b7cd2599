//! Disruption budgets: whether a cluster may be evicted from a placement.
//!
//! Facts: a budget compares the available rows with the number of `PickN`. `PickAll` has no number, so only an
//! absolute `minAvailable` has an effect. Percentages are rounded up. Clusters of `PickFixed` cannot be
//! evicted.

use super::api::{self, BudgetSpec};
use crate::api::{PlacementPolicy, PlacementType};
use federate_kubernetes::Object;

/// The verdict on an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetVerdict {
    /// Whether the eviction is allowed.
    pub(crate) allowed: bool,
    /// The number of available rows.
    pub(crate) available: i64,
}

/// Whether a cluster may be evicted from `placement`, whose rows are `available` or not.
pub(crate) fn check_budget(
    placement: &Object,
    budget: Option<&Object>,
    available: &[bool],
) -> Result<BudgetVerdict, serde_json::Error> {
    let policy = PlacementPolicy::from_json(placement.value_at(&["spec", "policy"]))?;
    let rows = i64::try_from(available.len()).unwrap_or(i64::MAX);
    let unavailable = available.iter().filter(|available| !**available).count();
    let unavailable = i64::try_from(unavailable).unwrap_or(i64::MAX);
    let wanted = match policy.placement_type {
        PlacementType::PickN => policy.number_of_clusters.unwrap_or(0),
        PlacementType::PickAll | PlacementType::PickFixed => 0,
    };
    let available = rows - unavailable;
    let disruptions_allowed = match budget.map(api::read_budget).transpose()? {
        Some(BudgetSpec { max_unavailable: Some(most), .. }) => {
            most.rounded_up(wanted).saturating_sub(unavailable)
        }
        Some(BudgetSpec { min_available: Some(least), .. }) => {
            available.saturating_sub(least.rounded_up(wanted))
        }
        _ => 1,
    };
    let allowed = policy.placement_type != PlacementType::PickFixed && disruptions_allowed > 0;
    Ok(BudgetVerdict { allowed, available })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(spec: &Value) -> Object {
        Object::from_path("placement.kubernetes-fleet.io/v1", "X", "p", json!({"spec": spec}))
    }

    #[test]
    fn budgets_limit_evictions() {
        let three = json!({"placementType": "PickN", "numberOfClusters": 3});
        let fixed = json!({"placementType": "PickFixed", "clusterNames": ["a"]});
        for (policy, budget, available, allowed) in [
            (&three, Some(json!({"maxUnavailable": "25%"})), &[true, true, true][..], true),
            (&three, Some(json!({"maxUnavailable": "25%"})), &[true, true, false], false),
            (&three, Some(json!({"minAvailable": "34%"})), &[true, true, true], true),
            (&three, Some(json!({"minAvailable": "34%"})), &[true, true, false], false),
            (&three, None, &[false], true),
            (&json!(null), Some(json!({"minAvailable": 1})), &[true, true], true),
            (&json!(null), Some(json!({"minAvailable": 0})), &[false], false),
            (&fixed, None, &[true], false),
        ] {
            let placement = object(&json!({"policy": policy}));
            let budget = budget.map(|spec| object(&spec));
            let eviction = check_budget(&placement, budget.as_ref(), available).unwrap();
            assert_eq!(eviction.allowed, allowed, "{policy} {budget:?}");
        }
    }
}
