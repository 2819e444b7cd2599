//! Spreading by region: chooses regions, and clusters in them.
//!
//! Facts: the weight of a region is the number of replicas that its first clusters can take. `combination` chooses
//! the regions by these weights.

use std::cmp::Reverse;

use super::combination::{self, RequiredGroups};
use super::{Candidate, Failure, Round, Strategy, Trace};
use crate::api::SpreadConstraint;
use crate::version::RegionWithoutCapacity;

/// A region with its clusters in candidate order.
struct Region<'s> {
    name: &'s str,
    members: Vec<Candidate>,
    weight: i64,
}

pub(super) fn select(
    round: &Round<'_>,
    regions: &SpreadConstraint,
    clusters: Option<&SpreadConstraint>,
    candidates: Vec<Candidate>,
    trace: &mut Trace,
) -> Result<Vec<Candidate>, Failure> {
    let at_least = clusters.map_or(0, |c| count(c.min_groups));
    let wanted =
        RequiredGroups { min: count(regions.min_groups), max: count(regions.max_groups), clusters: at_least };
    let at_most = clusters.map_or(0, |c| count(c.max_groups));
    let mut groups = group(round, candidates);
    if groups.len() < wanted.min {
        return Err(Failure::scheduler(format!(
            "the spread constraint requires {} regions, and the feasible clusters cover {}",
            wanted.min,
            groups.len()
        )));
    }
    for region in &mut groups {
        region.weight = weigh(round, region, wanted.min, at_least)?;
        trace.step(|| {
            format!("region {}: {} clusters, weight {}", region.name, region.members.len(), region.weight)
        });
    }
    groups.sort_by(|a, b| {
        let key = |r: &Region<'_>| (r.members.len(), Reverse(r.weight));
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(b.name))
    });
    let known: Vec<_> = groups
        .iter()
        .map(|g| combination::Region { name: g.name, clusters: g.members.len(), weight: g.weight })
        .collect();
    let found = combination::best(&known, wanted).map_err(|_| {
        Failure::scheduler(format!(
            "choosing {} to {} of {} regions with at least {at_least} clusters is too large a search: lower `maxGroups`, or the clusters that are asked for",
            wanted.min,
            wanted.max,
            groups.len()
        ))
    })?;
    let Some(path) = found else {
        return Err(Failure::scheduler(format!(
            "no {} to {} regions hold at least {at_least} feasible clusters together",
            wanted.min, wanted.max
        )));
    };
    trace.step(|| {
        let names: Vec<&str> = path.iter().map(|r| groups[*r].name).collect();
        format!("regions chosen: {}", names.join(", "))
    });
    none_is_an_error(take(&groups, &path, at_most))
}

fn group<'s>(round: &Round<'s>, candidates: Vec<Candidate>) -> Vec<Region<'s>> {
    let mut groups: Vec<Region<'s>> = Vec::new();
    for candidate in candidates {
        let name = round.clusters[candidate.index].region.as_str();
        match groups.iter_mut().find(|g| g.name == name) {
            Some(group) => group.members.push(candidate),
            None => groups.push(Region { name, members: vec![candidate], weight: 0 }),
        }
    }
    groups
}

fn weigh(
    round: &Round<'_>,
    region: &Region<'_>,
    min_regions: usize,
    min_clusters: usize,
) -> Result<i64, Failure> {
    let members = &region.members;
    if round.strategy == Strategy::Duplicated {
        let weight = weigh_duplicated(round.subject.workload.replicas, members);
        return weight.map_or_else(|| no_available_replicas(round, region), Ok);
    }
    let target = per_region(round.subject.workload.replicas, min_regions);
    let wanted = min_clusters.max(min_regions);
    let (mut available, mut score, mut taken) = (0i64, 0i64, 0usize);
    for member in members {
        available += member.available;
        score += member.score;
        taken += 1;
        if taken >= wanted && available >= target {
            break;
        }
    }
    let (counted, by) = if available < target { (available, members.len()) } else { (target, taken) };
    Ok(counted * 1000 + score / as_i64(by).max(1))
}

/// `None` where no cluster has available replicas.
fn weigh_duplicated(replicas: i64, members: &[Candidate]) -> Option<i64> {
    let fitting = || members.iter().filter(|m| m.available >= replicas);
    let clusters = as_i64(fitting().count());
    let score = fitting().map(|m| m.score).sum::<i64>().checked_div(clusters)?;
    Some(clusters * 1000 + score)
}

fn no_available_replicas(round: &Round<'_>, region: &Region<'_>) -> Result<i64, Failure> {
    match round.behaviour.region_without_capacity {
        RegionWithoutCapacity::ScoresZero => Ok(0),
        RegionWithoutCapacity::Crashes => Err(Failure::scheduler(format!(
            "the scheduler of Karmada {} crashes: no cluster in region {} can take {} replicas",
            round.behaviour.release, region.name, round.subject.workload.replicas
        ))),
    }
}

/// The replicas that one of `regions` regions must take, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the rule divides in float64"
)]
fn per_region(replicas: i64, regions: usize) -> i64 {
    (replicas as f64 / regions as f64).ceil() as i64
}

fn as_i64(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The head of every chosen region, then the best of the remaining clusters up to `at_most`.
fn take(groups: &[Region<'_>], path: &[usize], at_most: usize) -> Vec<Candidate> {
    let mut chosen = Vec::new();
    let mut pool = Vec::new();
    for region in path {
        let mut members = groups[*region].members.iter().copied();
        chosen.extend(members.next());
        pool.extend(members);
    }
    let more = (chosen.len() + pool.len()).min(at_most).saturating_sub(chosen.len());
    pool.sort_by(Candidate::order);
    chosen.extend(pool.into_iter().take(more));
    chosen
}

/// Without `maxGroups` at most 0 clusters may be chosen, which the scheduler reports as an error.
pub(super) fn none_is_an_error(chosen: Vec<Candidate>) -> Result<Vec<Candidate>, Failure> {
    if chosen.is_empty() {
        return Err(Failure::scheduler(
            "the spread constraints leave no cluster to choose (a constraint without `maxGroups` allows none)",
        ));
    }
    Ok(chosen)
}

/// A group count, which validation keeps from being negative.
pub(super) fn count(groups: i64) -> usize {
    usize::try_from(groups).unwrap_or(0)
}
