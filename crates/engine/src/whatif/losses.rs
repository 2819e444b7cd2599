//! Counts the replicas that no longer run in their cluster, and those that run in other clusters instead.

use std::collections::{BTreeSet, HashSet};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::variation::Variation;
use super::{Baseline, scale};
use federate_dialect::HOST;
use federate_kubernetes::{Cluster, ClusterName, ObjectRef};
use federate_repo::Repo;

/// The repo, the inventory and the plan at one time of a scenario.
#[derive(Clone, Copy)]
pub(super) struct State<'s> {
    pub(super) repo: &'s Repo,
    pub(super) clusters: &'s [Cluster],
    pub(super) plan: &'s Variation,
    /// The clusters that run nothing, whatever the inventory says.
    pub(super) down: &'s BTreeSet<ClusterName>,
    pub(super) scaled: &'s BTreeSet<ObjectRef>,
}

/// An object that loses replicas, or has replicas in other clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The object.
    pub object: ObjectRef,
    /// The number of replicas that no longer run in their cluster.
    pub lost: i64,
    /// The number of replicas that run in other clusters instead.
    pub regained: i64,
    /// The number of replicas that still run.
    pub left: i64,
    /// Whether it ran in some cluster, and runs in none now.
    pub nowhere: bool,
}

impl Loss {
    /// The number of replicas that are lost and not regained.
    pub fn missing(&self) -> i64 {
        self.lost.saturating_sub(self.regained).max(0)
    }
}

/// Returns the objects whose replicas differ between two states, with the lost and regained replicas.
pub(super) fn losses(baseline: &Baseline<'_>, before: &State<'_>, after: &State<'_>) -> Vec<Loss> {
    let (was_up, is_up) = (before.up(), after.up());
    let mut objects: Vec<&ObjectRef> = before.plan.differing(after.plan).into_iter().collect();
    objects.extend(before.scaled.symmetric_difference(after.scaled));
    for cluster in was_up.symmetric_difference(&is_up) {
        objects.extend(baseline.on(cluster).map(|row| &row.object));
        // Rows that differ from the plan in both states may be on this cluster, too.
        objects.extend(before.plan.rows.keys());
    }
    // These are several sorted lists, one after the other.
    objects.sort();
    objects.dedup();
    let loss = |object: &&ObjectRef| {
        let ran = before.replicas(baseline, &was_up, object);
        let runs = after.replicas(baseline, &is_up, object);
        let more = |these: &[(&str, i64)], those: &[(&str, i64)]| -> i64 {
            let other = |name| those.binary_search_by(|(other, _)| (*other).cmp(name)).ok();
            let other = |name| other(name).and_then(|at| those.get(at)).map_or(0, |(_, n)| *n);
            these.iter().map(|(name, n)| n.saturating_sub(other(name)).max(0)).sum()
        };
        Loss {
            object: (*object).clone(),
            lost: more(&ran, &runs),
            regained: more(&runs, &ran),
            left: runs.iter().map(|(_, replicas)| replicas).sum(),
            nowhere: runs.is_empty() && !ran.is_empty(),
        }
    };
    let all = objects.par_iter().map(loss);
    all.filter(|loss| loss.lost > 0 || loss.regained > 0 || loss.nowhere).collect()
}

impl<'s> State<'s> {
    /// The clusters that run their replicas.
    fn up(&self) -> HashSet<&'s str> {
        let up = self.clusters.iter().filter(|c| c.ready && !self.down.contains(&c.name));
        up.map(|c| c.name.as_ref()).collect()
    }

    /// The replicas of an object in the clusters that run them, sorted by cluster.
    fn replicas<'a>(
        &'a self,
        baseline: &'a Baseline<'_>,
        up: &HashSet<&str>,
        object: &ObjectRef,
    ) -> Vec<(&'a str, i64)> {
        let Some(row) = self.plan.row(baseline.plan, object) else { return Vec::new() };
        let all = || self.repo.template(object).and_then(|template| scale::replicas(&template.object));
        let all = if row.clusters.iter().all(|placed| placed.replicas.is_some()) { None } else { all() };
        let runs = |cluster: &str| cluster == HOST || up.contains(cluster);
        let placed = row.clusters.iter().filter(|placed| runs(&placed.name));
        placed.map(|placed| (placed.name.as_ref(), placed.replicas.or(all).unwrap_or(0))).collect()
    }
}
