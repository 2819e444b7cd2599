//! The scheduling cycle: from the rows that a placement has to the rows that it gets.
//!
//! Facts: a row of the current policy is dropped only when its cluster is gone or fewer clusters are wanted,
//! and never because its cluster has changed. Rows of an earlier policy are obsolete: their clusters are picked
//! again like any other. An error in a policy or property aborts the cycle.

use jiff::Timestamp;

use super::api::{PlacementPolicy, PlacementType};
use super::cluster::{Ineligibility, check_eligibility};
use crate::failure::SchedulingError;
use federate_kubernetes::{Cluster, Taint};
use spread::SpreadViolation;

mod eligibility;
mod pick;
mod score;
mod spread;

pub(super) use eligibility::untolerated_taints;

/// One cluster of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScheduleRow {
    pub(super) state: ScheduleState,
    /// The scores with which it was picked; `None` if it was picked by name.
    pub(super) scores: Option<Scores>,
}

/// Whether resources have been released to a row's cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScheduleState {
    Scheduled,
    Bound,
}

/// The scores of a cluster. Topology comes first because it outranks affinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scores {
    pub(super) topology: i64,
    pub(super) affinity: i64,
}

/// Why a cluster is not picked.
#[derive(Clone, Debug)]
pub(super) enum Rejection {
    Affinity,
    Ineligible(Ineligibility),
    Namespace(String),
    Taint(Taint),
    /// The topology spread constraints that it would violate, of which there is at least one.
    Spread(Vec<SpreadViolation>),
    /// Other clusters score higher.
    Score(Scores),
}

/// The rows of a placement by cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct ScheduleRows {
    pub(super) current: Vec<Option<ScheduleRow>>,
    /// The rows of an earlier policy.
    pub(super) obsolete: Vec<Option<ScheduleRow>>,
    /// The states of rows that are being removed, which they get back if their cluster is picked again.
    pub(super) unscheduled: Vec<Option<ScheduleState>>,
}

impl ScheduleRows {
    /// Returns no rows, for a fleet of that size.
    pub(super) fn empty_for(clusters: usize) -> Self {
        Self { current: vec![None; clusters], obsolete: vec![None; clusters], ..Self::default() }
    }

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
#[derive(Clone, Copy)]
pub(super) struct ScheduleRequest<'p> {
    pub(super) policy: &'p PlacementPolicy,
    /// The namespace of a `ResourcePlacement`.
    pub(super) namespace: Option<&'p str>,
    pub(super) clusters: &'p [Cluster],
    pub(super) now: Option<Timestamp>,
}

/// The outcome of a scheduling cycle.
#[derive(Debug, Default)]
pub(super) struct ScheduleOutcome {
    /// By cluster.
    pub(super) rows: Vec<Option<ScheduleRow>>,
    /// Why clusters were not picked, by cluster; also `None` for clusters that were not considered.
    pub(super) rejected: Vec<Option<Rejection>>,
    /// Names without a cluster.
    pub(super) missing: Vec<String>,
    /// Whether the policy got all the clusters that it asks for.
    pub(super) fulfilled: bool,
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
/// picks one cluster.
pub(super) fn run_cycle(
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
