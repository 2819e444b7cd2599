//! Counts the clusters of a Sync by their states, for its status.

use std::collections::BTreeMap;

use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::CountedState;

use crate::member_clusters::tracker::ClusterTracker;

/// Counts the clusters in the status by state, and sums up what drifted in them, after everything that is known when a
/// reconciliation ends. The number of clusters is that of the status.
pub(crate) fn count_clusters(record: &mut SyncRecord, tracker: &ClusterTracker) {
    record.status.drift = tracker.summarize_drift();
    let states = cluster_states(record, tracker);
    if let Some(mut counts) = record.status.clusters {
        counts.recount(states.into_values());
        record.status.clusters = Some(counts);
    }
}

/// The states of clusters that are not ready, by name. Each cluster has one.
fn cluster_states<'r>(
    record: &'r SyncRecord,
    tracker: &'r ClusterTracker,
) -> BTreeMap<&'r str, CountedState> {
    let drifted = tracker.drifted_clusters().map(|(name, _)| (name.as_str(), CountedState::Modified));
    let failing = tracker.failure_causes().map(|(name, cause)| (name.as_str(), cause.kind.counted_state()));
    rollout_states(record).chain(drifted).chain(failing).collect()
}

/// The clusters that a rollout is updating or has not reached.
pub(crate) fn rollout_states(record: &SyncRecord) -> impl Iterator<Item = (&str, CountedState)> {
    let target = record.rollout.as_ref().map(|rollout| rollout.target.as_str());
    let staged = record.clusters.iter().filter_map(move |(name, cluster)| {
        let state = match (cluster.updating, cluster.applied) {
            _ if cluster.failed.is_some() => CountedState::ErrApplied,
            (Some(_), true) => CountedState::NotReady,
            (Some(_), false) => CountedState::WaitApplied,
            (None, _) if target.is_some() && cluster.revision.as_deref() != target => CountedState::Pending,
            (None, _) => return None,
        };
        Some((name.as_str(), state))
    });
    let tip = record.accepted.as_ref().map(|accepted| accepted.tip.as_str()).unwrap_or_default();
    let placed = record.policies.values().flat_map(|rollout| &rollout.clusters);
    let placed = placed.filter_map(move |(name, cluster)| {
        let state = match (cluster.is_open(), cluster.applied) {
            _ if cluster.failed.is_some() => CountedState::ErrApplied,
            (true, true) => CountedState::NotReady,
            (true, false) => CountedState::WaitApplied,
            (false, _) if cluster.revision != tip => CountedState::Pending,
            (false, _) => return None,
        };
        Some((&**name, state))
    });
    staged.chain(placed)
}
