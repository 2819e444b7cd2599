//! Counts the replicas that no longer run in their cluster, and those that run in other clusters instead.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::variation::{OncePerPair, PlanVariation};
use super::{Baseline, scaling};
use federate_dialect::{HUB, Placement, RowKey};
use federate_engine::replicas::ObjectReplicas;
use federate_kubernetes::{Cluster, ClusterName, ObjectRef, work};
use federate_repo::{Claims as _, Repo, Role};

/// The steps of comparing an object in two states, and of a cluster of it.
const STEPS_PER_ROW: u64 = 10;
const STEPS_PER_CLUSTER: u64 = 6;

/// The repo, the inventory and the plan at one time of a scenario.
#[derive(Clone, Copy)]
pub(super) struct ScenarioState<'s> {
    pub(super) repo: &'s Repo,
    pub(super) clusters: &'s [Cluster],
    pub(super) plan: &'s PlanVariation,
    /// The clusters that run nothing, whatever the inventory says.
    pub(super) down: &'s BTreeSet<ClusterName>,
    pub(super) scaled: &'s BTreeSet<ObjectRef>,
    /// The time for heartbeats of clusters.
    pub(super) now: Option<Timestamp>,
}

/// An object that loses or gains replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaLoss {
    /// The object.
    pub object: ObjectRef,
    /// The number of replicas that no longer run in their cluster.
    pub lost: i64,
    /// The number of lost replicas that run in other clusters instead.
    pub regained: i64,
    /// The number of replicas that run in addition to those before, such as those of a scaled workload.
    pub added: i64,
    /// The number of replicas that still run.
    pub left: i64,
    /// Whether it ran in some cluster, and runs in none now.
    pub nowhere: bool,
}

impl ReplicaLoss {
    /// The number of replicas that are lost and not regained.
    pub fn missing_replicas(&self) -> i64 {
        self.lost.saturating_sub(self.regained).max(0)
    }
}

/// What runs of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningObject {
    /// The object.
    pub object: ObjectRef,
    /// Whether a policy places it.
    pub is_placed: bool,
    /// The number of clusters that run it.
    pub clusters: usize,
    /// Whether it has replicas.
    pub has_replicas: bool,
    /// The number of replicas that run.
    pub replicas: i64,
}

impl Baseline<'_> {
    /// What runs before scenarios, sorted by object. Templates that are not placed run nowhere.
    pub fn running_objects(&self) -> Vec<RunningObject> {
        let (none, scaled, plan) =
            (BTreeSet::new(), BTreeSet::new(), PlanVariation::without_changes(self.plan));
        let (repo, clusters, now) = (self.repo, self.clusters, self.now());
        let state = ScenarioState { repo, clusters, plan: &plan, down: &none, scaled: &scaled, now };
        let up = state.running_clusters();
        let mut all: Vec<RunningObject> = Vec::new();
        let is_policy = |object: &ObjectRef| {
            let role = self.dialects.role_of_kind(&object.api_version, &object.kind);
            role.is_some_and(|(_, role)| role == Role::Placement)
        };
        for row in self.plan.placements.iter().filter(|row| !is_policy(&row.object)) {
            let known = self.object_replicas(&self.row_key(&row.object));
            let runs = |name: &str| name == HUB || up.contains(name);
            let placed: Vec<_> = row.clusters.iter().filter(|placed| runs(&placed.name)).collect();
            let replicas = placed.iter().map(|placed| known.count_in(placed)).sum();
            let has_replicas =
                known.stated.is_some() || placed.iter().any(|placed| placed.replicas.is_some());
            let (object, clusters) = (row.object.clone(), placed.len());
            all.push(RunningObject { object, is_placed: true, clusters, has_replicas, replicas });
        }
        all.extend(self.plan.unmatched.iter().map(|object| {
            let object = object.clone();
            RunningObject { object, is_placed: false, clusters: 0, has_replicas: false, replicas: 0 }
        }));
        all.sort_by(|a, b| a.object.cmp(&b.object));
        all
    }
}

/// The difference between the replicas of an object in two states.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicaDifference {
    pub(super) lost: i64,
    /// The replicas that run where they did not run before, whether or not others were lost.
    pub(super) gained: i64,
    left: i64,
    nowhere: bool,
}

impl ReplicaDifference {
    fn from_replicas(ran: &[(&str, i64)], runs: &[(&str, i64)]) -> Self {
        let more = |these: &[(&str, i64)], those: &[(&str, i64)]| -> i64 {
            let other = |name| those.binary_search_by(|(other, _)| (*other).cmp(name)).ok();
            let other = |name| other(name).and_then(|at| those.get(at)).map_or(0, |(_, n)| *n);
            these.iter().map(|(name, n)| n.saturating_sub(other(name)).max(0)).sum()
        };
        Self {
            lost: more(ran, runs),
            gained: more(runs, ran),
            left: runs.iter().map(|(_, replicas)| replicas).sum(),
            nowhere: runs.is_empty() && !ran.is_empty(),
        }
    }

    fn is_none(&self) -> bool {
        self.lost == 0 && self.gained == 0 && !self.nowhere
    }

    /// As the loss of an object.
    pub(super) fn into_loss(self, object: &ObjectRef) -> ReplicaLoss {
        let Self { lost, gained, left, nowhere } = self;
        let regained = gained.min(lost);
        ReplicaLoss { object: object.clone(), lost, regained, added: gained - regained, left, nowhere }
    }
}

/// Returns the objects whose replicas differ between two states, with the difference. `keys` are those whose rows may
/// differ.
pub(super) fn find_differences(
    baseline: &Baseline<'_>,
    before: &ScenarioState<'_>,
    after: &ScenarioState<'_>,
    mut keys: Vec<RowKey>,
) -> Vec<(RowKey, ReplicaDifference)> {
    let (was_up, is_up) = (before.running_clusters(), after.running_clusters());
    keys.extend(before.scaled.symmetric_difference(after.scaled).map(|object| baseline.row_key(object)));
    let switched: Vec<&str> = was_up.symmetric_difference(&is_up).copied().collect();
    keys.extend(baseline.rows_on(switched.iter().copied()));
    if !switched.is_empty() {
        // Rows that differ from the plan in both states may be on these clusters, too.
        keys.extend(before.plan.rows.keys().cloned());
    }
    keys.sort();
    keys.dedup();
    let mut known = OncePerPair::default();
    keys.into_iter()
        .take_while(|_| !work::is_exceeded())
        .filter_map(|key| {
            work::charge_steps(STEPS_PER_ROW);
            let pair = [before.plan.find_row(baseline, &key), after.plan.find_row(baseline, &key)];
            let [old, new] = pair;
            let replicas = [before.object_replicas(baseline, &key), after.object_replicas(baseline, &key)];
            let mut difference = *known.get_or_compute(pair, replicas.clone(), || {
                let [had, has] = &replicas;
                let clusters = pair.into_iter().flatten().map(|row| row.clusters.len()).sum::<usize>();
                work::charge_steps(STEPS_PER_CLUSTER * clusters as u64);
                ReplicaDifference::from_replicas(
                    &running_replicas(old, had, &was_up),
                    &running_replicas(new, has, &is_up),
                )
            });
            // A workload that is scaled to 0 runs nowhere because that is asked for.
            let is_scaled = || baseline.find_object(&key).is_some_and(|object| after.scaled.contains(object));
            let stopped = difference.lost > 0 && difference.left == 0;
            difference.nowhere |= stopped && !is_scaled();
            (!difference.is_none()).then_some((key, difference))
        })
        .collect()
}

/// The replicas of a row in the clusters that run them, sorted by cluster.
fn running_replicas<'p>(
    row: Option<&'p Arc<Placement>>,
    replicas: &ObjectReplicas,
    up: &HashSet<&str>,
) -> Vec<(&'p str, i64)> {
    let runs = |cluster: &str| cluster == HUB || up.contains(cluster);
    let placed = row.into_iter().flat_map(|row| &row.clusters).filter(|placed| runs(&placed.name));
    placed.map(|placed| (placed.name.as_ref(), replicas.count_in(placed))).collect()
}

impl<'s> ScenarioState<'s> {
    /// The clusters that run their replicas.
    fn running_clusters(&self) -> HashSet<&'s str> {
        let up =
            self.clusters.iter().filter(|c| !self.down.contains(&c.name) && c.not_ready(self.now).is_none());
        up.map(|c| c.name.as_ref()).collect()
    }

    /// What an object has of replicas in this state.
    pub(super) fn object_replicas<'b>(
        &self,
        baseline: &'b Baseline<'_>,
        key: &RowKey,
    ) -> Cow<'b, ObjectReplicas> {
        let known = baseline.object_replicas(key);
        match baseline.find_object(key).filter(|object| self.scaled.contains(*object)) {
            Some(scaled) => {
                let stated = scaling::stated_replicas(baseline.dialects, self.repo, scaled);
                Cow::Owned(ObjectReplicas { stated, own: known.own.clone() })
            }
            None => known,
        }
    }
}
