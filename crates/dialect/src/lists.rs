//! Equal lists of clusters, kept once.
//!
//! Decisions are taken in parallel and independently, so equal results are found here. It makes no difference
//! which of two equal lists is kept.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{ClusterNames, Placed, PlacedClusters};
use federate_kubernetes::{Cluster, ClusterName};

/// The lists so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SharedLists {
    placed: Arc<ListPool<Placed>>,
    names: Arc<ListPool<ClusterName>>,
    /// The names in lists of `placed`, by the address of the list.
    names_of: Arc<Mutex<HashMap<usize, ClusterNames>>>,
}

impl SharedLists {
    /// The clusters of a placement, given by their indexes in the inventory, with their replicas.
    pub fn placed_clusters(&self, inventory: &[Cluster], chosen: &[(usize, Option<i64>)]) -> PlacedClusters {
        let list = self.placed.intern_items(
            chosen,
            |(index, replicas), placed| {
                placed.replicas == *replicas && inventory.get(*index).is_some_and(|c| c.name == placed.name)
            },
            |(index, replicas)| {
                Some(Placed { name: inventory.get(*index)?.name.clone(), replicas: *replicas })
            },
        );
        PlacedClusters::from_sorted(list)
    }

    /// Clusters by their indexes in the inventory.
    pub fn cluster_names(&self, inventory: &[Cluster], chosen: &[usize]) -> ClusterNames {
        self.names.intern_items(
            chosen,
            |index, name| inventory.get(*index).is_some_and(|c| c.name == *name),
            |index| Some(inventory.get(*index)?.name.clone()),
        )
    }

    /// The names of all clusters of a placement.
    pub fn names_of(&self, clusters: &PlacedClusters) -> ClusterNames {
        let address = list_address(clusters.list());
        // Another list may get the address of one that is not kept here.
        let is_kept = self.contains_list(clusters);
        if is_kept && let Some(known) = self.lock_names().get(&address) {
            return Arc::clone(known);
        }
        let names = self.share_names(&clusters.iter().map(|placed| placed.name.clone()).collect());
        if is_kept {
            self.lock_names().insert(address, Arc::clone(&names));
        }
        names
    }

    /// Whether the list is kept here. No other list gets its [address](PlacedClusters::list_address) then.
    pub fn contains_list(&self, clusters: &PlacedClusters) -> bool {
        self.placed.lock_lists().places.contains(&list_address(clusters.list()))
    }

    fn lock_names(&self) -> MutexGuard<'_, HashMap<usize, ClusterNames>> {
        self.names_of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of lists of placed clusters.
    pub fn len(&self) -> usize {
        self.placed.lock_lists().places.len()
    }

    /// Whether there is no list of placed clusters yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The list that equals this one.
    #[must_use]
    pub fn share_placed(&self, clusters: &PlacedClusters) -> PlacedClusters {
        PlacedClusters::from_sorted(self.placed.intern_list(clusters.list()))
    }

    /// The list that equals this one.
    #[must_use]
    pub fn share_names(&self, clusters: &ClusterNames) -> ClusterNames {
        self.names.intern_list(clusters)
    }
}

/// Lists by a hash of what they were looked up by.
#[derive(Debug)]
struct ListPool<T>(Mutex<Lists<T>>);

#[derive(Debug)]
struct Lists<T> {
    by_hash: HashMap<u64, Vec<Arc<[T]>>>,
    /// The addresses of the lists, so that a known list is found without comparing items.
    places: HashSet<usize>,
}

impl<T> Default for ListPool<T> {
    fn default() -> Self {
        Self(Mutex::new(Lists { by_hash: HashMap::new(), places: HashSet::new() }))
    }
}

impl<T: Clone + Eq + Hash> ListPool<T> {
    /// Returns the list with these items, and makes it with `make` where there is none yet. Items for which
    /// `make` returns `None` are left out.
    fn intern_items<K: Hash>(
        &self,
        keys: &[K],
        is: impl Fn(&K, &T) -> bool,
        make: impl Fn(&K) -> Option<T>,
    ) -> Arc<[T]> {
        self.find_or_insert(
            compute_hash(keys),
            |list| list.len() == keys.len() && keys.iter().zip(list).all(|(k, t)| is(k, t)),
            || keys.iter().filter_map(make).collect(),
        )
    }

    fn lock_lists(&self) -> MutexGuard<'_, Lists<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn intern_list(&self, list: &Arc<[T]>) -> Arc<[T]> {
        if self.lock_lists().places.contains(&list_address(list)) {
            return Arc::clone(list);
        }
        self.find_or_insert(compute_hash(list.as_ref()), |known| known == list.as_ref(), || Arc::clone(list))
    }

    fn find_or_insert(
        &self,
        hash: u64,
        same: impl Fn(&[T]) -> bool,
        make: impl FnOnce() -> Arc<[T]>,
    ) -> Arc<[T]> {
        let mut lists = self.lock_lists();
        let alike = lists.by_hash.entry(hash).or_default();
        if let Some(known) = alike.iter().find(|known| same(known)) {
            return Arc::clone(known);
        }
        let new = make();
        alike.push(Arc::clone(&new));
        lists.places.insert(list_address(&new));
        new
    }
}

fn compute_hash<K: Hash + ?Sized>(keys: &K) -> u64 {
    let mut hasher = DefaultHasher::new();
    keys.hash(&mut hasher);
    hasher.finish()
}

/// Kept lists are never dropped, so no other list gets such an address.
fn list_address<T>(list: &Arc<[T]>) -> usize {
    Arc::as_ptr(list).cast::<T>() as usize
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::Object;

    use super::*;

    fn placed(name: &str, replicas: Option<i64>) -> PlacedClusters {
        PlacedClusters::from(vec![Placed { name: name.into(), replicas }])
    }

    #[test]
    fn equal_lists_become_one() {
        let lists = SharedLists::default();
        let first = lists.share_placed(&placed("a", Some(1)));
        let again = lists.share_placed(&placed("a", Some(1)));
        let other = lists.share_placed(&placed("a", None));
        assert!(first.is_shared_with(&again) && first.is_shared_with(&lists.share_placed(&first)));
        assert_eq!(other, placed("a", None));
    }

    #[test]
    fn chosen_clusters_are_named() {
        let lists = SharedLists::default();
        let inventory = ["a", "b", "c"].map(|name| {
            Cluster::from_object(&Object::from_path("example.com/v1", "Cluster", name, serde_json::json!({})))
        });
        let chosen = [(0, Some(2)), (2, None)];
        let first = lists.placed_clusters(&inventory, &chosen);
        let expected: PlacedClusters = [("a", Some(2)), ("c", None)]
            .map(|(name, replicas)| Placed { name: name.into(), replicas })
            .into_iter()
            .collect();
        assert_eq!(first, expected);
        assert!(first.is_shared_with(&lists.placed_clusters(&inventory, &chosen)));
        assert_eq!(lists.cluster_names(&inventory, &[1, 2]).join(" "), "b c");
        assert_eq!(lists.cluster_names(&inventory, &[]).len(), 0);
        let names = lists.names_of(&first);
        assert_eq!(names.join(" "), "a c");
        assert!(Arc::ptr_eq(&names, &lists.names_of(&first)));
        assert!(Arc::ptr_eq(&names, &lists.names_of(&expected)), "an equal list that is not kept");
    }
}
