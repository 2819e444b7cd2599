//! The planner that spreads replicas by weight.
//!
//! Facts: first minimums, in the order of weights and then of the FNV-1 hash of cluster name and object key.
//! Then rounds by weight, rounded up, until nothing changes. If disruption is avoided, only the difference
//! between current and desired replicas moves.

use super::{Bounds, ReplicaLimits, Rescheduling};

/// A cluster's share in the division.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpreadShare {
    pub(super) weight: i64,
    pub(super) bounds: Bounds,
    /// FNV-1 of the cluster's name and the object's key.
    pub(super) hash: u32,
}

/// The result of a division, by cluster: the replicas that can run, and those that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplicaDivision {
    pub(super) plan: Vec<i64>,
    pub(super) over: Vec<i64>,
}

impl ReplicaDivision {
    pub(super) fn planned_total(&self) -> i64 {
        self.plan.iter().sum()
    }

    /// The sum for each cluster.
    pub(super) fn total_replicas(&self) -> Vec<i64> {
        self.plan.iter().zip(&self.over).map(|(plan, over)| plan + over).collect()
    }
}

/// Divides `total` among the clusters. All lists are by cluster. `current` are the current replicas.
pub(super) fn plan_spread(
    shares: &[SpreadShare],
    limits: &ReplicaLimits,
    current: &[i64],
    total: i64,
    how: Rescheduling,
) -> Vec<i64> {
    let keep = how.keep_unschedulable || !how.avoid_disruption;
    let target = divide_by_preference(shares, limits, total, keep);
    if !how.avoid_disruption {
        return target.total_replicas();
    }
    let mut now: Vec<i64> = current.iter().enumerate().map(|(at, n)| limits.cap_runnable(at, *n)).collect();
    let running: i64 = now.iter().sum();
    let missing = target.planned_total() - running;
    if missing != 0 {
        let (mut places, mut moving) = (Vec::new(), Vec::new());
        for (at, share) in shares.iter().enumerate() {
            let (now, plan) = (now[at], target.plan[at]);
            let (weight, max) = if missing > 0 {
                (plan - now, share.bounds.max.map(|max| max - now))
            } else {
                (now - plan, Some(now))
            };
            if weight > 0 {
                places.push(at);
                moving.push(SpreadShare { weight, bounds: Bounds { min: 0, max }, hash: share.hash });
            }
        }
        let unlimited = ReplicaLimits::unlimited(moving.len());
        let moved = divide_by_preference(&moving, &unlimited, missing.abs(), false).plan;
        for (at, moved) in places.into_iter().zip(moved) {
            now[at] += if missing > 0 { moved } else { -moved };
        }
    }
    ReplicaDivision { plan: now, over: target.over }.total_replicas()
}

/// The division by preferences alone.
fn divide_by_preference(
    shares: &[SpreadShare],
    limits: &ReplicaLimits,
    total: i64,
    keep: bool,
) -> ReplicaDivision {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(shares[*at].weight), shares[*at].hash));
    let mut rest = total;
    let mut division = ReplicaDivision { plan: vec![0; shares.len()], over: vec![0; shares.len()] };
    for &at in &order {
        let least = shares[at].bounds.min.min(rest);
        let (fits, over) = limits.split_allowed(at, least);
        division.plan[at] = fits;
        division.over[at] = over;
        rest -= fits;
    }
    let mut moved = true;
    while moved && rest > 0 {
        moved = false;
        let weights: i128 = order.iter().map(|at| i128::from(shares[*at].weight)).sum();
        if weights <= 0 {
            break;
        }
        let round = i128::from(rest);
        order.retain(|&at| {
            let before = division.plan[at];
            let extra = (round * i128::from(shares[at].weight) + weights - 1) / weights;
            let wanted = before + i64::try_from(extra).unwrap_or(i64::MAX).min(rest);
            let capped = shares[at].bounds.max.map_or(wanted, |max| wanted.min(max));
            let (fits, over) = limits.split_allowed(at, capped);
            division.over[at] += over;
            division.plan[at] = fits;
            rest -= fits - before;
            moved |= fits > before;
            fits == wanted
        });
    }
    if !keep {
        for over in &mut division.over {
            *over = (*over).min(rest).max(0);
        }
    }
    division
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Rescheduling = Rescheduling { avoid_disruption: false, keep_unschedulable: false };
    const CAREFUL: Rescheduling = Rescheduling { avoid_disruption: true, keep_unschedulable: false };

    fn shares(key: &str, clusters: &[(&str, i64, i64)]) -> Vec<SpreadShare> {
        let share = |(name, weight, min): &(&str, i64, i64)| SpreadShare {
            weight: *weight,
            bounds: Bounds { min: *min, max: None },
            hash: federate_dialect::compute_fnv1(name.bytes().chain(key.bytes())),
        };
        clusters.iter().map(share).collect()
    }

    const THREE: [(&str, i64, i64); 3] = [("cluster-a", 1, 0), ("cluster-b", 1, 0), ("cluster-c", 1, 0)];

    #[test]
    fn equal_weights_round_up_in_hash_order() {
        let shares = shares("default/web", &THREE);
        let limits = ReplicaLimits::unlimited(3);
        assert_eq!(plan_spread(&shares, &limits, &[0; 3], 50, FREE), [16, 17, 17]);
        assert_eq!(plan_spread(&shares, &limits, &[0; 3], 50, CAREFUL), [16, 17, 17]);
    }

    #[test]
    fn minimums_come_before_weights() {
        let shares = shares("default/web", &[("cluster-a", 1, 3), ("cluster-b", 2, 3), ("cluster-c", 2, 3)]);
        let got = plan_spread(&shares, &ReplicaLimits::unlimited(3), &[0; 3], 10, FREE);
        assert_eq!(got.iter().sum::<i64>(), 10);
        assert_eq!(got[0], 3);
    }

    #[test]
    fn only_the_difference_moves() {
        let shares = shares("default/web", &[("cluster-a", 1, 0), ("cluster-b", 1, 0)]);
        assert_eq!(plan_spread(&shares, &ReplicaLimits::unlimited(2), &[8, 2], 15, CAREFUL), [8, 7]);
        assert_eq!(plan_spread(&shares, &ReplicaLimits::unlimited(2), &[8, 2], 10, CAREFUL), [8, 2]);
    }

    #[test]
    fn a_maximum_below_the_minimum_gives_the_surplus_back() {
        let mut shares = shares("default/web", &[("cluster-a", 1, 5), ("cluster-b", 1, 0)]);
        shares[0].bounds.max = Some(2);
        assert_eq!(plan_spread(&shares, &ReplicaLimits::unlimited(2), &[0; 2], 10, FREE), [2, 8]);
    }
}
