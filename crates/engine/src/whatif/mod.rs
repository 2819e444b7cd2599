//! What would come of something that has not happened: clusters that are lost, tainted, resized or added, and
//! workloads that are scaled.
//!
//! A [`Scenario`] changes the inventory and the templates; the control planes decide about the result with the
//! present plan as their memory, as they would. [`losses`] then counts the replicas that no longer run where they
//! ran, and those that run elsewhere. A cluster runs something as long as it is in the inventory and ready.

use std::borrow::Cow;
use std::collections::BTreeMap;

use federate_dialect::Dialects;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Capacity, Cluster, Taint};
use federate_repo::Repo;

mod losses;
mod parse;
mod scale;
mod selection;

pub use losses::{Loss, State, losses};
pub use scale::Workload;
pub use selection::{Selection, Unit};

/// What happens, in this order.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The events.
    pub events: Vec<Event>,
}

/// Something that happens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Clusters can no longer be reached.
    Lose(Selection),
    /// Clusters leave the federation.
    Remove(Selection),
    /// Clusters get a taint.
    Taint(Selection, Taint),
    /// Clusters lose their taints of this key, and of this effect where it is not empty.
    Untaint(Selection, Taint),
    /// Clusters get a label.
    Label(Selection, String, String),
    /// Clusters become larger or smaller.
    Capacity(Selection, Size),
    /// A cluster joins.
    Add(Box<Cluster>),
    /// A workload gets other replicas.
    Scale(Workload, Amount),
}

/// How much a cluster offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// So many percent of what it offered.
    Percent(i64),
    /// These amounts of these resources; others stay.
    Resources(BTreeMap<String, Quantity>),
}

/// A number, or how it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This many.
    Exactly(i64),
    /// So many more, or fewer.
    More(i64),
    /// So many percent more, or fewer, rounded up.
    Percent(i64),
}

impl Amount {
    /// The number that it makes of another one; never negative.
    pub fn of(self, number: i64) -> i64 {
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

/// What there is while a scenario holds.
#[derive(Clone, Debug)]
pub struct World<'r> {
    /// The repo.
    pub repo: Cow<'r, Repo>,
    /// The inventory, sorted by name.
    pub clusters: Vec<Cluster>,
}

impl Scenario {
    /// The repo and the inventory after the events.
    ///
    /// # Errors
    ///
    /// What is named and not there, in words for a person.
    pub fn apply<'r>(
        &self,
        dialects: Dialects,
        repo: &'r Repo,
        clusters: &[Cluster],
    ) -> Result<World<'r>, String> {
        let mut world = World { repo: Cow::Borrowed(repo), clusters: clusters.to_vec() };
        for event in &self.events {
            event.apply(dialects, &mut world)?;
        }
        Ok(world)
    }
}

impl Event {
    fn apply(&self, dialects: Dialects, world: &mut World<'_>) -> Result<(), String> {
        let clusters = &mut world.clusters;
        match self {
            Self::Lose(selection) => {
                selection.of(clusters)?.for_each(|cluster| lose(dialects, cluster));
            }
            Self::Remove(selection) => {
                let gone: Vec<_> = selection.of(clusters)?.map(|cluster| cluster.name.clone()).collect();
                clusters.retain(|cluster| !gone.contains(&cluster.name));
            }
            Self::Taint(selection, taint) => selection.of(clusters)?.for_each(|cluster| {
                cluster.taints.retain(|t| (&t.key, &t.effect) != (&taint.key, &taint.effect));
                cluster.taints.push(taint.clone());
            }),
            Self::Untaint(selection, taint) => selection.of(clusters)?.for_each(|cluster| {
                let any = taint.effect.is_empty();
                let meant = |t: &Taint| t.key == taint.key && (any || t.effect == taint.effect);
                cluster.taints.retain(|t| !meant(t));
            }),
            Self::Label(selection, key, value) => selection.of(clusters)?.for_each(|cluster| {
                cluster.labels.insert(key.clone(), value.clone());
            }),
            Self::Capacity(selection, size) => {
                for cluster in selection.of(clusters)? {
                    resize(cluster, size)?;
                }
            }
            Self::Add(cluster) => match clusters.binary_search_by(|c| c.name.cmp(&cluster.name)) {
                Ok(_) => return Err(format!("the inventory has a cluster `{}` already", cluster.name)),
                Err(at) => clusters.insert(at, cluster.as_ref().clone()),
            },
            Self::Scale(workload, amount) => scale::scale(world.repo.to_mut(), workload, *amount)?,
        }
        Ok(())
    }
}

/// What the control plane that keeps the cluster makes of it when it can no longer be reached.
fn lose(dialects: Dialects, cluster: &mut Cluster) {
    match dialects.iter().find(|d| d.role(&cluster.id.api_version, &cluster.id.kind).is_some()) {
        Some(dialect) => dialect.lose(cluster),
        None => cluster.ready = false,
    }
}

/// What is used stays used: what a cluster offers less, it has less left.
fn resize(cluster: &mut Cluster, size: &Size) -> Result<(), String> {
    let name = &cluster.name;
    let Some(capacity) = &mut cluster.capacity else {
        let why = "nothing is known of its capacity";
        return Err(format!("cluster `{name}` cannot be resized: {why}; write `status` into the inventory"));
    };
    // Sizes of single nodes say nothing of other sizes of the cluster.
    capacity.shapes = None;
    let offered: Vec<(String, Quantity)> = match size {
        Size::Percent(percent) => {
            capacity.allocatable.iter().map(|(name, q)| (name.clone(), q.percent(*percent))).collect()
        }
        Size::Resources(resources) => resources.iter().map(|(name, q)| (name.clone(), *q)).collect(),
    };
    for (name, amount) in offered {
        offer(capacity, &name, amount);
    }
    Ok(())
}

fn offer(capacity: &mut Capacity, resource: &str, amount: Quantity) {
    let before = capacity.allocatable.insert(resource.to_owned(), amount).unwrap_or_default();
    let free = capacity.available.entry(resource.to_owned()).or_default();
    *free = *free + (amount - before);
    if let Some(total) = capacity.total.get_mut(resource) {
        *total = *total + (amount - before);
    }
}

#[cfg(test)]
mod tests;
