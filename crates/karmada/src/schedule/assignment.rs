//! How many replicas each chosen cluster gets.
//!
//! Facts: duplicated gives every cluster all; static weights divide all replicas each time; dynamic
//! weights and aggregation keep what was placed and divide only the difference, by the available replicas of
//! clusters, except when a fresh scheduling is requested.

use super::{
    Candidate, DivisionStrategy, Scheduling, SchedulingFailure, SchedulingTrace, UnusedReason, division,
    pdqsort,
};
use crate::version::ScaleDown;
use federate_kubernetes::finding;

/// Replicas by cluster index, in any order.
pub(super) type AssignedReplicas = Vec<(usize, i64)>;

/// A cluster's index and its votes in a division.
type Votes = Vec<(usize, i64)>;

/// Divides the subject's replicas among the chosen clusters; entries of zero are left out.
pub(super) fn assign_replicas(
    scheduling: &Scheduling<'_>,
    chosen: &[Candidate],
    trace: &mut SchedulingTrace,
) -> Result<AssignedReplicas, SchedulingFailure> {
    let replicas = scheduling.subject.workload.replicas;
    let mut assigned = match scheduling.strategy {
        DivisionStrategy::Duplicated => chosen.iter().map(|c| (c.index, replicas)).collect(),
        DivisionStrategy::Static => by_weight(scheduling, chosen, replicas, trace),
        DivisionStrategy::Dynamic | DivisionStrategy::Aggregated => {
            by_available_replicas(scheduling, chosen, replicas, trace)?
        }
    };
    if replicas == 0 {
        trace.add_unused(indices(chosen), UnusedReason::NoReplicas);
    }
    assigned.retain(|(_, replicas)| *replicas != 0);
    Ok(assigned)
}

/// Assigns tier by tier: the clusters of the inline affinity first, then those of each overflow affinity.
pub(super) fn assign_tiers(
    scheduling: &Scheduling<'_>,
    chosen: &[Candidate],
    trace: &mut SchedulingTrace,
) -> Result<AssignedReplicas, SchedulingFailure> {
    let mut left = scheduling.subject.workload.replicas;
    let mut assigned = AssignedReplicas::new();
    let last = chosen.iter().map(|c| c.overflow).max().unwrap_or(0);
    for tier in 0..=last {
        let members: Vec<Candidate> = chosen.iter().copied().filter(|c| c.overflow == tier).collect();
        let room = members.iter().map(|c| c.available).sum();
        let take = left.min(room);
        if take <= 0 {
            let is_full = room <= 0;
            trace.add_unused(
                indices(&members),
                if is_full { UnusedReason::NoRoom } else { UnusedReason::EarlierTier },
            );
            continue;
        }
        trace.add_step(|| match tier {
            0 => format!("its own clusters take {take} of {}", finding::count_replicas(left)),
            _ => format!(
                "overflow affinity {tier} takes {take} of the remaining {}",
                finding::count_replicas(left)
            ),
        });
        assigned.extend(by_available_replicas(scheduling, &members, take, trace)?);
        left -= take;
    }
    if left > 0 {
        return Err(SchedulingFailure::capacity_reason(
            scheduling.behaviour,
            format!(
                "{left} of {} fit neither in its own clusters nor in those of the overflow affinities",
                finding::count_replicas(scheduling.subject.workload.replicas)
            ),
        ));
    }
    assigned.retain(|(_, replicas)| *replicas != 0);
    Ok(assigned)
}

fn indices(candidates: &[Candidate]) -> impl Iterator<Item = usize> {
    candidates.iter().map(|candidate| candidate.index)
}

fn by_available_replicas(
    scheduling: &Scheduling<'_>,
    chosen: &[Candidate],
    replicas: i64,
    trace: &mut SchedulingTrace,
) -> Result<AssignedReplicas, SchedulingFailure> {
    if scheduling.subject.fresh {
        let votes = chosen.iter().map(|c| (c.index, wrap_int32(c.available))).collect();
        return divide_by_available(scheduling, replicas, votes, &[], trace);
    }
    let previous = previous_among(scheduling, chosen);
    let before: i64 = previous.iter().map(|(_, replicas)| replicas).sum();
    if before >= replicas {
        trace.add_unused(indices(chosen), UnusedReason::Placed);
    }
    if before == replicas {
        trace.add_step(|| match replicas {
            1 => "the only replica is placed already, so nothing moves".to_owned(),
            _ => format!("all {replicas} replicas are placed already, so nothing moves"),
        });
        return Ok(previous);
    }
    if before > replicas {
        trace.add_step(|| {
            format!(
                "scaled down from {before} to {}, in proportion to the replicas of each cluster",
                finding::count_replicas(replicas)
            )
        });
        let votes = match scheduling.behaviour.scale_down {
            ScaleDown::Chosen => in_stored_order(scheduling, previous),
            ScaleDown::AllPrevious => all_previous(scheduling),
        };
        return divide_by_available(scheduling, replicas, votes, &[], trace);
    }
    trace.add_steps(|| {
        let stay: Vec<String> = previous
            .iter()
            .map(|(index, kept)| format!("{} {kept}", scheduling.cluster_name(*index)))
            .collect();
        let stay = finding::join_names(&stay.iter().map(String::as_str).collect::<Vec<_>>(), MAX_NAMED);
        (before > 0).then(|| format!("{before} of {} stay: {stay}", finding::count_replicas(replicas)))
    });
    let votes = chosen.iter().map(|c| (c.index, c.allocatable)).collect();
    divide_by_available(scheduling, replicas - before, votes, &previous, trace)
}

/// The previous replicas on the chosen clusters, in name order.
fn previous_among(scheduling: &Scheduling<'_>, chosen: &[Candidate]) -> Votes {
    let mut is_chosen = vec![false; scheduling.clusters.len()];
    for candidate in chosen {
        is_chosen[candidate.index] = true;
    }
    scheduling.subject.previous.iter().filter(|(index, _)| is_chosen[*index]).copied().collect()
}

/// Previous replicas in the order in which the scheduler has listed their clusters.
fn in_stored_order(scheduling: &Scheduling<'_>, previous: Votes) -> Votes {
    if scheduling.subject.order.is_empty() {
        return previous;
    }
    let mut ordered: Votes = Vec::with_capacity(previous.len());
    for index in scheduling.subject.order {
        ordered.extend(previous.binary_search_by_key(index, |(at, _)| *at).ok().map(|at| previous[at]));
    }
    if ordered.len() == previous.len() { ordered } else { previous }
}

/// The previous replicas on all clusters, in name order.
fn all_previous(scheduling: &Scheduling<'_>) -> Votes {
    let departed = scheduling.subject.departed.iter().enumerate();
    let departed = departed.map(|(at, (_, replicas))| (scheduling.clusters.len() + at, *replicas));
    let mut all: Votes = scheduling.subject.previous.iter().copied().chain(departed).collect();
    all.sort_by_key(|(index, _)| scheduling.cluster_name(*index));
    all
}

/// Divides `target` by `votes` and adds the result to `kept`.
fn divide_by_available(
    scheduling: &Scheduling<'_>,
    target: i64,
    mut votes: Votes,
    kept: &[(usize, i64)],
    trace: &mut SchedulingTrace,
) -> Result<AssignedReplicas, SchedulingFailure> {
    let available = wrap_int32(votes.iter().map(|(_, available)| available).sum());
    if available < target {
        return Err(SchedulingFailure::capacity_reason(
            scheduling.behaviour,
            format!(
                "{available} more {} in the {}, {target} are needed",
                if available == 1 { "replica fits" } else { "replicas fit" },
                finding::format_count(votes.len(), "chosen cluster")
            ),
        ));
    }
    let full = votes.iter().filter(|(_, available)| trace.is_recorded() && *available <= 0);
    let full: Vec<usize> = full.map(|(index, _)| *index).collect();
    if scheduling.strategy == DivisionStrategy::Aggregated {
        trace.add_unused(votes.iter().map(|(index, _)| *index), UnusedReason::Aggregated);
        votes = shortest_prefix(votes, kept, target);
        trace.add_step(|| {
            let fit = if target == 1 { "replica fits" } else { "replicas fit" };
            format!("aggregated: {target} {fit} in {} of the clusters", votes.len())
        });
    }
    trace.add_unused(votes.iter().map(|(index, _)| *index), UnusedReason::Available);
    trace.add_unused(full, UnusedReason::NoRoom);
    let mut sums = vec![0; scheduling.clusters.len() + scheduling.subject.departed.len()];
    let shares =
        divide_by_votes(scheduling, target, votes, |index| replicas_of(kept, index), "available", trace);
    for (index, replicas) in shares.iter().chain(kept) {
        sums[*index] += replicas;
    }
    Ok(sums.into_iter().enumerate().collect())
}

/// The largest clusters, those that hold replicas before the others, until the target fits.
fn shortest_prefix(mut votes: Votes, kept: &[(usize, i64)], target: i64) -> Votes {
    pdqsort::sort_by_less(&mut votes, |a, b| a.1 > b.1);
    let (mut ordered, others): (Votes, Votes) =
        votes.into_iter().partition(|(index, _)| replicas_of(kept, *index) > 0);
    ordered.extend(others);
    let mut sum = 0;
    let enough = ordered.iter().position(|(_, available)| {
        sum += available;
        sum >= target
    });
    ordered.truncate(enough.map_or(ordered.len(), |last| last + 1));
    ordered
}

/// The replicas of one cluster; `kept` is sorted by index.
fn replicas_of(kept: &[(usize, i64)], index: usize) -> i64 {
    kept.binary_search_by_key(&index, |(at, _)| *at).map_or(0, |at| kept[at].1)
}

/// Clusters without a weight are left out, unless none has one: then all have the same weight, and previous
/// replicas do not count, unless the policy gives no weights at all.
fn by_weight(
    scheduling: &Scheduling<'_>,
    chosen: &[Candidate],
    replicas: i64,
    trace: &mut SchedulingTrace,
) -> AssignedReplicas {
    let weights = &scheduling.eligibility.weights;
    let weighted = chosen.iter().map(|c| (c.index, weights.get(c.index).copied().unwrap_or(0)));
    let weighted: Votes = weighted.filter(|(_, weight)| *weight > 0).collect();
    let previous = scheduling.subject.previous;
    if !weighted.is_empty() {
        trace.add_unused(indices(chosen), UnusedReason::NoWeight);
        trace.add_unused(weighted.iter().map(|(index, _)| *index), UnusedReason::Weight);
        let last = |index| replicas_of(previous, index);
        return divide_by_votes(scheduling, replicas, weighted, last, "weight", trace);
    }
    let replica_scheduling = scheduling.placement.replica_scheduling.as_ref();
    trace.add_unused(indices(chosen), UnusedReason::Weight);
    let given = replica_scheduling.is_some_and(|scheduling| scheduling.weight_preference.is_some());
    let equal = chosen.iter().map(|c| (c.index, 1)).collect();
    let previous = if given { &[][..] } else { previous };
    divide_by_votes(scheduling, replicas, equal, |index| replicas_of(previous, index), "weight", trace)
}

/// Divides by `votes`; `last` is the number of replicas that a cluster had before.
fn divide_by_votes(
    scheduling: &Scheduling<'_>,
    total: i64,
    mut votes: Votes,
    last: impl Fn(usize) -> i64,
    what: &str,
    trace: &mut SchedulingTrace,
) -> AssignedReplicas {
    // Ties are broken by name. Indices have the same order, except those of clusters that have left.
    if scheduling.subject.departed.is_empty() {
        votes.sort_unstable_by_key(|(index, _)| *index);
    } else {
        votes.sort_unstable_by_key(|(index, _)| scheduling.cluster_name(*index));
    }
    let amounts: Vec<i64> = votes.iter().map(|(_, amount)| *amount).collect();
    let method = scheduling.behaviour.division;
    let descending = scheduling.subject.descending;
    let shares = division::compute_shares(method, total, &amounts, |at| last(votes[at].0), descending);
    trace.add_step(|| {
        let shares = in_words(scheduling, &votes, &shares, what);
        let name = division::method_name(method);
        let by = if what == "weight" { "weight" } else { "available replicas" };
        format!("{} divided by {by} ({name}): {shares}", finding::count_replicas(total))
    });
    trace.add_steps(|| {
        let tied = division::random_parties(method, total, &amounts, |at| last(votes[at].0));
        let names: Vec<&str> =
            tied.into_iter().map(|at| scheduling.cluster_name(votes[at].0).as_ref()).collect();
        let release = scheduling.behaviour.release;
        (names.len() > 1).then(|| {
            format!(
                "Karmada {release} decides by chance which of {} get one more: here the first by name do",
                names.join(", ")
            )
        })
    });
    votes.into_iter().zip(shares).map(|((index, _), share)| (index, share)).collect()
}

/// How many clusters with the same share are named one by one.
const MAX_NAMED: usize = 5;

/// The shares of a division for people: many clusters with the same share are counted, and named in the table of clusters.
fn in_words(scheduling: &Scheduling<'_>, votes: &[(usize, i64)], shares: &[i64], what: &str) -> String {
    let mut groups: Vec<((i64, i64), Vec<usize>)> = Vec::new();
    for ((index, amount), share) in votes.iter().zip(shares) {
        match groups.iter_mut().find(|(key, _)| *key == (*share, *amount)) {
            Some((_, clusters)) => clusters.push(*index),
            None => groups.push(((*share, *amount), vec![*index])),
        }
    }
    let mut parts = Vec::new();
    for ((index, amount), share) in votes.iter().zip(shares) {
        let group = groups.iter().find(|(key, _)| *key == (*share, *amount));
        if group.is_none_or(|(_, clusters)| clusters.len() <= MAX_NAMED) {
            parts.push(format!("{} {share} ({what} {amount})", scheduling.cluster_name(*index)));
        }
    }
    for ((share, amount), clusters) in &groups {
        let number = clusters.len();
        if number > MAX_NAMED {
            parts.push(format!("{number} clusters {share} each ({what} {amount})"));
        }
    }
    parts.join(", ")
}

/// Wraps like the int32 of the real scheduler.
#[expect(clippy::cast_possible_truncation, reason = "wrapping is the rule")]
fn wrap_int32(value: i64) -> i64 {
    i64::from(value as i32)
}
