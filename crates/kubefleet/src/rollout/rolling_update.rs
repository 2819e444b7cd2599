//! The next round of a rolling update.
//!
//! Facts: failed rows are updated at once. Then unscheduled rows are removed and old ones updated, as long as
//! enough clusters stay ready. Then new clusters are bound, up to `maxSurge` above the target. Percentages of
//! the target are rounded up.

use jiff::{SignedDuration, Timestamp};

use super::api::read_rolling_update;
use super::row::{BindingResources, BindingRow, BindingState, RowReadiness};
use crate::KubeFleetBehaviour;
use crate::api::{PlacementPolicy, PlacementType};
use federate_kubernetes::{ClusterName, Object};

/// How long a round waits for a row that is being deleted.
pub(crate) const CLEANUP_WAIT: SignedDuration = SignedDuration::from_secs(5);

/// What a rolling update does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RollingStep {
    /// Nothing until a row that is being deleted is gone. The next check is after [`CLEANUP_WAIT`].
    Cleanup,
    /// A round.
    Round(RolloutBatch),
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolloutBatch {
    /// The clusters that are updated now, in order.
    pub(crate) update: Vec<ClusterName>,
    /// The clusters that are out of date, but must wait.
    pub(crate) blocked: Vec<ClusterName>,
    /// The clusters that are up to date.
    pub(crate) up_to_date: Vec<ClusterName>,
    /// Whether there is anything to do, now or later.
    pub(crate) need_roll: bool,
    /// When the next check is.
    pub(crate) wait: SignedDuration,
}

/// The rows by their possible actions.
#[derive(Default)]
struct Candidates<'r> {
    failed: Vec<&'r BindingRow>,
    remove: Vec<&'r BindingRow>,
    update: Vec<&'r BindingRow>,
    bind: Vec<&'r BindingRow>,
    up_to_date: Vec<&'r BindingRow>,
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
    let running = Running::from_rows(rows, cutoff, period, behaviour);
    let candidates = classify_rows(rows, behaviour);
    let least = target.saturating_sub(limits.max_unavailable().rounded_up(target));
    let most = target.saturating_add(limits.max_surge().rounded_up(target));
    let to_remove = running.staying.saturating_sub(least);
    let to_add = most.saturating_sub(running.can_be_ready);
    Ok(RollingStep::Round(candidates.into_batch(to_remove, to_add, running.wait)))
}

fn count_items<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

/// The number of ready rows among those that have resources.
struct Running {
    /// How many are ready and not being deleted.
    staying: i64,
    /// How many are or will be ready.
    can_be_ready: i64,
    wait: SignedDuration,
}

impl Running {
    fn from_rows(
        rows: &[BindingRow],
        cutoff: Timestamp,
        period: SignedDuration,
        behaviour: &KubeFleetBehaviour,
    ) -> Self {
        let rows: Vec<&BindingRow> = rows.iter().filter(|row| row.state != BindingState::Scheduled).collect();
        let staying =
            rows.iter().filter(|row| !row.deleting && row.check_readiness(cutoff) == RowReadiness::Ready);
        let mut waits = rows.iter().filter_map(|row| match row.check_readiness(cutoff) {
            RowReadiness::Ready => None,
            RowReadiness::NotReady => Some(period),
            RowReadiness::In(left) => Some(left.min(period)),
        });
        let first = waits.next();
        Self {
            staying: count_items(staying),
            can_be_ready: count_items(
                rows.iter().filter(|row| !row.has_failed(behaviour) && !row.reports_diff()),
            ),
            wait: first.map_or(SignedDuration::ZERO, |first| waits.fold(first, SignedDuration::min)),
        }
    }
}

fn classify_rows<'r>(rows: &'r [BindingRow], behaviour: &KubeFleetBehaviour) -> Candidates<'r> {
    let mut candidates = Candidates::default();
    for row in rows {
        match (row.state, row.resources) {
            (BindingState::Unscheduled | BindingState::Bound, _) if row.deleting => {}
            (BindingState::Unscheduled, _) => candidates.remove.push(row),
            (BindingState::Scheduled, _) => candidates.bind.push(row),
            (BindingState::Bound, BindingResources::Latest) => candidates.up_to_date.push(row),
            (BindingState::Bound, BindingResources::Old) if row.has_failed(behaviour) => {
                candidates.failed.push(row);
            }
            (BindingState::Bound, BindingResources::Old) => candidates.update.push(row),
        }
    }
    candidates
}

impl Candidates<'_> {
    fn into_batch(self, to_remove: i64, to_add: i64, wait: SignedDuration) -> RolloutBatch {
        let Self { failed, remove, update, bind, up_to_date } = self;
        let need_roll = [&failed, &remove, &update, &bind].iter().any(|rows| !rows.is_empty());
        let to_remove = usize::try_from(to_remove).unwrap_or(0);
        let to_add = usize::try_from(to_add).unwrap_or(0);
        let (removed, _) = remove.split_at(to_remove.min(remove.len()));
        let (updated, stale) = update.split_at((to_remove - removed.len()).min(update.len()));
        let (bound, unbound) = bind.split_at(to_add.min(bind.len()));
        RolloutBatch {
            update: cluster_names(&[&failed, removed, updated, bound].concat()),
            blocked: cluster_names(&[stale, unbound].concat()),
            up_to_date: cluster_names(&up_to_date),
            need_roll,
            wait,
        }
    }
}

fn cluster_names(rows: &[&BindingRow]) -> Vec<ClusterName> {
    rows.iter().map(|row| row.cluster.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        round.update
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
        assert_eq!(round.blocked, ["b".into(), "a".into()]);
        assert_eq!((round.update, round.up_to_date), (Vec::new(), vec!["c".into()]));
    }

    #[test]
    fn what_cannot_tell_is_waited_for() {
        let mut untrackable = row("a", BindingState::Bound, BindingResources::Latest);
        untrackable.conditions[0].reason = "WorkNotTrackable".into();
        let wait = |period: i64| {
            let rows = vec![untrackable.clone(), row("b", BindingState::Bound, BindingResources::Old)];
            match round(&json!(null), &json!({"unavailablePeriodSeconds": period}), &rows) {
                RollingStep::Round(round) => (round.wait.as_secs(), round.update.len()),
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
