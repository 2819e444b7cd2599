//! How a control plane moves placements off clusters, moment by moment.

use federate_kubernetes::ObjectRef;

use crate::{Evictions, FailoverOutcome, MigrationOutcome, Placement, PodCounts, ScenarioMoment};

/// How a control plane moves placements off clusters. By default, it moves none.
pub trait FailoverRules {
    /// Whether placements leave tainted clusters after some time even where failover is off. By default, none does.
    fn always_evicts(&self) -> bool {
        false
    }

    /// Evicts a placement from clusters, as the control plane does at a moment of a scenario, and ends evictions
    /// that are done. The result is the same for placements that are [alike](Placement::is_alike). By default nothing
    /// is evicted.
    fn simulate_failover(
        &self,
        placement: &Placement,
        evicted: &Evictions,
        moment: &ScenarioMoment<'_>,
    ) -> FailoverOutcome {
        let _ = (placement, evicted, moment);
        FailoverOutcome::default()
    }

    /// The seconds between a change of a workload's pods and the moment at which the control plane counts them; `None`
    /// if it never moves replicas because they fit on no node.
    fn counts_pods_after(&self) -> Option<i64> {
        None
    }

    /// Records the replicas that fit on no node at a moment of a scenario, for the next decision about the placement of
    /// an object.
    fn record_unschedulable(
        &self,
        object: &ObjectRef,
        placement: &Placement,
        pods: &PodCounts,
        seconds: i64,
    ) -> MigrationOutcome {
        let _ = (object, placement, pods, seconds);
        MigrationOutcome::default()
    }
}
