//! Weights from free resources, for policies without weights.
//!
//! Facts: the weight of a cluster is at most 1.4 times its share of the resources of all clusters. The weights
//! add up to 1000. They are floats, rounded half away from zero, computed in the order written here.

use federate_kubernetes::Capacity;

/// The resources of one cluster, in whole units rounded up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FreeAmounts {
    pub(super) allocatable: i64,
    pub(super) available: i64,
}

impl FreeAmounts {
    pub(super) fn from_capacity(capacity: &Capacity, name: &str) -> Self {
        Self {
            allocatable: capacity.allocatable.get(name).map_or(0, |amount| amount.value()),
            available: capacity.available.get(name).map_or(0, |amount| amount.value()),
        }
    }
}

const TOTAL_WEIGHT: f64 = 1000.0;
const SUPPLY_LIMIT: f64 = 1.4;

/// The weight of each cluster. The rounding difference goes to the first of the heaviest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the arithmetic is specified so"
)]
pub(super) fn weigh_free_resources(clusters: &[FreeAmounts]) -> Vec<i64> {
    let equal = (TOTAL_WEIGHT / clusters.len() as f64).round() as i64;
    let supply: f64 = clusters.iter().map(|c| c.allocatable as f64).sum();
    let free: f64 = clusters.iter().map(|c| c.available.max(0) as f64).sum();
    if free == 0.0 {
        return vec![equal; clusters.len()];
    }
    let mut capped: Vec<i64> = Vec::with_capacity(clusters.len());
    for FreeAmounts { allocatable, available } in clusters {
        let limit = match supply {
            0.0 => equal,
            _ => (*allocatable as f64 / supply * TOTAL_WEIGHT * SUPPLY_LIMIT).round() as i64,
        };
        let share = (*available.max(&0) as f64 / free * TOTAL_WEIGHT).round() as i64;
        capped.push(share.min(limit));
    }
    let sum: i64 = capped.iter().sum();
    if sum == 0 {
        return vec![0; clusters.len()];
    }
    let mut weights: Vec<i64> =
        capped.iter().map(|w| (*w as f64 / sum as f64 * TOTAL_WEIGHT).round() as i64).collect();
    let difference = 1000 - weights.iter().sum::<i64>();
    let most = weights.iter().copied().max().unwrap_or(0);
    if let Some(heaviest) = weights.iter_mut().find(|w| **w == most && most > 0) {
        *heaviest += difference;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(amounts: &[(i64, i64)]) -> Vec<i64> {
        let amounts: Vec<_> = amounts
            .iter()
            .map(|(allocatable, available)| FreeAmounts { allocatable: *allocatable, available: *available })
            .collect();
        weigh_free_resources(&amounts)
    }

    #[test]
    fn no_cluster_weighs_more_than_its_supply_allows() {
        assert_eq!(weights(&[(100, 10), (100, 30), (100, 60)]), [115, 346, 539]);
    }

    #[test]
    fn nothing_free_weighs_the_same() {
        assert_eq!(weights(&[(100, 0), (50, -3), (0, 0)]), [333, 333, 333]);
    }

    #[test]
    fn an_unknown_supply_limits_to_equal_parts() {
        assert_eq!(weights(&[(0, 10), (0, 90)]), [167, 833]);
    }
}
