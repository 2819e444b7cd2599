//! The selection: which of the scored clusters are chosen, in which order.
//!
//! Facts: if a priority is set, or clusters are filled one after the other, the priority replaces the score.
//! Names break ties.

use std::cmp::Reverse;

use super::super::effective_policy::EffectivePolicy;
use super::super::profile::SelectPlugin;
use super::JoinedCluster;

/// The chosen clusters, best first, with the score that counted; or why selection fails.
pub(super) fn select_clusters<'m, 'a>(
    plugins: &[SelectPlugin],
    wanted: &EffectivePolicy<'_>,
    feasible: &[&'m JoinedCluster<'a>],
    scores: Vec<i64>,
) -> Result<Vec<(&'m JoinedCluster<'a>, i64)>, String> {
    let mut chosen: Vec<(&JoinedCluster<'a>, i64)> = feasible.iter().copied().zip(scores).collect();
    for plugin in plugins {
        match plugin {
            SelectPlugin::Priority => {
                let priorities = wanted.cluster_priorities();
                if priorities.priorities || (wanted.divide && wanted.binpack) {
                    for (member, score) in &mut chosen {
                        *score = priorities.priority[member.index].unwrap_or(0);
                    }
                }
                // Members are in name order, and the sort is stable.
                chosen.sort_by_key(|(member, score)| (Reverse(*score), member.index));
            }
            SelectPlugin::MaxCluster => {
                chosen.sort_by_key(|(_, score)| Reverse(*score));
                if let Some(max) = wanted.max_clusters {
                    let max = usize::try_from(max).map_err(|_| format!("maxClusters is {max}"))?;
                    chosen.truncate(max);
                }
            }
        }
    }
    Ok(chosen)
}
