//! Groups of the clusters of a placement: those for which the same numbers are written, split by the override rules that
//! apply to them.
//!
//! Many placements have the same list of clusters, and match the same override policies. Their groups are
//! found once.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use federate_dialect::{ClusterNames, PlacedClusters};

use super::KarmadaPlanner;
use super::overrides::CompiledOverridePolicy;
use super::revision::ReplicaRevision;

/// A rule by policy and number within the policies of a group that match.
pub(super) type RuleIds = Vec<(usize, usize)>;

/// How many results are kept at most. With more different ones, they are rarely needed again.
const MAX_KEPT: usize = 32;

/// Results by what they follow from.
struct Kept<K, T>(Mutex<HashMap<K, Arc<[T]>>>);

impl<K, T> Default for Kept<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T> Kept<K, T> {
    fn get_or_compute(&self, key: K, make: impl FnOnce() -> Arc<[T]>) -> Arc<[T]> {
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(known);
        }
        // Two threads may do this at the same time, with the same result.
        let made = make();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&made));
        made
    }
}

/// The groups so far, by the address of the list of clusters, and whether replicas are written.
#[derive(Default)]
pub(super) struct ClusterGroups(Kept<(usize, bool), (Option<ReplicaRevision>, ClusterGroup)>);

impl ClusterGroups {
    /// The clusters of a list by the numbers that are written for them.
    pub(super) fn group_clusters(
        &self,
        plane: &KarmadaPlanner<'_>,
        clusters: &PlacedClusters,
        revises: bool,
    ) -> Arc<[(Option<ReplicaRevision>, ClusterGroup)]> {
        // The address of a list that is not kept may become that of another one.
        if plane.lists.contains_list(clusters) {
            let key = (clusters.list_address(), revises);
            self.0.get_or_compute(key, || group_by_replicas(plane, clusters, revises))
        } else {
            group_by_replicas(plane, clusters, revises)
        }
    }
}

/// The clusters of a list by the numbers that are written for them.
fn group_by_replicas(
    plane: &KarmadaPlanner<'_>,
    clusters: &PlacedClusters,
    revises: bool,
) -> Arc<[(Option<ReplicaRevision>, ClusterGroup)]> {
    let revisions = clusters.iter().map(|placed| {
        let replicas = placed.replicas.filter(|_| revises)?;
        Some(ReplicaRevision { replicas, completions: None })
    });
    ClusterGroup::for_placement(plane, clusters).group_by_keys(plane, revisions)
}

/// Some clusters of a placement.
pub(super) struct ClusterGroup {
    /// Their names, sorted.
    pub(super) names: ClusterNames,
    /// The index of each in the inventory; `None` when it has left the inventory.
    indexes: Arc<[Option<usize>]>,
    /// The parts by the addresses of the policies that split it.
    parts: Kept<Vec<usize>, (RuleIds, ClusterGroup)>,
}

impl ClusterGroup {
    /// All clusters of a placement. The inventory has the same order.
    pub(super) fn for_placement(plane: &KarmadaPlanner<'_>, clusters: &PlacedClusters) -> Self {
        let mut rest = plane.clusters.iter().enumerate().peekable();
        let mut indexes = Vec::with_capacity(clusters.len());
        for placed in clusters {
            let name = &placed.name;
            // A placement mostly shares its names with the inventory.
            while rest.next_if(|(_, c)| !Arc::ptr_eq(&c.name, name) && c.name < *name).is_some() {}
            let next = rest.peek().filter(|(_, c)| Arc::ptr_eq(&c.name, name) || c.name == *name);
            indexes.push(next.map(|(index, _)| *index));
        }
        Self { names: plane.lists.names_of(clusters), indexes: indexes.into(), parts: Kept::default() }
    }

    /// One of the clusters, by its place among them.
    pub(super) fn single_cluster(&self, at: usize) -> Option<Self> {
        let names = Arc::from([self.names.get(at)?.clone()]);
        Some(Self { names, indexes: Arc::from([*self.indexes.get(at)?]), parts: Kept::default() })
    }

    /// The clusters by keys, which are given for each of them.
    pub(super) fn group_by_keys<K: Ord>(
        &self,
        plane: &KarmadaPlanner<'_>,
        keys: impl Iterator<Item = K>,
    ) -> Arc<[(K, Self)]> {
        let classes = collect_by_key(keys.zip(0..self.indexes.len()));
        classes.into_iter().map(|(key, places)| (key, self.take_subset(plane, &places))).collect()
    }

    /// The clusters by the rules of these policies that apply to them: split by one policy after the other.
    pub(super) fn split_by_rules(
        &self,
        plane: &KarmadaPlanner<'_>,
        policies: &[&CompiledOverridePolicy<'_>],
    ) -> Arc<[(RuleIds, Self)]> {
        let addresses = policies.iter().map(|policy| std::ptr::from_ref(*policy).addr()).collect();
        self.parts.get_or_compute(addresses, || {
            let mut parts = vec![(RuleIds::new(), (0..self.indexes.len()).collect::<Vec<usize>>())];
            for (at, policy) in policies.iter().enumerate() {
                let mut refined = Vec::new();
                for (rules, places) in parts {
                    let classes = places.into_iter().map(|place: usize| {
                        let index = self.indexes.get(place).copied().flatten();
                        (policy.find_class(plane.clusters, index), place)
                    });
                    for (class, places) in collect_by_key(classes) {
                        let more = policy.rules_of(plane.clusters, class).iter().map(|rule| (at, *rule));
                        refined.push((rules.iter().copied().chain(more).collect(), places));
                    }
                }
                parts = refined;
            }
            parts.into_iter().map(|(rules, places)| (rules, self.take_subset(plane, &places))).collect()
        })
    }

    /// Some of the clusters, by their places among them.
    fn take_subset(&self, plane: &KarmadaPlanner<'_>, places: &[usize]) -> Self {
        if places.len() == self.indexes.len() {
            let (names, indexes) = (Arc::clone(&self.names), Arc::clone(&self.indexes));
            return Self { names, indexes, parts: Kept::default() };
        }
        let indexes: Arc<[_]> = places.iter().map(|at| self.indexes.get(*at).copied().flatten()).collect();
        let known: Option<Vec<usize>> = indexes.iter().copied().collect();
        let names = match known {
            Some(known) => plane.lists.cluster_names(plane.clusters, &known),
            None => places.iter().filter_map(|at| self.names.get(*at)).cloned().collect(),
        };
        Self { names, indexes, parts: Kept::default() }
    }
}

/// Items by key. Neighbours usually have the same key, which is looked up once for all of them.
fn collect_by_key<K: Ord, T>(items: impl Iterator<Item = (K, T)>) -> BTreeMap<K, Vec<T>> {
    let mut classes: BTreeMap<K, Vec<T>> = BTreeMap::new();
    let mut run: Option<(K, Vec<T>)> = None;
    for (key, item) in items {
        match &mut run {
            Some((known, run)) if *known == key => run.push(item),
            _ => {
                if let Some((key, run)) = run.replace((key, vec![item])) {
                    classes.entry(key).or_default().extend(run);
                }
            }
        }
    }
    if let Some((key, run)) = run {
        classes.entry(key).or_default().extend(run);
    }
    classes
}
