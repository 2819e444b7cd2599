//! Simulates events that have not happened: clusters that are lost, tainted, resized or added, and workloads that are
//! scaled.
//!
//! A [`Scenario`] changes the inventory and the templates. The control planes then decide about the result, with the
//! current plan as the previous one; what a scenario does not touch is decided once, in the [`Baseline`].
//! `losses` counts the replicas that no longer run in their cluster, and those that run in other clusters. A
//! cluster runs its replicas as long as it is in the inventory and ready.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Dialects;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Capacity, Cluster, ObjectRef, Taint};
use federate_repo::Repo;

mod baseline;
mod decided_state;
mod file;
mod free_resources;
mod losses;
mod parse;
mod pods;
mod rollout;
mod scaling;
mod selection;
mod timeline;
mod unmoved_scenario;
mod variation;

pub use baseline::Baseline;
pub use decided_state::DecidedState;
pub use file::{Expectation, ScenarioFile, may_hold_scenarios, read_scenarios};
pub use free_resources::FreeResource;
pub use losses::{ReplicaLoss, RunningObject};
pub use scaling::WorkloadRef;
pub use selection::{ClusterMatcher, FailureDomain};
pub use timeline::{Timeline, TimelineOptions, TimelineStage};
pub use unmoved_scenario::{UnmovedReason, UnmovedScenario};

/// A sequence of simulated events.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The events, in order.
    pub events: Vec<ScenarioEvent>,
}

/// A simulated event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScenarioEvent {
    /// Clusters become unreachable.
    Lose(ClusterMatcher),
    /// Clusters leave the federation.
    Remove(ClusterMatcher),
    /// Clusters get a taint.
    Taint(ClusterMatcher, Taint),
    /// Clusters lose their taints with this key and, if it is not empty, this effect.
    Untaint(ClusterMatcher, Taint),
    /// Clusters get a label.
    Label(ClusterMatcher, String, String),
    /// The capacity of clusters changes.
    Capacity(ClusterMatcher, NewCapacity),
    /// A cluster joins.
    Add(Box<Cluster>),
    /// The number of replicas of a workload changes.
    Scale(WorkloadRef, ReplicaChange),
}

/// The new capacity of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewCapacity {
    /// A percentage of the current capacity.
    Percent(i64),
    /// Amounts by resource; other resources stay unchanged.
    Resources(BTreeMap<String, Quantity>),
}

/// A number, or a change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaChange {
    /// The number itself.
    Exactly(i64),
    /// A number to add; negative to subtract.
    More(i64),
    /// A percentage to add, negative to subtract; the result is rounded up.
    Percent(i64),
}

impl ReplicaChange {
    /// Applies this to `number`. The result is never negative.
    pub fn apply_to(self, number: i64) -> i64 {
        let changed = match self {
            Self::Exactly(exactly) => exactly,
            Self::More(more) => number.saturating_add(more),
            Self::Percent(percent) => {
                let scaled = i128::from(number) * (100 + i128::from(percent));
                i64::try_from(-(-scaled).div_euclid(100)).unwrap_or(i64::MAX)
            }
        };
        changed.max(0)
    }
}

/// The repo and the inventory in a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioInput<'r> {
    /// The repo.
    pub repo: Cow<'r, Repo>,
    /// The inventory, sorted by name.
    pub clusters: Vec<Cluster>,
    /// The templates whose replicas differ from those in the repo.
    pub scaled: BTreeSet<ObjectRef>,
}

impl Scenario {
    /// Returns the repo and the inventory after the events.
    ///
    /// # Errors
    ///
    /// A message for the user if an event refers to something that does not exist, or cannot happen.
    pub fn apply_events<'r>(
        &self,
        dialects: Dialects,
        repo: &'r Repo,
        clusters: &[Cluster],
    ) -> Result<ScenarioInput<'r>, String> {
        let mut input =
            ScenarioInput { repo: Cow::Borrowed(repo), clusters: clusters.to_vec(), scaled: BTreeSet::new() };
        for event in &self.events {
            event.apply_to(dialects, &mut input)?;
        }
        Ok(input)
    }
}

impl std::fmt::Display for ScenarioEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lose(clusters) => write!(f, "{clusters} is lost"),
            Self::Remove(clusters) => write!(f, "{clusters} is removed"),
            Self::Taint(clusters, taint) => {
                write!(f, "{clusters} gets the taint {}:{}", taint.key, taint.effect)
            }
            Self::Untaint(clusters, taint) => write!(f, "{clusters} loses the taint {}", taint.key),
            Self::Label(clusters, key, value) => write!(f, "{clusters} gets the label {key}={value}"),
            Self::Capacity(clusters, _) => write!(f, "{clusters} is resized"),
            Self::Add(cluster) => write!(f, "{} joins", cluster.name),
            Self::Scale(workload, _) => write!(f, "{workload} is scaled"),
        }
    }
}

impl ScenarioEvent {
    fn apply_to(&self, dialects: Dialects, input: &mut ScenarioInput<'_>) -> Result<(), String> {
        let clusters = &mut input.clusters;
        match self {
            Self::Lose(selection) => {
                selection.select_clusters(clusters)?.for_each(|cluster| simulate_outage(dialects, cluster));
            }
            Self::Remove(selection) => {
                let removed: Vec<_> =
                    selection.select_clusters(clusters)?.map(|cluster| cluster.name.clone()).collect();
                clusters.retain(|cluster| !removed.contains(&cluster.name));
            }
            Self::Taint(selection, taint) => selection.select_clusters(clusters)?.for_each(|cluster| {
                cluster.taints.retain(|t| (&t.key, &t.effect) != (&taint.key, &taint.effect));
                cluster.taints.push(taint.clone());
            }),
            Self::Untaint(selection, taint) => selection.select_clusters(clusters)?.for_each(|cluster| {
                let any_effect = taint.effect.is_empty();
                let matches = |t: &Taint| t.key == taint.key && (any_effect || t.effect == taint.effect);
                cluster.taints.retain(|t| !matches(t));
            }),
            Self::Label(selection, key, value) => selection.select_clusters(clusters)?.for_each(|cluster| {
                cluster.labels.insert(key.clone(), value.clone());
            }),
            Self::Capacity(selection, size) => {
                for cluster in selection.select_clusters(clusters)? {
                    resize_cluster(cluster, size)?;
                }
            }
            Self::Add(cluster) => match clusters.binary_search_by(|c| c.name.cmp(&cluster.name)) {
                Ok(_) => return Err(format!("the inventory already has a cluster `{}`", cluster.name)),
                Err(at) => clusters.insert(at, cluster.as_ref().clone()),
            },
            Self::Scale(workload, amount) => {
                let ScenarioInput { repo, scaled, .. } = input;
                scaled.extend(scaling::scale_workload(dialects, repo.to_mut(), workload, *amount)?);
            }
        }
        Ok(())
    }
}

/// Changes a cluster as its control plane would when it becomes unreachable.
fn simulate_outage(dialects: Dialects, cluster: &mut Cluster) {
    match dialects.iter().find(|d| d.role_of_kind(&cluster.id.api_version, &cluster.id.kind).is_some()) {
        Some(dialect) => dialect.outages().mark_unreachable(cluster),
        None => cluster.ready = false,
    }
}

/// Changes the capacity of a cluster. The used resources stay the same, so the free ones change by the difference.
fn resize_cluster(cluster: &mut Cluster, size: &NewCapacity) -> Result<(), String> {
    let name = &cluster.name;
    let Some(capacity) = &mut cluster.capacity else {
        let why = "its capacity is unknown";
        return Err(format!("cluster `{name}` cannot be resized: {why}; add its `status` to the inventory"));
    };
    // The node shapes are valid for the current size of the cluster only.
    capacity.shapes = None;
    let offered: Vec<(String, Quantity)> = match size {
        NewCapacity::Percent(percent) => {
            capacity.allocatable.iter().map(|(name, q)| (name.clone(), q.take_percent(*percent))).collect()
        }
        NewCapacity::Resources(resources) => resources.iter().map(|(name, q)| (name.clone(), *q)).collect(),
    };
    for (name, amount) in offered {
        set_allocatable(capacity, &name, amount);
    }
    Ok(())
}

fn set_allocatable(capacity: &mut Capacity, resource: &str, amount: Quantity) {
    let before = capacity.allocatable.insert(resource.to_owned(), amount).unwrap_or_default();
    let free = capacity.available.entry(resource.to_owned()).or_default();
    *free = *free + (amount - before);
    if let Some(total) = capacity.total.get_mut(resource) {
        *total = *total + (amount - before);
    }
}

#[cfg(test)]
mod tests;
