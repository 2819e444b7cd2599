//! The planner that fills clusters one after the other.
//!
//! Facts: clusters are in the order of the selection, and weights do not count. The planner changes its plan
//! only once the outcome of the last one is known, unless a cluster was lost or exceeds its limit.

use super::spread::ReplicaDivision;
use super::{Bounds, ReplicaLimits, Rescheduling};

/// The replicas of a workload, by selected cluster.
pub(super) struct CurrentReplicas<'c> {
    /// The current replicas; `None` where it is not placed.
    pub(super) replicas: &'c [Option<i64>],
    /// The scheduled replicas, where that is known.
    pub(super) scheduled: &'c [Option<i64>],
    /// Whether it is placed on a cluster that is no longer selected.
    pub(super) lost: bool,
    /// Whether the estimate for a cluster that is not selected is pending.
    pub(super) awaited: bool,
}

/// Fills the clusters with `total`; all lists are in the order of selection.
pub(super) fn plan_binpack(
    bounds: &[Bounds],
    limits: &ReplicaLimits,
    current: &CurrentReplicas<'_>,
    total: i64,
    how: Rescheduling,
) -> Vec<i64> {
    let replicas: Vec<i64> = current.replicas.iter().map(|n| n.unwrap_or(0)).collect();
    if !should_plan(limits, current) {
        return replicas;
    }
    let keep = how.keep_unschedulable || !how.avoid_disruption;
    let mut target = fill_in_order(bounds, limits, total);
    let scheduled: i64 =
        current.scheduled.iter().enumerate().filter_map(|(at, n)| Some(limits.cap_allowed(at, (*n)?))).sum();
    if !keep && scheduled == total {
        return current.scheduled.iter().map(|n| n.unwrap_or(0)).collect();
    }
    if !how.avoid_disruption {
        return target.total_replicas();
    }
    if !keep {
        for over in &mut target.over {
            *over = (*over).min(total - scheduled).max(0);
        }
    }
    let mut now: Vec<i64> = replicas.iter().enumerate().map(|(at, n)| limits.cap_runnable(at, *n)).collect();
    let running: i64 = now.iter().sum();
    if running > target.planned_total() {
        scale_down(&mut now, &target.plan, running - total);
    } else if running < target.planned_total() {
        scale_up(&mut now, &target.plan, bounds, limits, total - running);
    }
    ReplicaDivision { plan: now, over: target.over }.total_replicas()
}

fn should_plan(limits: &ReplicaLimits, current: &CurrentReplicas<'_>) -> bool {
    let mut replicas = current.replicas.iter().enumerate();
    if current.lost || replicas.any(|(at, n)| n.is_some_and(|n| limits.cap_allowed(at, n) < n)) {
        return true;
    }
    let mut scheduled = current.scheduled.iter().enumerate();
    !current.awaited
        && scheduled.all(|(at, scheduled)| match (scheduled, limits.estimated_capacity(at)) {
            (None, _) => true,
            (Some(scheduled), Some(estimate)) => *scheduled == estimate,
            (Some(scheduled), None) => *scheduled == current.replicas[at].unwrap_or(0),
        })
}

/// Gives minimums, then fills the first cluster, the second, and so on.
fn fill_in_order(bounds: &[Bounds], limits: &ReplicaLimits, total: i64) -> ReplicaDivision {
    let mut rest = total;
    let mut division = ReplicaDivision { plan: vec![0; bounds.len()], over: vec![0; bounds.len()] };
    for (at, bound) in bounds.iter().enumerate() {
        let (fits, over) = limits.split_allowed(at, bound.min.min(rest));
        division.plan[at] = fits;
        division.over[at] = over;
        rest -= fits;
    }
    for (at, bound) in bounds.iter().enumerate() {
        let before = division.plan[at];
        let wanted = before.saturating_add(rest);
        let (fits, over) = limits.split_allowed(at, bound.max.map_or(wanted, |max| wanted.min(max)));
        division.over[at] = division.over[at].max(over);
        division.plan[at] = fits;
        rest -= fits - before;
    }
    division
}

fn scale_up(now: &mut [i64], target: &[i64], bounds: &[Bounds], limits: &ReplicaLimits, by: i64) {
    let growing: Vec<usize> = (0..now.len()).filter(|at| target[*at] > now[*at]).collect();
    let bounds: Vec<Bounds> = growing
        .iter()
        .map(|&at| Bounds { min: bounds[at].min, max: bounds[at].max.map(|max| max - now[at]) })
        .collect();
    let moved = fill_in_order(&bounds, &limits.allowed_only(&growing), by).plan;
    for (at, moved) in growing.into_iter().zip(moved) {
        now[at] += moved;
    }
}

/// The last selected clusters give replicas away first.
fn scale_down(now: &mut [i64], target: &[i64], by: i64) {
    let shrinking: Vec<usize> = (0..now.len()).rev().filter(|at| target[*at] < now[*at]).collect();
    let bounds: Vec<Bounds> = shrinking.iter().map(|&at| Bounds { min: 0, max: Some(now[at]) }).collect();
    let moved = fill_in_order(&bounds, &ReplicaLimits::unlimited(bounds.len()), by).plan;
    for (at, moved) in shrinking.into_iter().zip(moved) {
        now[at] -= moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAREFUL: Rescheduling = Rescheduling { avoid_disruption: true, keep_unschedulable: false };

    fn bounds(all: &[(i64, Option<i64>)]) -> Vec<Bounds> {
        all.iter().map(|(min, max)| Bounds { min: *min, max: *max }).collect()
    }

    fn current<'c>(replicas: &'c [Option<i64>], scheduled: &'c [Option<i64>]) -> CurrentReplicas<'c> {
        CurrentReplicas { replicas, scheduled, lost: false, awaited: false }
    }

    #[test]
    fn a_scaled_workload_grows_where_it_is_first() {
        let bounds = bounds(&[(0, Some(6)), (0, None)]);
        let got = plan_binpack(
            &bounds,
            &ReplicaLimits::unlimited(2),
            &current(&[Some(5), None], &[None, None]),
            8,
            CAREFUL,
        );
        assert_eq!(got, [6, 2]);
    }

    #[test]
    fn an_estimated_cluster_overflows_with_all_that_was_unplaced() {
        let bounds = bounds(&[(2, None), (2, None), (2, None)]);
        let limits = ReplicaLimits::new(vec![Some(2), Some(0), Some(0)], vec![None; 3]);
        let free = Rescheduling { avoid_disruption: false, keep_unschedulable: false };
        let got = plan_binpack(&bounds, &limits, &current(&[None; 3], &[None; 3]), 10, free);
        assert_eq!(got, [10, 8, 8]);
    }

    #[test]
    fn nothing_moves_while_an_estimate_is_awaited() {
        let bounds = bounds(&[(0, None), (0, None)]);
        let limits = ReplicaLimits::new(vec![Some(3), None], vec![None; 2]);
        let got = plan_binpack(&bounds, &limits, &current(&[Some(5), None], &[Some(5), None]), 9, CAREFUL);
        assert_eq!(got, [5, 0]);
    }
}
