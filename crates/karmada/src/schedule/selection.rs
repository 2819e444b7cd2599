//! Chooses among the clusters that pass the filters: spread constraints.
//!
//! Facts: static weights ignore the constraints; a `region` constraint picks regions first, else a
//! `cluster` constraint picks clusters; `zone` and `provider` only filter.

use super::region::{self, group_count, none_is_an_error};
use super::{Candidate, DivisionStrategy, Scheduling, SchedulingFailure, SchedulingTrace};
use crate::api::{KarmadaPlacement, KarmadaSpreadConstraint};

/// Chooses among `candidates`, which are in candidate order.
pub(super) fn select_clusters(
    scheduling: &Scheduling<'_>,
    candidates: Vec<Candidate>,
    trace: &mut SchedulingTrace,
) -> Result<Vec<Candidate>, SchedulingFailure> {
    let placement = scheduling.placement;
    let constraints = &placement.spread_constraints;
    if constraints.is_empty() || ignores_constraints(placement, scheduling.strategy) {
        return Ok(candidates);
    }
    let by = |field: &str| constraints.iter().find(|c| c.spread_by_field == field);
    if let Some(regions) = by("region") {
        return region::select_by_region(scheduling, regions, by("cluster"), candidates, trace);
    }
    match by("cluster") {
        Some(constraint) => by_cluster(scheduling, constraint, candidates, trace),
        None => Err(SchedulingFailure::scheduler_error(
            "the spread constraints name neither `cluster` nor `region`, and nothing else can be spread by",
        )),
    }
}

/// A weight preference with neither list nor dynamic weight divides equally, yet keeps its constraints.
fn ignores_constraints(placement: &KarmadaPlacement, strategy: DivisionStrategy) -> bool {
    let preference = placement.replica_scheduling.as_ref().and_then(|r| r.weight_preference.as_ref());
    strategy == DivisionStrategy::Static && preference.is_none_or(|w| !w.static_weight_list.is_empty())
}

fn by_cluster(
    scheduling: &Scheduling<'_>,
    constraint: &KarmadaSpreadConstraint,
    mut candidates: Vec<Candidate>,
    trace: &mut SchedulingTrace,
) -> Result<Vec<Candidate>, SchedulingFailure> {
    let (fit, least) = (candidates.len(), group_count(constraint.min_groups));
    if fit < least {
        return Err(SchedulingFailure::scheduler_error(format!(
            "{fit} clusters are feasible, but the spread constraint asks for at least {least}"
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
    let available = |chosen: &[Candidate]| chosen.iter().map(|c| c.available).sum::<i64>();
    for i in (0..chosen.len()).rev() {
        if available(&chosen) >= scheduling.subject.workload.replicas {
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
                let name = |c: &Candidate| &scheduling.clusters[c.index].name;
                format!(
                    "`{}` replaces `{}`, because more replicas fit there",
                    name(&rest[at]),
                    name(&chosen[i])
                )
            });
            std::mem::swap(&mut chosen[i], &mut rest[at]);
        }
    }
    let available = available(&chosen);
    if available < scheduling.subject.workload.replicas {
        return Err(SchedulingFailure::scheduler_error(format!(
            "no {} clusters can take {} replicas together: the largest take {available}",
            chosen.len(),
            scheduling.subject.workload.replicas
        )));
    }
    none_is_an_error(chosen)
}
