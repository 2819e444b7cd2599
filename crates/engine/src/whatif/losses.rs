//! Counts the replicas that no longer run in their cluster, and those that run in other clusters instead.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::scale;
use federate_dialect::{HOST, Placement, Plan};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef};
use federate_repo::Repo;

/// A repo and an inventory, with the plan for them.
#[derive(Clone, Copy, Debug)]
pub struct State<'s> {
    /// The repo.
    pub repo: &'s Repo,
    /// The inventory.
    pub clusters: &'s [Cluster],
    /// The plan.
    pub plan: &'s Plan,
    /// The clusters that run nothing, whatever the inventory says.
    pub down: &'s BTreeSet<ClusterName>,
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
pub fn losses(before: &State<'_>, after: &State<'_>) -> Vec<Loss> {
    let (ran, runs) = (before.running(), after.running());
    let none = BTreeMap::new();
    let objects: BTreeSet<&ObjectRef> = ran.keys().chain(runs.keys()).copied().collect();
    let loss = |object: &&ObjectRef| {
        let (ran, runs) = (ran.get(object).unwrap_or(&none), runs.get(object).unwrap_or(&none));
        let more = |these: &BTreeMap<&str, i64>, those: &BTreeMap<&str, i64>| -> i64 {
            these.iter().map(|(name, n)| n.saturating_sub(those.get(name).copied().unwrap_or(0)).max(0)).sum()
        };
        Loss {
            object: (*object).clone(),
            lost: more(ran, runs),
            regained: more(runs, ran),
            left: runs.values().sum(),
            nowhere: runs.is_empty() && !ran.is_empty(),
        }
    };
    let all = objects.iter().map(loss);
    all.filter(|loss| loss.lost > 0 || loss.regained > 0 || loss.nowhere).collect()
}

impl<'s> State<'s> {
    /// The replicas of each object in the clusters that run them.
    fn running(&self) -> BTreeMap<&'s ObjectRef, BTreeMap<&'s str, i64>> {
        let up: BTreeSet<&str> = self
            .clusters
            .iter()
            .filter(|c| c.ready && !self.down.contains(&c.name))
            .map(|c| c.name.as_ref())
            .collect();
        let runs = |cluster: &str| cluster == HOST || up.contains(cluster);
        let row = |row: &'s Placement| {
            let all = self.repo.template(&row.object).and_then(|template| scale::replicas(&template.object));
            let clusters = row.clusters.iter().filter(|placed| runs(&placed.name));
            let share = |replicas: Option<i64>| replicas.or(all).unwrap_or(0);
            (&row.object, clusters.map(|placed| (placed.name.as_ref(), share(placed.replicas))).collect())
        };
        self.plan.placements.iter().filter(|row| !row.clusters.is_empty()).map(row).collect()
    }
}
