//! The next round of a rolling update.
//!
//! Facts: failed rows are updated at once. Then unscheduled rows are removed and old ones updated, as long as
//! enough clusters stay ready. Then new clusters are bound, up to `maxSurge` above the target. Percentages of
//! the target are rounded up.

use jiff::{SignedDuration, Timestamp};

use super::api::rolling_update;
use super::row::{Readiness, Resources, Row, State};
use crate::Behaviour;
use crate::api::{PlacementType, Policy};
use federate_kubernetes::{ClusterName, Object};

/// How long a round waits for a row that is being deleted.
pub(crate) const CLEANUP: SignedDuration = SignedDuration::from_secs(5);

/// What a rolling update does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until a row that is being deleted is gone. The next check is after [`CLEANUP`].
    Cleanup,
    /// A round.
    Round(Round),
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
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
    failed: Vec<&'r Row>,
    remove: Vec<&'r Row>,
    update: Vec<&'r Row>,
    bind: Vec<&'r Row>,
    up_to_date: Vec<&'r Row>,
}

/// Computes the next round, for rows in the order of their clusters.
pub(crate) fn next(
    placement: &Object,
    rows: &[Row],
    now: Timestamp,
    behaviour: &Behaviour,
) -> Result<Next, serde_json::Error> {
    let policy = Policy::read(placement.at(&["spec", "policy"]))?;
    let limits = rolling_update(placement)?;
    let deleting = |row: &Row| rows.iter().any(|other| other.deleting && other.cluster == row.cluster);
    if rows.iter().any(|row| row.state != State::Bound && !row.deleting && deleting(row)) {
        return Ok(Next::Cleanup);
    }
    let target = match policy.placement_type {
        PlacementType::PickAll => count(rows.iter().filter(|row| row.state != State::Unscheduled)),
        PlacementType::PickFixed => count(policy.cluster_names.iter()),
        PlacementType::PickN => policy.number_of_clusters.unwrap_or(0),
    };
    let period = SignedDuration::from_secs(limits.unavailable_period_seconds());
    let cutoff = now.saturating_sub(period).unwrap_or(Timestamp::MIN);
    let running = Running::of(rows, cutoff, period, behaviour);
    let candidates = candidates(rows, behaviour);
    let least = target.saturating_sub(limits.max_unavailable().rounded_up(target));
    let most = target.saturating_add(limits.max_surge().rounded_up(target));
    let to_remove = running.staying.saturating_sub(least);
    let to_add = most.saturating_sub(running.can_be_ready);
    Ok(Next::Round(candidates.round(to_remove, to_add, running.wait)))
}

fn count<T>(items: impl Iterator<Item = T>) -> i64 {
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
    fn of(rows: &[Row], cutoff: Timestamp, period: SignedDuration, behaviour: &Behaviour) -> Self {
        let rows = || rows.iter().filter(|row| row.state != State::Scheduled);
        let ready = |row: &&Row| row.readiness(cutoff) == Readiness::Ready;
        let mut waits = rows().filter_map(|row| match row.readiness(cutoff) {
            Readiness::Ready => None,
            Readiness::NotReady => Some(period),
            Readiness::In(left) => Some(left.min(period)),
        });
        let first = waits.next();
        Self {
            staying: count(rows().filter(ready).filter(|row| !row.deleting)),
            can_be_ready: count(rows().filter(|row| !row.failed(behaviour) && !row.reports_diff())),
            wait: first.map_or(SignedDuration::ZERO, |first| waits.fold(first, SignedDuration::min)),
        }
    }
}

fn candidates<'r>(rows: &'r [Row], behaviour: &Behaviour) -> Candidates<'r> {
    let mut candidates = Candidates::default();
    for row in rows {
        match (row.state, row.resources) {
            (State::Unscheduled | State::Bound, _) if row.deleting => {}
            (State::Unscheduled, _) => candidates.remove.push(row),
            (State::Scheduled, _) => candidates.bind.push(row),
            (State::Bound, Resources::Latest) => candidates.up_to_date.push(row),
            (State::Bound, Resources::Old) if row.failed(behaviour) => candidates.failed.push(row),
            (State::Bound, Resources::Old) => candidates.update.push(row),
        }
    }
    candidates
}

impl Candidates<'_> {
    fn round(self, to_remove: i64, to_add: i64, wait: SignedDuration) -> Round {
        let names = |rows: &[&Row]| rows.iter().map(|row| row.cluster.clone()).collect::<Vec<_>>();
        let Self { failed, remove, update, bind, up_to_date } = self;
        let need_roll = [&failed, &remove, &update, &bind].iter().any(|rows| !rows.is_empty());
        let at_most = |most: usize, rows: &[&Row]| most.min(rows.len());
        let to_remove = usize::try_from(to_remove).unwrap_or(0);
        let (removed, _) = remove.split_at(at_most(to_remove, &remove));
        let (updated, stale) = update.split_at(at_most(to_remove - removed.len(), &update));
        let (bound, unbound) = bind.split_at(at_most(usize::try_from(to_add).unwrap_or(0), &bind));
        Round {
            update: names(&[&failed, removed, updated, bound].concat()),
            blocked: names(&[stale, unbound].concat()),
            up_to_date: names(&up_to_date),
            need_roll,
            wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use federate_kubernetes::condition::Condition;
    use serde_json::{Value, json};

    fn round(policy: &Value, rolling: &Value, rows: &[Row]) -> Next {
        let body = json!({"spec": {"policy": policy, "strategy": {"rollingUpdate": rolling}}});
        let placement =
            Object::named("placement.kubernetes-fleet.io/v1", "ClusterResourcePlacement", "p", body);
        next(&placement, rows, "2026-11-20T12:00:00Z".parse().unwrap(), &Behaviour::newest()).unwrap()
    }

    fn row(cluster: &str, state: State, resources: Resources) -> Row {
        let available = Condition {
            kind: "Available".into(),
            status: "True".into(),
            reason: "AllWorkAreAvailable".into(),
            message: String::new(),
            observed_generation: 1,
            last_transition_time: Some("2026-11-20T11:59:00Z".parse().unwrap()),
        };
        let conditions = if state == State::Scheduled { Vec::new() } else { vec![available] };
        Row { cluster: cluster.into(), state, resources, deleting: false, generation: 1, conditions }
    }

    fn updated(next: Next) -> Vec<ClusterName> {
        let Next::Round(round) = next else { panic!("{next:?}") };
        round.update
    }

    #[test]
    fn stale_clusters_are_updated_one_by_one_where_a_quarter_may_be_unavailable() {
        let stale = |names: &[&str]| -> Vec<Row> {
            names.iter().map(|n| row(n, State::Bound, Resources::Old)).collect()
        };
        let pick = |number: i64| json!({"placementType": "PickN", "numberOfClusters": number});
        assert_eq!(updated(round(&pick(4), &json!(null), &stale(&["a", "b", "c", "d"]))), ["a".into()]);
        assert_eq!(updated(round(&pick(2), &json!(null), &stale(&["a", "b"]))), ["a".into()]);
    }

    #[test]
    fn new_clusters_are_bound_first_when_too_few_are_ready() {
        let stale = (0..6).map(|i| row(&format!("a{i}"), State::Bound, Resources::Old));
        let new = (0..4).map(|i| row(&format!("b{i}"), State::Scheduled, Resources::Old));
        let next = round(&json!(null), &json!(null), &stale.chain(new).collect::<Vec<_>>());
        assert_eq!(updated(next), ["b0", "b1", "b2", "b3"].map(Into::into));
    }

    #[test]
    fn what_must_wait_is_told_stale_clusters_first() {
        let mut rows = vec![
            row("a", State::Scheduled, Resources::Old),
            row("b", State::Bound, Resources::Old),
            row("c", State::Bound, Resources::Latest),
            row("d", State::Bound, Resources::Latest),
        ];
        rows[3].deleting = true;
        let three = json!({"placementType": "PickN", "numberOfClusters": 3});
        let still = json!({"maxUnavailable": 0, "maxSurge": 0});
        let Next::Round(round) = round(&three, &still, &rows) else { panic!("a round") };
        assert_eq!(round.blocked, ["b".into(), "a".into()]);
        assert_eq!((round.update, round.up_to_date), (Vec::new(), vec!["c".into()]));
    }

    #[test]
    fn what_cannot_tell_is_waited_for() {
        let mut untrackable = row("a", State::Bound, Resources::Latest);
        untrackable.conditions[0].reason = "WorkNotTrackable".into();
        let wait = |period: i64| {
            let rows = vec![untrackable.clone(), row("b", State::Bound, Resources::Old)];
            match round(&json!(null), &json!({"unavailablePeriodSeconds": period}), &rows) {
                Next::Round(round) => (round.wait.as_secs(), round.update.len()),
                Next::Cleanup => panic!("nothing is being deleted"),
            }
        };
        assert_eq!([wait(59), wait(60), wait(90)], [(0, 1), (0, 0), (30, 0)]);
    }

    #[test]
    fn what_is_still_becoming_available_failed_in_older_releases() {
        let mut pending = row("a", State::Bound, Resources::Old);
        pending.conditions[0].status = "False".into();
        pending.conditions[0].reason = "ResourceNotAvailableYet".into();
        let still = json!({"policy": {"placementType": "PickN", "numberOfClusters": 1},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}});
        let body = json!({"spec": still});
        let placement =
            Object::named("placement.kubernetes-fleet.io/v1", "ClusterResourcePlacement", "p", body);
        for (release, at_once) in [("0.3", true), ("azure", false), ("main", false)] {
            let behaviour = Behaviour::of(crate::RELEASES.read(release).unwrap());
            let now = "2026-11-20T12:00:00Z".parse().unwrap();
            let next = next(&placement, std::slice::from_ref(&pending), now, &behaviour).unwrap();
            assert_eq!(updated(next).len(), usize::from(at_once), "{release}");
        }
    }

    #[test]
    fn a_row_being_deleted_is_waited_for() {
        let mut deleting = row("a", State::Unscheduled, Resources::Old);
        deleting.deleting = true;
        let rows = vec![deleting, row("a", State::Scheduled, Resources::Old)];
        assert_eq!(round(&json!(null), &json!(null), &rows), Next::Cleanup);
    }
}
