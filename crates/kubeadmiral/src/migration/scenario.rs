//! The estimates of the auto-migration controller in a scenario, from the number of replicas that fit.
//!
//! Facts: the controller looks at a workload some time after its pods have changed, and again when the next pods have been
//! unschedulable for as long as the policy's threshold. It writes the estimates if they differ from the present ones.

use federate_dialect::{MigrationOutcome, Placement, PodCounts};
use jiff::SignedDuration;

use super::pods::PodStates;
use super::{CapacityEstimates, PodEstimate, migration_info, write_estimates};
use crate::api::AutoMigration;
use crate::state::KubeAdmiralState;

/// The seconds between a change of pods and its reconciliation.
pub(crate) const RECONCILE_DELAY: i64 = 10;

/// Records the estimates at this second of the scenario in the scheduler state of a row.
pub(crate) fn record_estimates(
    policy: &AutoMigration,
    placement: &Placement,
    pods: &PodCounts,
    seconds: i64,
) -> MigrationOutcome {
    let Some(threshold) = policy.parse_threshold() else { return MigrationOutcome::default() };
    let threshold = threshold.as_secs() + i64::from(threshold.subsec_nanos() > 0);
    let mut scheduler_state = KubeAdmiralState::from_row(placement);
    let before =
        migration_info(&scheduler_state).and_then(|text| CapacityEstimates::parse_annotation(text).ok());
    let mut estimate = PodEstimate::default();
    let mut migrated = MigrationOutcome::default();
    for (cluster, pods) in pods {
        let mut states =
            PodStates { there: pods.desired, scheduled: pods.count_scheduled(), ..PodStates::default() };
        for (since, replicas) in &pods.unschedulable {
            let left = since + threshold - seconds;
            if left <= 0 {
                states.stuck += replicas;
            } else {
                let left = SignedDuration::from_secs(left);
                states.next = Some(states.next.map_or(left, |next| next.min(left)));
            }
        }
        estimate.add_cluster(cluster, pods.desired, states);
        let now = estimate.estimates.estimated_capacity.get(cluster.as_ref());
        let known = before.as_ref().and_then(|before| before.estimated_capacity.get(cluster.as_ref()));
        if now.is_some() && now != known {
            migrated.full.push((cluster.clone(), states.stuck));
        }
    }
    migrated.next = estimate.again.map(|left| seconds + left.as_secs());
    let estimates = estimate.estimates;
    if before.as_ref() != Some(&estimates) {
        write_estimates(&mut scheduler_state, &estimates);
        let mut row = placement.clone();
        scheduler_state.write_to(&mut row);
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
    use crate::keys;

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
        let text =
            |row: &Placement| KubeAdmiralState::from_row(row).annotations[keys::AUTO_MIGRATION_INFO].clone();

        let early = record_estimates(&policy, &row, &pods(&[(0, 2), (60, 1)]), 10);
        assert_eq!((early.next, early.full), (Some(90), Vec::new()));
        row = early.placement.unwrap();
        assert_eq!(text(&row), r#"{"scheduledReplicas":{"a":3,"b":2}}"#);

        let due = record_estimates(&policy, &row, &pods(&[(0, 2), (60, 1)]), 90);
        assert_eq!((due.next, due.full), (Some(150), vec![("a".into(), 2)]));
        row = due.placement.unwrap();
        assert_eq!(text(&row), r#"{"estimatedCapacity":{"a":4},"scheduledReplicas":{"a":3,"b":2}}"#);

        assert_eq!(record_estimates(&policy, &row, &pods(&[(0, 2), (60, 1)]), 100).placement, None);
        let fits = record_estimates(&policy, &row, &pods(&[]), 100).placement.unwrap();
        assert_eq!(text(&fits), r#"{"scheduledReplicas":{"a":6,"b":2}}"#);
    }
}
