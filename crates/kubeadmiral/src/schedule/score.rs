//! The scores: the sum over plugins, for every cluster that passed the filters.

use super::super::affinity;
use super::super::effective_policy::{EffectivePolicy, PreferredTerm};
use super::super::profile::ScorePlugin;
use super::{JoinedCluster, SchedulingUnit};

/// The greatest score of a plugin.
const MAX_SCORE: i64 = 100;

/// The sum of the plugins' scores, by cluster; or why scoring fails.
pub(super) fn compute_scores(
    plugins: &[ScorePlugin],
    subject: &SchedulingUnit<'_>,
    wanted: &EffectivePolicy<'_>,
    feasible: &[&JoinedCluster<'_>],
) -> Result<Vec<i64>, String> {
    let mut sums = vec![0; feasible.len()];
    for plugin in plugins {
        let scores: Vec<i64> = match plugin {
            ScorePlugin::TaintToleration => score_by_taints(wanted, feasible),
            ScorePlugin::Balanced => feasible.iter().map(|m| m.balanced_score(subject.gpu)).collect(),
            ScorePlugin::Least => feasible.iter().map(|m| m.least_allocated_score(subject.gpu)).collect(),
            ScorePlugin::Most => feasible.iter().map(|m| m.stats.most_allocated_score(subject.gpu)).collect(),
            ScorePlugin::Affinity => score_by_affinity(wanted, feasible)?,
        };
        for (sum, score) in sums.iter_mut().zip(scores) {
            *sum += score;
        }
    }
    Ok(sums)
}

/// The score by untolerated `PreferNoSchedule` taints: the fewer, the better.
fn score_by_taints(wanted: &EffectivePolicy<'_>, feasible: &[&JoinedCluster<'_>]) -> Vec<i64> {
    let mut counts = Vec::with_capacity(feasible.len());
    for member in feasible {
        let taints = member.cluster.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
        let untolerated = taints.filter(|taint| {
            let tolerations = wanted.tolerations.iter();
            let soft = tolerations.filter(|t| t.effect.is_empty() || t.effect == "PreferNoSchedule");
            !affinity::is_tolerated(soft, taint)
        });
        counts.push(i64::try_from(untolerated.count()).unwrap_or(i64::MAX));
    }
    match counts.iter().copied().max().unwrap_or(0) {
        0 => vec![MAX_SCORE; counts.len()],
        max => counts.into_iter().map(|count| MAX_SCORE - MAX_SCORE * count / max).collect(),
    }
}

/// The sum of the weights of matching preferred terms, in percent of the greatest sum.
fn score_by_affinity(
    wanted: &EffectivePolicy<'_>,
    feasible: &[&JoinedCluster<'_>],
) -> Result<Vec<i64>, String> {
    let weighted: Vec<&PreferredTerm> = wanted.preferred.iter().filter(|p| p.weight != 0).collect();
    for requirement in weighted.iter().flat_map(|p| &p.preference.match_expressions) {
        affinity::check_requirement(requirement)
            .map_err(|e| format!("a preferred term is malformed: {}", e.0))?;
    }
    let mut sums: Vec<i64> = Vec::with_capacity(feasible.len());
    for member in feasible {
        let matching = weighted
            .iter()
            .filter(|p| affinity::all_hold(&p.preference.match_expressions, &member.cluster.labels));
        sums.push(matching.map(|p| i64::from(p.weight)).sum());
    }
    match sums.iter().copied().max().unwrap_or(0) {
        0 => Ok(sums),
        max => Ok(sums.into_iter().map(|sum| MAX_SCORE * sum / max).collect()),
    }
}
