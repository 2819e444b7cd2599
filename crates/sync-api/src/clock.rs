//! Clocks that are set: waits are measured by times that the state keeps, and a time that has not come yet is no measure.
//!
//! After a clock was set back, such a time counts as now, so that a wait takes at most as long as it was meant to. Leases
//! and pauses of a process are measured by monotonic clocks.

use jiff::Timestamp;

use crate::record::SyncRecord;

impl SyncRecord {
    /// Moves the times that lie after `now` to `now`.
    pub fn follow_clock(&mut self, now: Timestamp) {
        let stages = self.rollout.iter_mut().flat_map(|rollout| rollout.stages.values_mut());
        let stages = stages.flat_map(|stage| [&mut stage.started, &mut stage.updated, &mut stage.finished]);
        let updates = self.clusters.values_mut().map(|cluster| &mut cluster.updating);
        let policies = self.policies.values_mut().flat_map(|rollout| rollout.clusters.values_mut());
        let policies = policies.flat_map(|cluster| [&mut cluster.since, &mut cluster.available]);
        for time in stages.chain(updates).chain(policies).flatten() {
            *time = now.min(*time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use federate_dialect::stages::UpdateStage as Clusters;
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::NamespacedName;
    use crate::progress::{NextRolloutStep, RolloutState};
    use crate::rollout::RolloutSpec;
    use crate::status::SyncStatus;

    #[test]
    fn a_clock_that_is_set_back_makes_no_wait_longer() {
        let task = json!({"type": "TimedWait", "waitTime": "1h"});
        let spec = json!({"stages": [{"name": "canary", "labelSelector": {}, "afterStageTasks": [task]}]});
        let rollout: RolloutSpec = serde_json::from_value(spec).unwrap();
        let clusters = vec!["c1".into()];
        let stages = [Clusters { name: "canary".to_owned(), clusters, max_concurrency: 1 }];
        let metadata = NamespacedName { name: "web".to_owned(), namespace: "shop".to_owned() };
        let mut record = SyncRecord::for_invalid(&metadata, 1, SyncStatus::default());
        let start = RolloutState::start("0123456789", None, None, &mut record.clusters);
        record.rollout = Some(start);
        let step = |record: &mut SyncRecord, now: Timestamp| {
            record.follow_clock(now);
            let progress = record.rollout.as_mut().unwrap();
            progress.advance_rollout(&rollout, &stages, &mut record.clusters, &BTreeSet::new(), now)
        };
        // The clock is years ahead while the cluster is updated and becomes healthy.
        let ahead: Timestamp = "2099-01-01T00:00:00Z".parse().unwrap();
        assert!(matches!(step(&mut record, ahead), NextRolloutStep::Update { .. }));
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        step(&mut record, now);
        assert_eq!(record.clusters["c1"].updating, Some(now), "the time limit for its health begins again");
        let cluster = record.clusters.get_mut("c1").unwrap();
        (cluster.revision, cluster.updating) = (Some("0123456789".to_owned()), None);
        let hour = SignedDuration::from_hours(1);
        let until = |time: Timestamp| NextRolloutStep::Until { stage: "canary".to_owned(), time };
        assert_eq!(step(&mut record, ahead), until(ahead + hour));
        assert_eq!(step(&mut record, now), until(now + hour));
        assert_eq!(step(&mut record, now - hour), until(now));
        assert_eq!(step(&mut record, now), NextRolloutStep::Done);
    }
}
