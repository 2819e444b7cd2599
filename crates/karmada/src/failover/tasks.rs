//! Graceful evictions until they are done.
//!
//! Facts: a task is done when its time is over, when a user confirms it, or when the remaining clusters are
//! scheduled and healthy. A task that waits for a user has no time limit.

use jiff::{SignedDuration, Timestamp};

use super::FailoverOptions;
use super::binding::{EvictionTask, ResourceBinding};

impl ResourceBinding {
    /// Starts new tasks and removes those that are done.
    pub fn assess_tasks(&mut self, options: &FailoverOptions, now: Timestamp) {
        if self.tasks.is_empty() {
            return;
        }
        let replaced = self.is_scheduled && self.is_healthy_everywhere();
        let before = self.tasks.clone();
        self.tasks.retain_mut(|task| {
            let Some(began) = task.creation_timestamp else {
                task.creation_timestamp = Some(now);
                return true;
            };
            match task.suppress_deletion {
                Some(suppressed) => suppressed,
                None => now.duration_since(began) <= task_timeout(task, options) && !replaced,
            }
        });
        self.is_scheduled &= self.tasks == before;
    }

    fn is_healthy_everywhere(&self) -> bool {
        self.clusters
            .iter()
            .all(|(name, _)| self.reported.get(name).is_some_and(|report| report.health == "Healthy"))
    }

    /// When the next task runs out of time.
    pub fn next_task(&self, options: &FailoverOptions, now: Timestamp) -> Option<SignedDuration> {
        let timed = self.tasks.iter().filter(|task| task.suppress_deletion.is_none());
        let left = timed.filter_map(|task| {
            let gone = now.duration_since(task.creation_timestamp?);
            Some(task_timeout(task, options) - gone)
        });
        left.min()
    }
}

fn task_timeout(task: &EvictionTask, options: &FailoverOptions) -> SignedDuration {
    task.grace_period_seconds.map_or(options.graceful_eviction_timeout, SignedDuration::from_secs)
}
