//! Stages: ordered clusters, of which a number are updated at a time, with tasks before and after.
//!
//! Facts: a cluster that fails keeps its place. The tasks after a stage begin when its last cluster is updated; a wait
//! and an approval pass at the same time.

use jiff::{SignedDuration, Timestamp};

use super::{ClusterUpdate, RolloutDecision, UpdateState};

/// A stage that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveStage {
    /// Its clusters, in the order in which they are updated.
    pub clusters: Vec<ClusterUpdate>,
    /// How many of them are updated at a time.
    pub max_concurrency: usize,
    /// Whether no cluster starts while another one fails.
    pub halts_on_failure: bool,
}

/// The tasks after a stage whose clusters are all updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TasksAfterStage {
    /// When the last cluster was updated.
    pub since: Timestamp,
    /// How long the stage lasts after that.
    pub wait: SignedDuration,
    /// Whether it does not need an approval, or has one.
    pub is_approved: bool,
}

/// What keeps a stage open whose clusters are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTasks {
    /// The rest of the wait; zero if it is over.
    pub left: SignedDuration,
    /// Whether an approval is missing.
    pub needs_approval: bool,
}

impl ActiveStage {
    /// The clusters that are updated now.
    pub fn advance(&self) -> RolloutDecision {
        let mut decision = RolloutDecision { is_done: true, ..RolloutDecision::default() };
        let of_state = |is_wanted: fn(UpdateState) -> bool| {
            self.clusters.iter().filter(move |cluster| is_wanted(cluster.state))
        };
        let is_busy = |state| matches!(state, UpdateState::Updating | UpdateState::Failed);
        decision.active.extend(of_state(is_busy).cloned());
        let fails = decision.active.iter().any(|active| active.state == UpdateState::Failed);
        for pending in of_state(|state| state == UpdateState::Pending) {
            let is_halted = fails && self.halts_on_failure;
            if is_halted || decision.active.len() >= self.max_concurrency.max(1) {
                decision.waiting.push(pending.cluster.clone());
            } else {
                decision.active.push(pending.clone());
            }
        }
        decision.is_done = decision.active.is_empty() && decision.waiting.is_empty();
        decision.is_breached = fails && self.halts_on_failure;
        decision
    }
}

impl TasksAfterStage {
    /// What keeps the stage open; `None` if it is finished.
    pub fn find_open(&self, now: Timestamp) -> Option<OpenTasks> {
        let left = self.wait.saturating_sub(now.duration_since(self.since)).max(SignedDuration::ZERO);
        let open = OpenTasks { left, needs_approval: !self.is_approved };
        (open.left.is_positive() || open.needs_approval).then_some(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advance(states: &[(&str, UpdateState)], halts_on_failure: bool) -> String {
        let clusters = states
            .iter()
            .map(|(name, state)| ClusterUpdate { state: *state, ..ClusterUpdate::pending((*name).into()) });
        let stage = ActiveStage { clusters: clusters.collect(), max_concurrency: 2, halts_on_failure };
        let decision = stage.advance();
        let active: Vec<&str> = decision.active.iter().map(|active| &*active.cluster).collect();
        let waiting: Vec<&str> = decision.waiting.iter().map(AsRef::as_ref).collect();
        format!("{}; {}", active.join(" "), waiting.join(" "))
    }

    #[test]
    fn clusters_start_as_others_are_done() {
        use UpdateState::{Failed, Pending, Updated, Updating};
        let all = [("a", Pending), ("b", Pending), ("c", Pending)];
        assert_eq!(advance(&all, true), "a b; c");
        assert_eq!(advance(&[("a", Updating), ("b", Updated), ("c", Pending)], true), "a c; ");
        assert_eq!(advance(&[("a", Pending), ("b", Pending), ("c", Updating)], true), "c a; b");
        assert_eq!(advance(&[("a", Failed), ("b", Pending)], true), "a; b");
        assert_eq!(advance(&[("a", Failed), ("b", Pending)], false), "a b; ");
        assert_eq!(advance(&[("a", Updated)], true), "; ");
    }

    #[test]
    fn a_wait_and_an_approval_pass_at_the_same_time() {
        let hour = SignedDuration::from_hours(1);
        let tasks = TasksAfterStage { since: Timestamp::UNIX_EPOCH, wait: hour, is_approved: false };
        let open = |left, needs_approval| Some(OpenTasks { left, needs_approval });
        assert_eq!(tasks.find_open(tasks.since), open(hour, true));
        assert_eq!(tasks.find_open(tasks.since + hour), open(SignedDuration::ZERO, true));
        let approved = TasksAfterStage { is_approved: true, ..tasks };
        assert_eq!(approved.find_open(tasks.since), open(hour, false));
        assert_eq!(approved.find_open(tasks.since + hour), None);
    }
}
