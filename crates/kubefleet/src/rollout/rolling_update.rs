//! The next round of a rolling update: the budget of a placement, and what it counts of its rows.
//!
//! Facts: percentages of the target are rounded up. A row whose placement waits for another row of the same cluster that is
//! being deleted holds everything back.

use jiff::{SignedDuration, Timestamp};

use super::api::read_rolling_update;
use super::row::{BindingResources, BindingRow, BindingState};
use crate::KubeFleetBehaviour;
use crate::api::{PlacementPolicy, PlacementType};
use federate_dialect::rollout::RolloutDecision;
use federate_dialect::rollout::budget::{BudgetCluster, ClusterTask, UpdateBudget};
use federate_kubernetes::Object;

/// How long a round waits for a row that is being deleted.
pub(crate) const CLEANUP_WAIT: SignedDuration = SignedDuration::from_secs(5);

/// What a rolling update does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RollingStep {
    /// Nothing until a row that is being deleted is gone. The next check is after [`CLEANUP_WAIT`].
    Cleanup,
    /// A round.
    Round(RolloutDecision),
}

/// Computes the next round, for rows in the order of their clusters.
pub(crate) fn compute_next_step(
    placement: &Object,
    rows: &[BindingRow],
    now: Timestamp,
    behaviour: &KubeFleetBehaviour,
) -> Result<RollingStep, serde_json::Error> {
    let policy = PlacementPolicy::from_json(placement.value_at(&["spec", "policy"]))?;
    let limits = read_rolling_update(placement)?;
    let waits_for_cleanup = rows.iter().any(|row| {
        row.state != BindingState::Bound
            && !row.deleting
            && rows.iter().any(|other| other.deleting && other.cluster == row.cluster)
    });
    if waits_for_cleanup {
        return Ok(RollingStep::Cleanup);
    }
    let target = match policy.placement_type {
        PlacementType::PickAll => {
            count_items(rows.iter().filter(|row| row.state != BindingState::Unscheduled))
        }
        PlacementType::PickFixed => count_items(policy.cluster_names.iter()),
        PlacementType::PickN => policy.number_of_clusters.unwrap_or(0),
    };
    let period = SignedDuration::from_secs(limits.unavailable_period_seconds());
    let cutoff = now.saturating_sub(period).unwrap_or(Timestamp::MIN);
    let budget = UpdateBudget {
        min_available: target.saturating_sub(limits.max_unavailable().rounded_up(target)),
        max_total: target.saturating_add(limits.max_surge().rounded_up(target)),
        period,
    };
    let clusters: Vec<BudgetCluster> = rows.iter().map(|row| count_row(row, cutoff, behaviour)).collect();
    Ok(RollingStep::Round(budget.advance(&clusters)))
}

fn count_items<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

/// A row as a budget counts it.
fn count_row(row: &BindingRow, cutoff: Timestamp, behaviour: &KubeFleetBehaviour) -> BudgetCluster {
    let has_failed = row.has_failed(behaviour);
    BudgetCluster {
        cluster: row.cluster.clone(),
        task: match (row.state, row.resources) {
            (BindingState::Unscheduled, _) => ClusterTask::Remove,
            (BindingState::Scheduled, _) => ClusterTask::Add,
            (BindingState::Bound, BindingResources::Latest) => ClusterTask::None,
            (BindingState::Bound, BindingResources::Old) => ClusterTask::Update,
        },
        is_leaving: row.deleting,
        readiness: row.check_readiness(cutoff),
        has_failed,
        can_be_ready: !has_failed && !row.reports_diff(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use federate_kubernetes::ClusterName;
    use federate_kubernetes::condition::Condition;
    use serde_json::{Value, json};

    fn round(policy: &Value, rolling: &Value, rows: &[BindingRow]) -> RollingStep {
        let body = json!({"spec": {"policy": policy, "strategy": {"rollingUpdate": rolling}}});
        let placement =
            Object::from_path("placement.kubernetes-fleet.io/v1", "ClusterResourcePlacement", "p", body);
        compute_next_step(
            &placement,
            rows,
            "2026-11-20T12:00:00Z".parse().unwrap(),
            &KubeFleetBehaviour::for_newest(),
        )
        .unwrap()
    }

    fn row(cluster: &str, state: BindingState, resources: BindingResources) -> BindingRow {
        let available = Condition {
            kind: "Available".into(),
            status: "True".into(),
            reason: "AllWorkAreAvailable".into(),
            message: String::new(),
            observed_generation: 1,
            last_transition_time: Some("2026-11-20T11:59:00Z".parse().unwrap()),
        };
        let conditions = if state == BindingState::Scheduled { Vec::new() } else { vec![available] };
        BindingRow { cluster: cluster.into(), state, resources, deleting: false, generation: 1, conditions }
    }

    fn updated(next: RollingStep) -> Vec<ClusterName> {
        let RollingStep::Round(round) = next else { panic!("{next:?}") };
        round.starting().cloned().collect()
    }

    #[test]
    fn stale_clusters_are_updated_one_by_one_where_a_quarter_may_be_unavailable() {
        let stale = |names: &[&str]| -> Vec<BindingRow> {
            names.iter().map(|n| row(n, BindingState::Bound, BindingResources::Old)).collect()
        };
        let pick = |number: i64| json!({"placementType": "PickN", "numberOfClusters": number});
        assert_eq!(updated(round(&pick(4), &json!(null), &stale(&["a", "b", "c", "d"]))), ["a".into()]);
        assert_eq!(updated(round(&pick(2), &json!(null), &stale(&["a", "b"]))), ["a".into()]);
    }

    #[test]
    fn new_clusters_are_bound_first_when_too_few_are_ready() {
        let stale = (0..6).map(|i| row(&format!("a{i}"), BindingState::Bound, BindingResources::Old));
        let new = (0..4).map(|i| row(&format!("b{i}"), BindingState::Scheduled, BindingResources::Old));
        let next = round(&json!(null), &json!(null), &stale.chain(new).collect::<Vec<_>>());
        assert_eq!(updated(next), ["b0", "b1", "b2", "b3"].map(Into::into));
    }

    #[test]
    fn what_must_wait_is_told_stale_clusters_first() {
        let mut rows = vec![
            row("a", BindingState::Scheduled, BindingResources::Old),
            row("b", BindingState::Bound, BindingResources::Old),
            row("c", BindingState::Bound, BindingResources::Latest),
            row("d", BindingState::Bound, BindingResources::Latest),
        ];
        rows[3].deleting = true;
        let three = json!({"placementType": "PickN", "numberOfClusters": 3});
        let still = json!({"maxUnavailable": 0, "maxSurge": 0});
        let RollingStep::Round(round) = round(&three, &still, &rows) else { panic!("a round") };
        assert_eq!(round.waiting, ["b".into(), "a".into()]);
        assert!(round.active.is_empty() && !round.is_done);
    }

    #[test]
    fn what_cannot_tell_is_waited_for() {
        let mut untrackable = row("a", BindingState::Bound, BindingResources::Latest);
        untrackable.conditions[0].reason = "WorkNotTrackable".into();
        let wait = |period: i64| {
            let rows = vec![untrackable.clone(), row("b", BindingState::Bound, BindingResources::Old)];
            match round(&json!(null), &json!({"unavailablePeriodSeconds": period}), &rows) {
                RollingStep::Round(round) => {
                    (round.recheck.unwrap_or_default().as_secs(), round.active.len())
                }
                RollingStep::Cleanup => panic!("nothing is being deleted"),
            }
        };
        assert_eq!([wait(59), wait(60), wait(90)], [(0, 1), (0, 0), (30, 0)]);
    }

    #[test]
    fn what_is_still_becoming_available_failed_in_older_releases() {
        let mut pending = row("a", BindingState::Bound, BindingResources::Old);
        pending.conditions[0].status = "False".into();
        pending.conditions[0].reason = "ResourceNotAvailableYet".into();
        let still = json!({"policy": {"placementType": "PickN", "numberOfClusters": 1},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}});
        let body = json!({"spec": still});
        let placement =
            Object::from_path("placement.kubernetes-fleet.io/v1", "ClusterResourcePlacement", "p", body);
        for (release, at_once) in [("0.3", true), ("azure", false), ("main", false)] {
            let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
            let now = "2026-11-20T12:00:00Z".parse().unwrap();
            let next =
                compute_next_step(&placement, std::slice::from_ref(&pending), now, &behaviour).unwrap();
            assert_eq!(updated(next).len(), usize::from(at_once), "{release}");
        }
    }

    #[test]
    fn a_row_being_deleted_is_waited_for() {
        let mut deleting = row("a", BindingState::Unscheduled, BindingResources::Old);
        deleting.deleting = true;
        let rows = vec![deleting, row("a", BindingState::Scheduled, BindingResources::Old)];
        assert_eq!(round(&json!(null), &json!(null), &rows), RollingStep::Cleanup);
    }
}
