//! Counts the clusters of a Sync by their states, for its status.

use std::collections::BTreeMap;

use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::ClusterCounts;

use crate::member_clusters::tracker::ClusterTracker;

/// The states of clusters that are not ready, by name. Each cluster has one.
fn cluster_states(record: &SyncRecord, tracker: &ClusterTracker) -> BTreeMap<String, &'static str> {
    let rolling = rollout_states(record).into_iter().map(|(name, state, _)| (name, state));
    let drifted = tracker.drifted_clusters().map(|(name, _)| (name.clone(), "modified"));
    let failing = tracker.failure_causes().map(|(name, cause)| (name.clone(), cause.kind.state_name()));
    rolling.chain(drifted).chain(failing).collect()
}

/// Counts the clusters in the status again, each by its state after everything that is known. Their number stays.
pub(crate) fn recount_clusters(record: &mut SyncRecord, tracker: &ClusterTracker) {
    let states = cluster_states(record, tracker);
    record.status.drift = tracker.summarize_drift();
    let Some(counts) = &mut record.status.clusters else { return };
    let total = counts.total();
    let mut by_state: BTreeMap<&str, usize> = BTreeMap::new();
    for state in states.values() {
        *by_state.entry(state).or_default() += 1;
    }
    *counts = ClusterCounts {
        ready: total.saturating_sub(states.len()),
        not_ready: by_state.remove("notReady").unwrap_or(0),
        modified: by_state.remove("modified").unwrap_or(0),
        out_of_sync: by_state.remove("outOfSync").unwrap_or(0),
        err_applied: by_state.remove("errApplied").unwrap_or(0),
        wait_applied: by_state.remove("waitApplied").unwrap_or(0),
        pending: by_state.remove("pending").unwrap_or(0),
    };
}

/// The clusters that a rollout is updating or has not reached, with their states and revisions.
pub(crate) fn rollout_states(record: &SyncRecord) -> Vec<(String, &'static str, Option<String>)> {
    let target = record.rollout.as_ref().map(|rollout| rollout.target.as_str());
    let staged = record.clusters.iter().filter_map(|(name, cluster)| {
        let state = match (cluster.updating, cluster.applied) {
            _ if cluster.failed.is_some() => "errApplied",
            (Some(_), true) => "notReady",
            (Some(_), false) => "waitApplied",
            (None, _) if target.is_some() && cluster.revision.as_deref() != target => "pending",
            (None, _) => return None,
        };
        Some((name.clone(), state, cluster.revision.clone()))
    });
    let tip = record.accepted.as_ref().map(|accepted| accepted.tip.as_str()).unwrap_or_default();
    let placed = record.policies.values().flat_map(|rollout| &rollout.clusters);
    let placed = placed.filter_map(|(name, cluster)| {
        let state = match (cluster.is_open(), cluster.applied) {
            _ if cluster.failed.is_some() => "errApplied",
            (true, true) => "notReady",
            (true, false) => "waitApplied",
            (false, _) if cluster.revision != tip => "pending",
            (false, _) => return None,
        };
        Some((name.to_string(), state, None))
    });
    staged.chain(placed).collect()
}
