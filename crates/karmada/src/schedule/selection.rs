//! Chooses among the clusters that pass the filters: spread constraints.
//!
//! Facts: static weights ignore the constraints; a `region` constraint picks regions first, else a
//! `cluster` constraint picks clusters; `zone` and `provider` only filter.

use super::region::{self, group_count, none_is_an_error};
use super::{Candidate, DivisionStrategy, Scheduling, SchedulingFailure, SchedulingTrace};
use crate::api::{KarmadaPlacement, KarmadaSpreadConstraint};
use federate_kubernetes::finding;

/// Chooses among `candidates`, which are in candidate order.
pub(super) fn select_clusters(
    scheduling: &Scheduling<'_>,
    candidates: Vec<Candidate>,
    trace: &mut SchedulingTrace,
) -> Result<Vec<Candidate>, SchedulingFailure> {
    let placement = scheduling.placement;
    let constraints = &placement.spread_constraints;
    if constraints.is_empty() || ignores_spread_constraints(placement) {
        return Ok(candidates);
    }
    let by_region = constraints.iter().find(|constraint| constraint.spread_by_field == "region");
    let by_cluster = constraints.iter().find(|constraint| constraint.spread_by_field == "cluster");
    if let Some(regions) = by_region {
        return region::select_by_region(scheduling, regions, by_cluster, candidates, trace);
    }
    match by_cluster {
        Some(constraint) => select_by_cluster(scheduling, constraint, candidates, trace),
        None => Err(SchedulingFailure::scheduler_error(
            "the spread constraints name neither `cluster` nor `region`, and nothing else can be spread by",
        )),
    }
}

/// Whether replicas are divided by static weights, for which spread constraints choose no clusters. A weight preference with
/// neither list nor dynamic weight divides equally, yet keeps its constraints.
pub(crate) fn ignores_spread_constraints(placement: &KarmadaPlacement) -> bool {
    let scheduling = placement.replica_scheduling.as_ref();
    let preference = scheduling.and_then(|scheduling| scheduling.weight_preference.as_ref());
    DivisionStrategy::from_scheduling(scheduling) == DivisionStrategy::Static
        && preference.is_none_or(|weights| !weights.static_weight_list.is_empty())
}

fn select_by_cluster(
    scheduling: &Scheduling<'_>,
    constraint: &KarmadaSpreadConstraint,
    mut candidates: Vec<Candidate>,
    trace: &mut SchedulingTrace,
) -> Result<Vec<Candidate>, SchedulingFailure> {
    let (fit, least) = (candidates.len(), group_count(constraint.min_groups));
    if fit < least {
        return Err(SchedulingFailure::scheduler_error(format!(
            "{} feasible, but the spread constraint requires at least {least}",
            finding::count_with_verb(fit, "cluster", ["is", "are"])
        )));
    }
    let most = fit.min(group_count(constraint.max_groups));
    trace.add_step(|| format!("spread by cluster: between {least} and {most} of {fit} eligible clusters"));
    let rest = candidates.split_off(most);
    if scheduling.strategy == DivisionStrategy::Duplicated {
        return none_is_an_error(candidates);
    }
    swap_in_larger(scheduling, candidates, rest, trace)
}

/// Replaces the last chosen clusters by larger ones until the available replicas suffice.
fn swap_in_larger(
    scheduling: &Scheduling<'_>,
    mut chosen: Vec<Candidate>,
    mut rest: Vec<Candidate>,
    trace: &mut SchedulingTrace,
) -> Result<Vec<Candidate>, SchedulingFailure> {
    for i in (0..chosen.len()).rev() {
        if total_available(&chosen) >= scheduling.subject.workload.replicas {
            break;
        }
        let mut largest: Option<usize> = None;
        for (at, candidate) in rest.iter().enumerate() {
            let bar = largest.map_or(chosen[i].available, |at| rest[at].available);
            if candidate.available > bar {
                largest = Some(at);
            }
        }
        if let Some(at) = largest {
            trace.add_step(|| {
                let (larger, smaller) = (rest[at].index, chosen[i].index);
                format!(
                    "`{}` replaces `{}`, because more replicas fit there",
                    scheduling.clusters[larger].name, scheduling.clusters[smaller].name
                )
            });
            std::mem::swap(&mut chosen[i], &mut rest[at]);
        }
    }
    let available = total_available(&chosen);
    if available < scheduling.subject.workload.replicas {
        return Err(SchedulingFailure::scheduler_error(format!(
            "no choice of {} can take {}: the largest can take {available}",
            finding::format_count(chosen.len(), "cluster"),
            finding::count_replicas(scheduling.subject.workload.replicas)
        )));
    }
    none_is_an_error(chosen)
}

fn total_available(chosen: &[Candidate]) -> i64 {
    chosen.iter().map(|candidate| candidate.available).sum()
}
