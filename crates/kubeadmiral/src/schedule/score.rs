//! The scores: the sum over plugins, for every cluster that passed the filters.

use super::super::affinity;
use super::super::effective_policy::EffectivePolicy;
use super::super::profile::Score;
use super::{Member, Subject};

/// The greatest score of a plugin.
const MOST: i64 = 100;

/// The sum of the plugins' scores, by cluster; or why scoring fails.
pub(super) fn scores(
    plugins: &[Score],
    subject: &Subject<'_>,
    wanted: &EffectivePolicy<'_>,
    feasible: &[&Member<'_>],
) -> Result<Vec<i64>, String> {
    let mut sums = vec![0; feasible.len()];
    for plugin in plugins {
        let scores: Vec<i64> = match plugin {
            Score::TaintToleration => least_tainted(wanted, feasible),
            Score::Balanced => feasible.iter().map(|m| m.balanced(subject.gpu)).collect(),
            Score::Least => feasible.iter().map(|m| m.least(subject.gpu)).collect(),
            Score::Most => feasible.iter().map(|m| m.stats.most(subject.gpu)).collect(),
            Score::Affinity => preferred(wanted, feasible)?,
        };
        for (sum, score) in sums.iter_mut().zip(scores) {
            *sum += score;
        }
    }
    Ok(sums)
}

/// The score by untolerated `PreferNoSchedule` taints: the fewer, the better.
fn least_tainted(wanted: &EffectivePolicy<'_>, feasible: &[&Member<'_>]) -> Vec<i64> {
    let soft = |effect: &str| effect.is_empty() || effect == "PreferNoSchedule";
    let count = |member: &&Member<'_>| {
        let taints = member.cluster.taints.iter().filter(|t| t.effect == "PreferNoSchedule");
        let tolerations = || wanted.tolerations.iter().filter(|t| soft(&t.effect));
        taints.filter(|taint| !affinity::tolerated(tolerations(), taint)).count()
    };
    let counts: Vec<i64> = feasible.iter().map(|m| i64::try_from(count(m)).unwrap_or(i64::MAX)).collect();
    match counts.iter().copied().max().unwrap_or(0) {
        0 => vec![MOST; counts.len()],
        max => counts.into_iter().map(|count| MOST - MOST * count / max).collect(),
    }
}

/// The sum of the weights of matching preferred terms, in percent of the greatest sum.
fn preferred(wanted: &EffectivePolicy<'_>, feasible: &[&Member<'_>]) -> Result<Vec<i64>, String> {
    let counting = || wanted.preferred.iter().filter(|p| p.weight != 0);
    for requirement in counting().flat_map(|p| &p.preference.match_expressions) {
        affinity::well_formed(requirement).map_err(|e| format!("a preferred term is malformed: {}", e.0))?;
    }
    let sum = |member: &&Member<'_>| -> i64 {
        let matching = counting()
            .filter(|p| affinity::all_hold(&p.preference.match_expressions, &member.cluster.labels));
        matching.map(|p| i64::from(p.weight)).sum()
    };
    let sums: Vec<i64> = feasible.iter().map(sum).collect();
    match sums.iter().copied().max().unwrap_or(0) {
        0 => Ok(sums),
        max => Ok(sums.into_iter().map(|sum| MOST * sum / max).collect()),
    }
}
