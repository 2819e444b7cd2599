//! Groups of clusters, with times: how long a success must last, and how long a failure may take.
//!
//! Facts: a cluster is active while it has to be updated, while it is being updated or fails before its deadline, and
//! until its success has lasted long enough. A cluster that passes its deadline has timed out, which is a failure. A
//! cluster that has to be updated has no deadline. Either a number of clusters is kept active, by name, or group follows
//! group.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use federate_kubernetes::ClusterName;

use super::{ClusterUpdate, RolloutDecision, UpdateState};

/// A group of clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateGroup<'g> {
    /// Its clusters, in the order in which they are updated.
    pub clusters: &'g [ClusterName],
    /// How many of them may fail.
    pub max_failures: usize,
}

/// A number of clusters that are updated at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateWindow<'g> {
    /// The clusters that may start.
    pub clusters: BTreeSet<&'g ClusterName>,
    /// How many clusters are active at a time.
    pub max_concurrency: usize,
    /// How many clusters may fail.
    pub max_failures: usize,
}

/// The times of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateTimes {
    /// The time.
    pub now: Timestamp,
    /// After which a cluster has timed out; `None` for never.
    pub deadline: Option<SignedDuration>,
    /// How long a success must last.
    pub min_success: SignedDuration,
}

impl UpdateTimes {
    /// When a state ends by itself.
    fn find_end(&self, update: &ClusterUpdate) -> Option<Timestamp> {
        let limit = match update.state {
            UpdateState::Updated => self.min_success,
            UpdateState::Updating | UpdateState::Failed => self.deadline?,
            UpdateState::Pending | UpdateState::TimedOut | UpdateState::Skipped => return None,
        };
        let since = update.since.unwrap_or(self.now);
        Some(since.checked_add(limit).unwrap_or(Timestamp::MAX))
    }

    /// Adds a cluster to a decision, and returns the state that it has now.
    fn add_cluster(&self, decision: &mut RolloutDecision, update: &ClusterUpdate) -> UpdateState {
        let is_in_time = self.find_end(update).is_none_or(|end| self.now < end);
        match update.state {
            UpdateState::TimedOut | UpdateState::Skipped => update.state,
            UpdateState::Updated if !is_in_time => update.state,
            UpdateState::Updating | UpdateState::Failed if !is_in_time => {
                let late = ClusterUpdate { state: UpdateState::TimedOut, ..update.clone() };
                decision.timed_out.push(late);
                UpdateState::TimedOut
            }
            state => {
                decision.active.push(update.clone());
                state
            }
        }
    }

    /// Keeps a number of clusters active. `existing` are the clusters that have a state, sorted by name.
    pub fn advance_window(&self, window: &UpdateWindow<'_>, existing: &[ClusterUpdate]) -> RolloutDecision {
        let mut decision = RolloutDecision::default();
        let mut failures = 0;
        for update in existing {
            if decision.is_breached && update.state == UpdateState::Pending {
                continue;
            }
            failures += usize::from(is_failure(self.add_cluster(&mut decision, update)));
            decision.is_breached = failures > window.max_failures;
            if decision.active.len() >= window.max_concurrency {
                return self.finish(decision);
            }
        }
        if decision.is_breached {
            return self.finish(decision);
        }
        let known: BTreeSet<&ClusterName> = existing.iter().map(|update| &update.cluster).collect();
        for cluster in window.clusters.difference(&known) {
            if decision.active.len() >= window.max_concurrency {
                break;
            }
            decision.active.push(ClusterUpdate::pending(ClusterName::clone(cluster)));
        }
        self.finish(decision)
    }

    /// Works group after group. `existing` are the clusters that have a state, sorted by name.
    pub fn advance_groups(&self, groups: &[UpdateGroup<'_>], existing: &[ClusterUpdate]) -> RolloutDecision {
        let mut decision = RolloutDecision::default();
        if groups.is_empty() {
            return decision;
        }
        let mut known: BTreeMap<&ClusterName, UpdateState> = BTreeMap::new();
        for update in existing.iter().filter(|update| update.state != UpdateState::Pending) {
            known.insert(&update.cluster, self.add_cluster(&mut decision, update));
        }
        let mut all_failures = 0;
        for group in groups {
            let mut failures = 0;
            for cluster in group.clusters {
                match known.get(cluster) {
                    Some(state) => failures += usize::from(is_failure(*state)),
                    None => decision.active.push(ClusterUpdate::pending(cluster.clone())),
                }
            }
            all_failures += failures;
            decision.is_breached = failures > group.max_failures;
            if decision.is_breached || decision.active.len() > all_failures {
                break;
            }
        }
        self.finish(decision)
    }

    /// Sorts a decision, and adds when it changes by itself.
    fn finish(&self, mut decision: RolloutDecision) -> RolloutDecision {
        let ends = decision.active.iter().filter_map(|update| self.find_end(update));
        decision.recheck =
            ends.map(|end| end.duration_since(self.now)).filter(SignedDuration::is_positive).min();
        decision.active.sort();
        decision.timed_out.sort();
        decision.is_done =
            decision.active.is_empty() && decision.timed_out.is_empty() && !decision.is_breached;
        decision
    }
}

fn is_failure(state: UpdateState) -> bool {
    matches!(state, UpdateState::TimedOut | UpdateState::Failed)
}
