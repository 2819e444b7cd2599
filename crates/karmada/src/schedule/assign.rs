//! How many replicas each chosen cluster gets.
//!
//! Facts: duplicated gives every cluster all; static weights divide afresh each time; dynamic weights
//! and aggregation keep what was placed and divide only the difference, by the room that clusters
//! have, except when a fresh scheduling was asked for.

use super::{Candidate, Failure, Round, Strategy, Trace, pdqsort, webster};

/// Replicas by cluster index, in any order.
pub(super) type Assigned = Vec<(usize, i64)>;

/// A cluster's index and its votes in a division.
type Votes = Vec<(usize, i64)>;

/// Divides the subject's replicas among the chosen clusters; entries of zero are left out.
pub(super) fn assign(
    round: &Round<'_>,
    chosen: &[Candidate],
    trace: &mut Trace,
) -> Result<Assigned, Failure> {
    let replicas = round.subject.workload.replicas;
    let mut assigned = match round.strategy {
        Strategy::Duplicated => chosen.iter().map(|c| (c.index, replicas)).collect(),
        Strategy::Static => divide(round, replicas, weights(round, chosen), "weight", trace),
        Strategy::Dynamic | Strategy::Aggregated => by_room(round, chosen, replicas, trace)?,
    };
    assigned.retain(|(_, replicas)| *replicas != 0);
    Ok(assigned)
}

/// Tier by tier: the clusters of the inline affinity first, then those of each overflow affinity.
pub(super) fn assign_tiers(
    round: &Round<'_>,
    chosen: &[Candidate],
    trace: &mut Trace,
) -> Result<Assigned, Failure> {
    let mut left = round.subject.workload.replicas;
    let mut assigned = Assigned::new();
    let last = chosen.iter().map(|c| c.overflow).max().unwrap_or(0);
    for tier in 0..=last {
        let members: Vec<Candidate> = chosen.iter().copied().filter(|c| c.overflow == tier).collect();
        let take = left.min(members.iter().map(|c| c.available).sum());
        if take <= 0 {
            continue;
        }
        trace.step(|| format!("tier {tier}: {take} of the {left} replicas left"));
        assigned.extend(by_room(round, &members, take, trace)?);
        left -= take;
    }
    if left > 0 {
        return Err(Failure::unschedulable(format!(
            "{left} of {} replicas find no room in any tier",
            round.subject.workload.replicas
        )));
    }
    assigned.retain(|(_, replicas)| *replicas != 0);
    Ok(assigned)
}

fn by_room(
    round: &Round<'_>,
    chosen: &[Candidate],
    replicas: i64,
    trace: &mut Trace,
) -> Result<Assigned, Failure> {
    if round.subject.fresh {
        let votes = chosen.iter().map(|c| (c.index, wrap(c.available))).collect();
        return divide_by_room(round, replicas, votes, &[], trace);
    }
    let previous = previous_among(round, chosen);
    let before: i64 = previous.iter().map(|(_, replicas)| replicas).sum();
    if before == replicas {
        trace.step(|| format!("{replicas} replicas are placed already: nothing moves"));
        return Ok(previous);
    }
    if before > replicas {
        trace.step(|| format!("scaling down from {before} to {replicas}, in proportion to what is there"));
        return divide_by_room(round, replicas, previous, &[], trace);
    }
    let votes = chosen.iter().map(|c| (c.index, c.allocatable)).collect();
    divide_by_room(round, replicas - before, votes, &previous, trace)
}

/// What was placed on those of the chosen clusters, in name order.
fn previous_among(round: &Round<'_>, chosen: &[Candidate]) -> Votes {
    let mut is_chosen = vec![false; round.clusters.len()];
    for candidate in chosen {
        is_chosen[candidate.index] = true;
    }
    round.subject.previous.iter().filter(|(index, _)| is_chosen[*index]).copied().collect()
}

/// Divides `target` by `votes` and adds the result to `kept`.
fn divide_by_room(
    round: &Round<'_>,
    target: i64,
    mut votes: Votes,
    kept: &[(usize, i64)],
    trace: &mut Trace,
) -> Result<Assigned, Failure> {
    let room = wrap(votes.iter().map(|(_, room)| room).sum());
    if room < target {
        return Err(Failure::unschedulable(format!(
            "the {} chosen clusters have room for {room} more replicas, {target} are needed",
            votes.len()
        )));
    }
    if round.strategy == Strategy::Aggregated {
        votes = shortest_prefix(votes, kept, target);
        trace.step(|| format!("aggregated: {target} replicas fit on {} clusters", votes.len()));
    }
    let mut sums = vec![0; round.clusters.len()];
    for (index, replicas) in divide(round, target, votes, "room", trace).iter().chain(kept) {
        sums[*index] += replicas;
    }
    Ok(sums.into_iter().enumerate().collect())
}

/// The largest clusters, those that hold replicas before the others, until the target fits.
fn shortest_prefix(mut votes: Votes, kept: &[(usize, i64)], target: i64) -> Votes {
    pdqsort::sort(&mut votes, |a, b| a.1 > b.1);
    let holds = |index| kept.binary_search_by_key(&index, |(at, _)| *at).is_ok_and(|at| kept[at].1 > 0);
    let (mut ordered, others): (Votes, Votes) = votes.into_iter().partition(|(index, _)| holds(*index));
    ordered.extend(others);
    let mut sum = 0;
    let enough = ordered.iter().position(|(_, room)| {
        sum += room;
        sum >= target
    });
    ordered.truncate(enough.map_or(ordered.len(), |last| last + 1));
    ordered
}

fn divide(round: &Round<'_>, seats: i64, mut votes: Votes, what: &str, trace: &mut Trace) -> Assigned {
    // Indices are in name order, which is the order ties are broken in.
    votes.sort_unstable_by_key(|(index, _)| *index);
    let amounts: Vec<i64> = votes.iter().map(|(_, amount)| *amount).collect();
    let seats_of = webster::divide(seats, &amounts, round.subject.descending);
    trace.step(|| {
        let share = |((index, amount), seats): (&(usize, i64), &i64)| {
            format!("{} {amount} → {seats}", round.clusters[*index].name)
        };
        let shares: Vec<String> = votes.iter().zip(&seats_of).map(share).collect();
        format!("{seats} replicas divided by {what} (Webster's method): {}", shares.join(", "))
    });
    votes.into_iter().zip(seats_of).map(|((index, _), seats)| (index, seats)).collect()
}

/// Clusters without a weight are left out, unless that leaves nothing: then all weigh the same.
fn weights(round: &Round<'_>, chosen: &[Candidate]) -> Votes {
    let weight = |c: &Candidate| round.screen.weights.get(c.index).copied().unwrap_or(0);
    let weighted: Votes =
        chosen.iter().map(|c| (c.index, weight(c))).filter(|(_, weight)| *weight > 0).collect();
    if weighted.is_empty() {
        return chosen.iter().map(|c| (c.index, 1)).collect();
    }
    weighted
}

/// Availability is int32 in the real scheduler, and wraps.
#[expect(clippy::cast_possible_truncation, reason = "wrapping is the rule")]
fn wrap(value: i64) -> i64 {
    i64::from(value as i32)
}
