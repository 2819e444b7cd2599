//! Spreading by region: chooses regions, and clusters in them.
//!
//! Facts: the weight of a region is the number of replicas that its first clusters can take. `combination` chooses
//! the regions by these weights.

use super::combination::{self, RequiredGroups};
use super::{Candidate, DivisionStrategy, Scheduling, SchedulingFailure, SchedulingTrace};
use crate::api::KarmadaSpreadConstraint;
use crate::version::RegionWithoutCapacity;
use federate_kubernetes::finding;

/// A region with its clusters in candidate order.
struct Region<'s> {
    name: &'s str,
    members: Vec<Candidate>,
    weight: i64,
}

pub(super) fn select_by_region(
    scheduling: &Scheduling<'_>,
    regions: &KarmadaSpreadConstraint,
    clusters: Option<&KarmadaSpreadConstraint>,
    candidates: Vec<Candidate>,
    trace: &mut SchedulingTrace,
) -> Result<Vec<Candidate>, SchedulingFailure> {
    let at_least = clusters.map_or(0, |c| group_count(c.min_groups));
    let required = RequiredGroups {
        min: group_count(regions.min_groups),
        max: group_count(regions.max_groups),
        clusters: at_least,
    };
    let at_most = clusters.map_or(0, |c| group_count(c.max_groups));
    let mut groups = group_by_region(scheduling, candidates);
    if groups.len() < required.min {
        return Err(SchedulingFailure::scheduler_error(format!(
            "the spread constraint requires {} regions, and the feasible clusters cover {}",
            required.min,
            groups.len()
        )));
    }
    for region in &mut groups {
        region.weight = weigh_region(scheduling, region, required.min, at_least)?;
        trace.add_step(|| {
            let clusters = finding::format_count(region.members.len(), "cluster");
            format!("region {}: {clusters}, weight {}", region.name, region.weight)
        });
    }
    groups.sort_by(|a, b| (a.members.len(), b.weight, a.name).cmp(&(b.members.len(), a.weight, b.name)));
    let known: Vec<_> = groups
        .iter()
        .map(|g| combination::Region { name: g.name, clusters: g.members.len(), weight: g.weight })
        .collect();
    let found = combination::find_best_combination(&known, required).map_err(|_| {
        SchedulingFailure::scheduler_error(format!(
            "choosing {} to {} of {} regions with at least {at_least} clusters is too large a search: lower `maxGroups`, or the number of clusters",
            required.min,
            required.max,
            groups.len()
        ))
    })?;
    let Some(path) = found else {
        return Err(SchedulingFailure::scheduler_error(format!(
            "no {} to {} regions hold at least {at_least} feasible clusters together",
            required.min, required.max
        )));
    };
    trace.add_step(|| {
        let names: Vec<&str> = path.iter().map(|r| groups[*r].name).collect();
        format!("regions chosen: {}", names.join(", "))
    });
    none_is_an_error(take_clusters(&groups, &path, at_most))
}

fn group_by_region<'s>(scheduling: &Scheduling<'s>, candidates: Vec<Candidate>) -> Vec<Region<'s>> {
    let mut groups: Vec<Region<'s>> = Vec::new();
    for candidate in candidates {
        let name = scheduling.clusters[candidate.index].region.as_str();
        match groups.iter_mut().find(|g| g.name == name) {
            Some(group) => group.members.push(candidate),
            None => groups.push(Region { name, members: vec![candidate], weight: 0 }),
        }
    }
    groups
}

fn weigh_region(
    scheduling: &Scheduling<'_>,
    region: &Region<'_>,
    min_regions: usize,
    min_clusters: usize,
) -> Result<i64, SchedulingFailure> {
    let members = &region.members;
    if scheduling.strategy == DivisionStrategy::Duplicated {
        let weight = weigh_duplicated(scheduling.subject.workload.replicas, members);
        return weight.map_or_else(|| no_available_replicas(scheduling, region), Ok);
    }
    let target = per_region(scheduling.subject.workload.replicas, min_regions);
    let required = min_clusters.max(min_regions);
    let (mut available, mut score, mut taken) = (0i64, 0i64, 0usize);
    for member in members {
        available += member.available;
        score += member.score;
        taken += 1;
        if taken >= required && available >= target {
            break;
        }
    }
    let (counted, by) = if available < target { (available, members.len()) } else { (target, taken) };
    Ok(counted * 1000 + score / as_i64(by).max(1))
}

/// `None` where no cluster has available replicas.
fn weigh_duplicated(replicas: i64, members: &[Candidate]) -> Option<i64> {
    let scores = members.iter().filter(|m| m.available >= replicas).map(|m| m.score);
    let clusters = as_i64(scores.clone().count());
    let score = scores.sum::<i64>().checked_div(clusters)?;
    Some(clusters * 1000 + score)
}

fn no_available_replicas(scheduling: &Scheduling<'_>, region: &Region<'_>) -> Result<i64, SchedulingFailure> {
    match scheduling.behaviour.region_without_capacity {
        RegionWithoutCapacity::ScoresZero => Ok(0),
        RegionWithoutCapacity::Crashes => Err(SchedulingFailure::scheduler_error(format!(
            "the scheduler of Karmada {} crashes: no cluster in region {} can take {}",
            scheduling.behaviour.release,
            region.name,
            finding::count_replicas(scheduling.subject.workload.replicas)
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
fn take_clusters(groups: &[Region<'_>], path: &[usize], at_most: usize) -> Vec<Candidate> {
    let mut chosen = Vec::new();
    let mut pool = Vec::new();
    for region in path {
        let mut members = groups[*region].members.iter().copied();
        chosen.extend(members.next());
        pool.extend(members);
    }
    let more = (chosen.len() + pool.len()).min(at_most).saturating_sub(chosen.len());
    pool.sort_by(Candidate::candidate_order);
    chosen.extend(pool.into_iter().take(more));
    chosen
}

/// Without `maxGroups` at most 0 clusters may be chosen, which the scheduler reports as an error.
pub(super) fn none_is_an_error(chosen: Vec<Candidate>) -> Result<Vec<Candidate>, SchedulingFailure> {
    if chosen.is_empty() {
        return Err(SchedulingFailure::scheduler_error(
            "the spread constraints leave no cluster to choose (a constraint without `maxGroups` allows none)",
        ));
    }
    Ok(chosen)
}

/// A group count, which validation keeps from being negative.
pub(super) fn group_count(groups: i64) -> usize {
    usize::try_from(groups).unwrap_or(0)
}
