//! Counts the replicas that no longer run in their cluster, and those that run in other clusters instead.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::Baseline;
use super::baseline::template_replicas;
use super::variation::{OncePerPair, Variation};
use crate::replicas::ObjectReplicas;
use federate_dialect::{HOST, Placement, RowKey};
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

/// The difference between the replicas of an object in two states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    pub(super) lost: i64,
    pub(super) regained: i64,
    left: i64,
    nowhere: bool,
}

impl Difference {
    fn between(ran: &[(&str, i64)], runs: &[(&str, i64)]) -> Self {
        let more = |these: &[(&str, i64)], those: &[(&str, i64)]| -> i64 {
            let other = |name| those.binary_search_by(|(other, _)| (*other).cmp(name)).ok();
            let other = |name| other(name).and_then(|at| those.get(at)).map_or(0, |(_, n)| *n);
            these.iter().map(|(name, n)| n.saturating_sub(other(name)).max(0)).sum()
        };
        Self {
            lost: more(ran, runs),
            regained: more(runs, ran),
            left: runs.iter().map(|(_, replicas)| replicas).sum(),
            nowhere: runs.is_empty() && !ran.is_empty(),
        }
    }

    fn is_none(&self) -> bool {
        self.lost == 0 && self.regained == 0 && !self.nowhere
    }

    /// As the loss of an object.
    pub(super) fn of(self, object: &ObjectRef) -> Loss {
        let Self { lost, regained, left, nowhere } = self;
        Loss { object: object.clone(), lost, regained, left, nowhere }
    }
}

/// Returns the objects whose replicas differ between two states, with the difference. `keys` are those whose rows may
/// differ.
pub(super) fn differences(
    baseline: &Baseline<'_>,
    before: &State<'_>,
    after: &State<'_>,
    mut keys: Vec<RowKey>,
) -> Vec<(RowKey, Difference)> {
    let (was_up, is_up) = (before.up(), after.up());
    keys.extend(before.scaled.symmetric_difference(after.scaled).map(|object| baseline.key(object)));
    for cluster in was_up.symmetric_difference(&is_up) {
        keys.extend(baseline.on(cluster));
        // Rows that differ from the plan in both states may be on this cluster, too.
        keys.extend(before.plan.rows.keys().cloned());
    }
    // These are several sorted lists, one after the other.
    keys.sort();
    keys.dedup();
    let mut known = OncePerPair::default();
    let mut difference = |key: RowKey| {
        let pair = [before.plan.row(baseline, &key), after.plan.row(baseline, &key)];
        let [old, new] = pair;
        let replicas = [before.replicas(baseline, &key), after.replicas(baseline, &key)];
        let difference = known.of(pair, replicas.clone(), || {
            let [had, has] = &replicas;
            Difference::between(&running(old, had, &was_up), &running(new, has, &is_up))
        });
        (!difference.is_none()).then_some((key, *difference))
    };
    keys.into_iter().filter_map(&mut difference).collect()
}

/// The replicas of a row in the clusters that run them, sorted by cluster.
fn running<'p>(
    row: Option<&'p Arc<Placement>>,
    replicas: &ObjectReplicas,
    up: &HashSet<&str>,
) -> Vec<(&'p str, i64)> {
    let runs = |cluster: &str| cluster == HOST || up.contains(cluster);
    let placed = row.into_iter().flat_map(|row| &row.clusters).filter(|placed| runs(&placed.name));
    placed.map(|placed| (placed.name.as_ref(), replicas.count(placed))).collect()
}

impl<'s> State<'s> {
    /// The clusters that run their replicas.
    fn up(&self) -> HashSet<&'s str> {
        let up = self.clusters.iter().filter(|c| c.ready && !self.down.contains(&c.name));
        up.map(|c| c.name.as_ref()).collect()
    }

    /// What an object has of replicas in this state.
    pub(super) fn replicas<'b>(&self, baseline: &'b Baseline<'_>, key: &RowKey) -> Cow<'b, ObjectReplicas> {
        let known = baseline.replicas(key);
        match baseline.object(key).filter(|object| self.scaled.contains(*object)) {
            Some(scaled) => {
                let own = known.own.clone();
                Cow::Owned(ObjectReplicas { own, ..template_replicas(self.repo, scaled) })
            }
            None => known,
        }
    }
}
