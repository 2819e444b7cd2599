//! Chooses among the clusters that pass the filters: spread constraints.
//!
//! Facts: static weights ignore the constraints; a `region` constraint picks regions first, else a
//! `cluster` constraint picks clusters; `zone` and `provider` only filter.

use super::region::{self, count, none_is_an_error};
use super::{Candidate, Failure, Round, Strategy, Trace};
use crate::api::{Placement, SpreadConstraint};

/// Chooses among `candidates`, which are in candidate order.
pub(super) fn select(
    round: &Round<'_>,
    candidates: Vec<Candidate>,
    trace: &mut Trace,
) -> Result<Vec<Candidate>, Failure> {
    let placement = round.placement;
    let constraints = &placement.spread_constraints;
    if constraints.is_empty() || ignores_constraints(placement, round.strategy) {
        return Ok(candidates);
    }
    let by = |field: &str| constraints.iter().find(|c| c.spread_by_field == field);
    if let Some(regions) = by("region") {
        return region::select(round, regions, by("cluster"), candidates, trace);
    }
    match by("cluster") {
        Some(constraint) => by_cluster(round, constraint, candidates, trace),
        None => Err(Failure::scheduler(
            "the spread constraints name neither `cluster` nor `region`, and nothing else can be spread by",
        )),
    }
}

/// A weight preference with neither list nor dynamic weight divides equally, yet keeps its constraints.
fn ignores_constraints(placement: &Placement, strategy: Strategy) -> bool {
    let preference = placement.replica_scheduling.as_ref().and_then(|r| r.weight_preference.as_ref());
    strategy == Strategy::Static && preference.is_none_or(|w| !w.static_weight_list.is_empty())
}

fn by_cluster(
    round: &Round<'_>,
    constraint: &SpreadConstraint,
    mut candidates: Vec<Candidate>,
    trace: &mut Trace,
) -> Result<Vec<Candidate>, Failure> {
    let (fit, least) = (candidates.len(), count(constraint.min_groups));
    if fit < least {
        return Err(Failure::scheduler(format!(
            "{fit} clusters are feasible, but the spread constraint asks for at least {least}"
        )));
    }
    let most = fit.min(count(constraint.max_groups));
    trace.step(|| format!("spread by cluster: between {least} and {most} of {fit} eligible clusters"));
    let rest = candidates.split_off(most);
    if round.strategy == Strategy::Duplicated {
        return none_is_an_error(candidates);
    }
    swap_in_larger(round, candidates, rest, trace)
}

/// Replaces the last chosen clusters by larger ones until the available replicas suffice.
fn swap_in_larger(
    round: &Round<'_>,
    mut chosen: Vec<Candidate>,
    mut rest: Vec<Candidate>,
    trace: &mut Trace,
) -> Result<Vec<Candidate>, Failure> {
    let available = |chosen: &[Candidate]| chosen.iter().map(|c| c.available).sum::<i64>();
    for i in (0..chosen.len()).rev() {
        if available(&chosen) >= round.subject.workload.replicas {
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
            trace.step(|| {
                let name = |c: &Candidate| &round.clusters[c.index].name;
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
    if available < round.subject.workload.replicas {
        return Err(Failure::scheduler(format!(
            "no {} clusters can take {} replicas together: the largest take {available}",
            chosen.len(),
            round.subject.workload.replicas
        )));
    }
    none_is_an_error(chosen)
}
