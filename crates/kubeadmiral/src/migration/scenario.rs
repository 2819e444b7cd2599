//! The estimates of the auto-migration controller in a scenario, from the number of replicas that fit.
//!
//! Facts: the controller looks at a workload some time after its pods have changed, and again when the next pods have been
//! unschedulable for as long as the policy's threshold. It writes the estimates if they differ from the present ones.

use federate_dialect::{Migrated, Placement, PodCounts};

use super::{Estimates, info};
use crate::api::AutoMigration;
use crate::keys;
use crate::memory::Memory;

/// The seconds between a change of pods and its reconciliation.
pub(crate) const DELAY: i64 = 10;

/// Records the estimates of a moment in the memory of a row.
pub(crate) fn migrate(
    policy: &AutoMigration,
    placement: &Placement,
    pods: &PodCounts,
    seconds: i64,
) -> Migrated {
    let Some(threshold) = policy.threshold() else { return Migrated::default() };
    let threshold = threshold.as_secs() + i64::from(threshold.subsec_nanos() > 0);
    let mut memory = Memory::of(placement);
    let before = info(&memory).and_then(|text| Estimates::read(text).ok());
    let mut estimates = Estimates::default();
    let mut migrated = Migrated::default();
    for (cluster, pods) in pods {
        let stuck = pods.unschedulable.iter().filter(|(since, _)| since + threshold <= seconds);
        let stuck: i64 = stuck.map(|(_, replicas)| replicas).sum();
        estimates.scheduled_replicas.insert(cluster.to_string(), pods.scheduled());
        let ends = pods.unschedulable.iter().map(|(since, _)| since + threshold);
        let next = ends.filter(|end| *end > seconds).min();
        migrated.next = migrated.next.into_iter().chain(next).min();
        if stuck > 0 {
            let capacity = pods.desired - stuck;
            estimates.estimated_capacity.insert(cluster.to_string(), capacity);
            let known = before.as_ref().and_then(|before| before.estimated_capacity.get(cluster.as_ref()));
            if known != Some(&capacity) {
                migrated.full.push((cluster.clone(), stuck));
            }
        }
    }
    if before.as_ref() != Some(&estimates) {
        memory.annotations.insert(keys::AUTO_MIGRATION_INFO.to_owned(), estimates.annotation());
        let mut row = placement.clone();
        memory.write(&mut row);
        migrated.placement = Some(row);
    }
    migrated
}

#[cfg(test)]
mod tests {
    use federate_dialect::PodCount;
    use federate_kubernetes::ObjectRef;
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_count_after_the_threshold() {
        let policy: AutoMigration =
            serde_json::from_value(json!({"when": {"podUnschedulableFor": "1m30s"}})).unwrap();
        let id = ObjectRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        };
        let pods = |unschedulable: &[(i64, i64)]| {
            let full = PodCount { desired: 6, unschedulable: unschedulable.to_vec() };
            PodCounts::from([
                ("a".into(), full),
                ("b".into(), PodCount { desired: 2, ..PodCount::default() }),
            ])
        };
        let mut row = Placement::new("kubeadmiral", id, None);
        let text = |row: &Placement| Memory::of(row).annotations[keys::AUTO_MIGRATION_INFO].clone();

        let early = migrate(&policy, &row, &pods(&[(0, 2), (60, 1)]), 10);
        assert_eq!((early.next, early.full), (Some(90), Vec::new()));
        row = early.placement.unwrap();
        assert_eq!(text(&row), r#"{"scheduledReplicas":{"a":3,"b":2}}"#);

        let due = migrate(&policy, &row, &pods(&[(0, 2), (60, 1)]), 90);
        assert_eq!((due.next, due.full), (Some(150), vec![("a".into(), 2)]));
        row = due.placement.unwrap();
        assert_eq!(text(&row), r#"{"estimatedCapacity":{"a":4},"scheduledReplicas":{"a":3,"b":2}}"#);

        assert_eq!(migrate(&policy, &row, &pods(&[(0, 2), (60, 1)]), 100).placement, None);
        let fits = migrate(&policy, &row, &pods(&[]), 100).placement.unwrap();
        assert_eq!(text(&fits), r#"{"scheduledReplicas":{"a":6,"b":2}}"#);
    }
}
