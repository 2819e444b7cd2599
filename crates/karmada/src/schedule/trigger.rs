//! Finds out whether a placed object is scheduled again.
//!
//! Facts, in the order checked: the placement changed since it was applied; the replicas changed;
//! a reschedule was requested; it is not a workload or is duplicated; one of its clusters is being
//! deleted. Otherwise the previous placement is kept.

use super::DivisionStrategy;
use crate::api::{AffinityTerm, KarmadaPlacement};

/// The state of an object that has been scheduled before.
pub(crate) struct LastScheduling<'s> {
    /// The placement applied last time; `None` when there is no record of it.
    pub(crate) placement: Option<&'s KarmadaPlacement>,
    /// The affinity group observed last time.
    pub(crate) affinity: Option<&'s str>,
    /// Replicas by cluster, as stored, clusters that have left included.
    pub(crate) replicas: &'s [i64],
    pub(crate) reschedule: bool,
    pub(crate) on_deleting_cluster: bool,
}

/// Why the object is scheduled again; `None` when it is not.
pub(crate) fn reschedule_reason(
    applied: &LastScheduling<'_>,
    placement: &KarmadaPlacement,
    replicas: i64,
    is_workload: bool,
) -> Option<&'static str> {
    let strategy = DivisionStrategy::from_scheduling(placement.replica_scheduling.as_ref());
    let replicas_differ = match strategy {
        DivisionStrategy::Duplicated => applied.replicas.iter().any(|r| *r != replicas),
        _ => applied.replicas.iter().sum::<i64>() != replicas,
    };
    let Some(before) = applied.placement else {
        return Some("the previous plan does not record the `placement` of its policy");
    };
    if placement_changed(before, placement, applied.affinity) {
        return Some("the `placement` of its policy differs from the previous plan");
    }
    if placement.replica_scheduling.is_some() && replicas_differ {
        return Some("its replicas differ from the previous plan");
    }
    if applied.reschedule {
        return Some("a reschedule was requested");
    }
    if !is_workload || strategy == DivisionStrategy::Duplicated {
        return Some("objects whose replicas are not divided are scheduled in every run");
    }
    applied.on_deleting_cluster.then_some("one of its clusters is being deleted")
}

/// Of ordered affinity groups only the one observed last time counts.
fn placement_changed(before: &KarmadaPlacement, now: &KarmadaPlacement, observed: Option<&str>) -> bool {
    if before == now {
        return false;
    }
    if before.cluster_affinity != now.cluster_affinity
        || before.cluster_tolerations != now.cluster_tolerations
        || before.spread_constraints != now.spread_constraints
        || before.replica_scheduling != now.replica_scheduling
    {
        return true;
    }
    if before.cluster_affinities == now.cluster_affinities {
        return false;
    }
    let Some(observed) = observed else { return true };
    match (find_term(before, observed), find_term(now, observed)) {
        (Some(before), Some(now)) => before != now,
        _ => true,
    }
}

fn find_term<'p>(placement: &'p KarmadaPlacement, name: &str) -> Option<&'p AffinityTerm> {
    placement.cluster_affinities.iter().find(|term| term.affinity_name == name)
}
