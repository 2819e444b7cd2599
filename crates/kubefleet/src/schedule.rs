//! The scheduling cycle: from the rows that a placement has to the rows that it gets.
//!
//! Facts: a row of the current policy is dropped only when its cluster is gone or fewer clusters are wanted,
//! and never because its cluster has changed. Rows of an earlier policy are obsolete: their clusters are picked
//! again like any other. An error in a policy or property aborts the cycle.

use jiff::Timestamp;

use super::cluster::check_eligibility;
use federate_kubernetes::{Cluster, Taint};

mod eligibility;
mod pick;
mod score;
mod spread;

pub use crate::api::{PlacementPolicy, PlacementType};
pub use crate::cluster::Ineligibility;
pub use crate::failure::SchedulingError;
pub(super) use eligibility::untolerated_taints;
pub use spread::SpreadViolation;

/// One cluster of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Whether resources have been released to it.
    pub state: ScheduleState,
    /// The scores with which it was picked; `None` if it was picked by name.
    pub scores: Option<Scores>,
}

/// Whether resources have been released to a row's cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScheduleState {
    /// They have not.
    Scheduled,
    /// They have.
    Bound,
}

/// The scores of a cluster. Topology comes first because it outranks affinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scores {
    /// By topology spread.
    pub topology: i64,
    /// By preferred affinity.
    pub affinity: i64,
}

/// Why a cluster is not picked.
#[derive(Clone, Debug)]
pub enum Rejection {
    /// It matches none of the required terms.
    Affinity,
    /// No placement may go there.
    Ineligible(Ineligibility),
    /// It does not have the namespace of the placement.
    Namespace(String),
    /// The placement does not tolerate a taint.
    Taint(Taint),
    /// The topology spread constraints that it would violate, of which there is at least one.
    Spread(Vec<SpreadViolation>),
    /// Other clusters score higher.
    Score(Scores),
}

/// The rows of a placement by cluster.
#[derive(Clone, Debug, Default)]
pub struct ScheduleRows {
    /// The rows of the policy.
    pub current: Vec<Option<ScheduleRow>>,
    /// The rows of an earlier policy.
    pub obsolete: Vec<Option<ScheduleRow>>,
    /// The states of rows that are being removed, which they get back if their cluster is picked again.
    pub unscheduled: Vec<Option<ScheduleState>>,
}

impl ScheduleRows {
    /// The state of each cluster's row once it is picked.
    fn states_if_picked(&self) -> Vec<ScheduleState> {
        let states = self.obsolete.iter().enumerate().map(|(index, obsolete)| {
            let unscheduled = self.unscheduled.get(index).copied().flatten();
            obsolete.map(|row| row.state).or(unscheduled).unwrap_or(ScheduleState::Scheduled)
        });
        states.collect()
    }

    fn count_rows(rows: &[Option<ScheduleRow>]) -> usize {
        rows.iter().flatten().count()
    }
}

/// A scheduling request: the policy and the fleet.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleRequest<'p> {
    /// The policy.
    pub policy: &'p PlacementPolicy,
    /// The namespace of a `ResourcePlacement`.
    pub namespace: Option<&'p str>,
    /// The fleet, sorted by name.
    pub clusters: &'p [Cluster],
    /// The time, if it is known. Without it, ages do not count.
    pub now: Option<Timestamp>,
}

/// The outcome of a scheduling cycle.
#[derive(Debug, Default)]
pub struct ScheduleOutcome {
    /// By cluster.
    pub rows: Vec<Option<ScheduleRow>>,
    /// Why clusters were not picked, by cluster; also `None` for clusters that were not considered.
    pub rejected: Vec<Option<Rejection>>,
    /// Names without a cluster.
    pub missing: Vec<String>,
    /// Whether the policy got all the clusters that it asks for.
    pub fulfilled: bool,
}

/// Schedules a placement.
pub(super) fn schedule_placement(
    request: &ScheduleRequest<'_>,
    rows: ScheduleRows,
) -> Result<ScheduleOutcome, SchedulingError> {
    match request.policy.placement_type {
        PlacementType::PickAll => pick_all(request, rows),
        PlacementType::PickN => pick::pick_n(request, rows),
        PlacementType::PickFixed => Ok(pick_fixed(request, rows)),
    }
}

/// Runs one scheduling cycle, and returns whether another one follows at once: with spread constraints a cycle
/// picks one cluster. A plan runs all of them (`schedule_placement`).
pub fn run_cycle(
    request: &ScheduleRequest<'_>,
    rows: ScheduleRows,
) -> Result<(ScheduleOutcome, bool), SchedulingError> {
    match request.policy.placement_type {
        PlacementType::PickN => pick::run_cycle(request, rows),
        PlacementType::PickAll | PlacementType::PickFixed => Ok((schedule_placement(request, rows)?, false)),
    }
}

fn pick_all(request: &ScheduleRequest<'_>, rows: ScheduleRows) -> Result<ScheduleOutcome, SchedulingError> {
    let ScheduleRequest { policy, namespace, clusters, now } = *request;
    let mut rejected = eligibility::filter_clusters(policy, namespace, clusters, now)?;
    let states = rows.states_if_picked();
    let mut current = rows.current;
    for ((row, state), refusal) in current.iter_mut().zip(states).zip(&mut rejected) {
        if row.is_some() {
            *refusal = None;
        } else if refusal.is_none() {
            *row = Some(ScheduleRow { state, scores: Some(Scores::default()) });
        }
    }
    Ok(ScheduleOutcome { rows: current, rejected, missing: Vec::new(), fulfilled: true })
}

/// Picks clusters by name. They only have to be eligible. Without names, nothing is done: obsolete rows stay, too.
fn pick_fixed(request: &ScheduleRequest<'_>, rows: ScheduleRows) -> ScheduleOutcome {
    let ScheduleRequest { policy, clusters, now, .. } = *request;
    if policy.cluster_names.is_empty() {
        let rows =
            rows.current.into_iter().zip(rows.obsolete).map(|(current, obsolete)| current.or(obsolete));
        let rejected = vec![None; clusters.len()];
        return ScheduleOutcome {
            rows: rows.collect(),
            rejected,
            fulfilled: true,
            ..ScheduleOutcome::default()
        };
    }
    let states = rows.states_if_picked();
    let mut outcome = ScheduleOutcome {
        rejected: vec![None; clusters.len()],
        rows: rows.current,
        ..ScheduleOutcome::default()
    };
    for name in &policy.cluster_names {
        let Ok(index) = clusters.binary_search_by(|c| c.name.as_ref().cmp(name)) else {
            outcome.missing.push(name.clone());
            continue;
        };
        let (Some(row), Some(refusal)) = (outcome.rows.get_mut(index), outcome.rejected.get_mut(index))
        else {
            continue;
        };
        match clusters.get(index).and_then(|c| check_eligibility(c, now)) {
            Some(why) => *refusal = Some(Rejection::Ineligible(why)),
            None if row.is_none() => {
                let state = states.get(index).copied().unwrap_or(ScheduleState::Scheduled);
                *row = Some(ScheduleRow { state, scores: None });
            }
            None => {}
        }
    }
    outcome.fulfilled = outcome.missing.is_empty() && outcome.rejected.iter().all(Option::is_none);
    outcome
}
