//! The decisions of a plan: the queue of the hub, run until another pass changes nothing.
//!
//! Facts: the hub looks at a placement when something changes, and knows only earlier decisions. A plan goes on until all
//! placements, evaluated once more, select the same clusters, so that a run over an unchanged repo says the same. A
//! placement that never settles keeps its earlier clusters as long as they are a choice that the scheduler allows.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_dialect::scheduler_state::compute_digest;
use federate_dialect::{Placed, Placement, PreviousPlan, Unschedulable};
use federate_kubernetes::{ClusterName, ObjectRef, work};

use crate::api::NAME;
use crate::report::PlacementReport;
use crate::schedule::groups::{Grouping, group, record_decisions};
use crate::schedule::queue::{QueueRun, evaluation_limit, run_queue};
use crate::schedule::{Evaluation, Failure, PlacementSubject, Rejection, Skipped};
use crate::state::{Decisions, OcmState};
use crate::{OcmPlanner, failover};

/// The most passes over all placements after the queue is empty.
const MAX_PASSES: usize = 10;

/// The decisions about all placements.
pub(crate) struct HubDecisions {
    /// In the order of the placements.
    pub reports: Vec<PlacementReport>,
    /// The decisions before.
    pub earlier: Decisions,
    /// The indexes of placements that never settle.
    pub unsettled: BTreeSet<usize>,
}

impl HubDecisions {
    /// The report about a placement.
    pub(crate) fn of(&self, plane: &OcmPlanner<'_>, id: &ObjectRef) -> Option<&PlacementReport> {
        self.reports.get(*plane.by_id.get(id)?)
    }
}

/// A digest of the fields of a placement.
fn digest_spec(subject: &PlacementSubject<'_>) -> String {
    compute_digest(subject.object.value_at(&["spec"]).unwrap_or(&Value::Null))
}

/// The placements that never settled before, and have not changed since.
fn read_unsettled(plane: &OcmPlanner<'_>, previous: &PreviousPlan) -> BTreeSet<usize> {
    let is_unsettled = |subject: &PlacementSubject<'_>| {
        let row = previous.find_row(&subject.object.id)?;
        let digest = row.read_scheduler_state::<OcmState>().unsettled?;
        Some(digest == digest_spec(subject))
    };
    let subjects = plane.placements.iter().enumerate();
    subjects.filter(|(_, subject)| is_unsettled(subject) == Some(true)).map(|(at, _)| at).collect()
}

/// Decides about all placements. `in_full` says whether reports have all scores and reasons.
pub(crate) fn decide_placements(
    plane: &OcmPlanner<'_>,
    previous: &PreviousPlan,
    in_full: bool,
) -> HubDecisions {
    let earlier = plane.read_decisions(previous);
    let mut unsettled = read_unsettled(plane, previous);
    // Each turn finds at least one placement that does not settle.
    let run = loop {
        match run_until_stable(plane, earlier.clone(), &unsettled) {
            Ok(run) => break run,
            Err(moving) if moving.is_empty() || work::is_exceeded() => {
                break run_queue(&plane.hub, &plane.placements, [], earlier.clone(), 0);
            }
            Err(moving) => unsettled.extend(moving),
        }
    };
    let reports = plane
        .placements
        .iter()
        .zip(&run.evaluations)
        .map(|(subject, evaluation)| {
            if in_full {
                PlacementReport::in_full(&plane.hub, subject, evaluation.as_ref(), &run.decisions)
            } else {
                PlacementReport::new(subject, evaluation.as_ref(), &run.decisions)
            }
        })
        .collect();
    HubDecisions { reports, earlier, unsettled }
}

/// Runs the queue and then whole passes until one changes nothing. `Err` has the placements that still move.
fn run_until_stable(
    plane: &OcmPlanner<'_>,
    earlier: Decisions,
    unsettled: &BTreeSet<usize>,
) -> Result<QueueRun, BTreeSet<usize>> {
    let limit = evaluation_limit(plane.placements.len());
    let order = || (0..plane.placements.len()).filter(|at| !unsettled.contains(at));
    let mut start = earlier;
    let frozen = freeze(plane, &mut start, unsettled);
    let mut run = run_queue(&plane.hub, &plane.placements, order(), start, limit);
    // Where none looks at others, or there are no others, each has just been evaluated once more.
    let is_alone = plane.placements.len() == 1;
    let reads_others = || plane.placements.iter().any(PlacementSubject::reads_others);
    let mut is_stable = run.settles && (is_alone || !reads_others());
    let mut pass = 0;
    while !is_stable {
        if !run.settles || pass == MAX_PASSES {
            let tail = run.history.iter().rev().take(plane.placements.len());
            return Err(tail.map(|(at, _)| *at).filter(|at| !unsettled.contains(at)).collect());
        }
        let again = run_queue(&plane.hub, &plane.placements, order(), run.decisions.clone(), limit);
        is_stable = again.settles && again.decisions == run.decisions;
        run = again;
        pass += 1;
    }
    for (at, evaluation) in frozen {
        run.evaluations[at] = Some(evaluation);
    }
    Ok(run)
}

/// Decides about placements that never settle, so that they stay in place.
fn freeze(
    plane: &OcmPlanner<'_>,
    decisions: &mut Decisions,
    unsettled: &BTreeSet<usize>,
) -> Vec<(usize, Evaluation)> {
    let mut frozen = Vec::new();
    for &at in unsettled {
        let Some(subject) = plane.placements.get(at) else { continue };
        let before = decisions.of(&subject.key).to_vec();
        let mut run = run_queue(&plane.hub, &plane.placements, [at], decisions.clone(), 1);
        let Some(mut evaluation) = run.evaluations.get_mut(at).and_then(Option::take) else { continue };
        if evaluation.failure.is_none() && is_choice(plane, &evaluation, &before) {
            keep_clusters(plane, at, &mut evaluation, &before);
        } else {
            *decisions = run.decisions;
        }
        frozen.push((at, evaluation));
    }
    frozen
}

/// Whether earlier clusters all pass the filters, and are as many as are selected now.
fn is_choice(plane: &OcmPlanner<'_>, evaluation: &Evaluation, before: &[ClusterName]) -> bool {
    let is_possible = |name: &ClusterName| {
        let rejection = plane.hub.fleet.index(name).and_then(|at| evaluation.rejected.get(at));
        rejection.is_some_and(|why| matches!(why, None | Some(Rejection::NumberOfClusters)))
    };
    before.len() == evaluation.selected && before.iter().all(is_possible)
}

/// Makes an evaluation one that selects the earlier clusters.
fn keep_clusters(plane: &OcmPlanner<'_>, at: usize, evaluation: &mut Evaluation, before: &[ClusterName]) {
    let Some(subject) = plane.placements.get(at) else { return };
    let kept: BTreeSet<usize> = before.iter().filter_map(|name| plane.hub.fleet.index(name)).collect();
    let strategy = &subject.spec.decision_strategy.groups;
    let Grouping { groups, mistake } = group(&plane.hub.fleet, strategy, kept.iter().copied().collect());
    (evaluation.groups, evaluation.group_mistake) = (groups, mistake);
    for (cluster, _) in &evaluation.ranking {
        if let Some(rejection) = evaluation.rejected.get_mut(*cluster) {
            *rejection = (!kept.contains(cluster)).then_some(Rejection::NumberOfClusters);
        }
    }
}

/// The rows of all placements.
pub(crate) fn list_rows(plane: &OcmPlanner<'_>, decisions: &HubDecisions) -> Vec<Placement> {
    let rows = plane.placements.iter().zip(&decisions.reports).enumerate();
    let row = |(at, (subject, report)): (usize, (&PlacementSubject<'_>, &PlacementReport))| {
        let mut row = placement_row(report);
        let state = OcmState {
            unsettled: decisions.unsettled.contains(&at).then(|| digest_spec(subject)),
            expired: failover::keep_expired(plane, subject, &decisions.earlier),
        };
        if state != OcmState::default() {
            row.write_scheduler_state(&state);
        }
        row
    };
    rows.map(row).collect()
}

/// The row of a placement.
pub(crate) fn placement_row(report: &PlacementReport) -> Placement {
    let mut row = Placement::new(NAME, report.object.clone(), Some(report.object.clone()));
    row.clusters = report.clusters.iter().map(|name| Placed { name: name.clone(), replicas: None }).collect();
    row.unschedulable = find_reason(report);
    row
}

/// The `PlacementDecision` objects of a row.
pub(crate) fn record_row(plane: &OcmPlanner<'_>, at: usize, row: &Placement) -> Vec<Value> {
    let Some(subject) = plane.placements.get(at) else { return Vec::new() };
    let names = row.clusters.iter().filter_map(|placed| plane.hub.fleet.index(&placed.name));
    let Grouping { groups, .. } =
        group(&plane.hub.fleet, &subject.spec.decision_strategy.groups, names.collect());
    let records = record_decisions(&row.object.name, &groups);
    records.iter().map(|record| record.manifest(&row.object)).collect()
}

/// Why a placement does not have the clusters that it asks for.
fn find_reason(report: &PlacementReport) -> Option<Unschedulable> {
    let reason = |reason: &str, message: String| Some(Unschedulable { reason: reason.to_owned(), message });
    match (&report.skipped, &report.failure) {
        (Some(Skipped::Disabled), _) => {
            return reason(
                "Disabled",
                "an annotation disables its scheduling: its decisions stay".to_owned(),
            );
        }
        (Some(Skipped::Deleting), _) => {
            return reason("Deleting", "it is being deleted: its decisions stay".to_owned());
        }
        (_, Some(Failure::SyncError(message))) => return reason("SyncError", message.clone()),
        (_, Some(Failure::Expression(one))) => {
            return reason("Expression", format!("an expression is not evaluated: {}", one.what));
        }
        (_, Some(Failure::Panic)) => {
            let message = "`numberOfClusters` is negative: the controller of the hub panics".to_owned();
            return reason("Panic", message);
        }
        _ => {}
    }
    let condition = report.misconfigured().or_else(|| report.unsatisfied())?;
    reason(condition.reason, condition.message.clone())
}
