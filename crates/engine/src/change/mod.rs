//! What a change of the repo changes in the clusters: the difference of two renderings.
//!
//! ```text
//! plan, manifests ─┐
//!                  ├─► placements: who moved, how many replicas ─┐
//! plan, manifests ─┘   objects: field by field, once per change  ├─► Changes ─► report::diff
//!                      pruned: what is no longer sent            ┘
//! ```
//!
//! Texts that clusters share are compared once; only those that differ are read again, and Secrets' values
//! are replaced by keyed digests before anything else is done with them ([`DigestKey`]). Nothing here
//! depends on what was asked for: a report chooses what it shows.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Manifest;
use federate_dialect::Plan;
use federate_kubernetes::{Cluster, ClusterName, ObjectRef};

mod keys;
mod objects;
mod overlay_paths;
mod paths;
mod placements;
mod pruned;
mod secret;

pub use objects::{ObjectChange, ObjectChangeKind};
pub use overlay_paths::overlay_paths;
pub use paths::{PathChange, paths};
pub use placements::{Pair, PlacementChange, PlacementChangeKind, ReplicaShift, Share};
pub use pruned::Pruned;
pub use secret::{DigestKey, hide};

/// One of the two renderings that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The inventory.
    pub clusters: &'a [Cluster],
    /// Where everything goes.
    pub plan: &'a Plan,
    /// What the clusters hold by it.
    pub manifests: &'a [Manifest],
}

/// Everything that differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// Both sides in numbers.
    pub totals: Totals,
    /// Clusters of the inventory.
    pub clusters: Difference<ClusterName>,
    /// Objects whose placement differs, sorted by object.
    pub placements: Vec<PlacementChange>,
    /// Manifests that differ, sorted by object; clusters with the same change stand together.
    pub objects: Vec<ObjectChange>,
    /// What a cluster had and is no longer sent, so that it would be deleted there.
    pub pruned: Vec<Pruned>,
    /// Templates that no policy places.
    pub unmatched: Difference<ObjectRef>,
}

/// Numbers of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// The earlier side.
    pub from: Total,
    /// The later one.
    pub to: Total,
}

/// One side in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Total {
    /// Clusters of the inventory.
    pub clusters: usize,
    /// Objects that are placed somewhere.
    pub placed: usize,
    /// Replicas of all objects together.
    pub replicas: i64,
    /// Manifests, one for each object and cluster.
    pub manifests: usize,
}

/// What only one side has; sorted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference<T> {
    /// Only the later side.
    pub added: Vec<T>,
    /// Only the earlier side.
    pub removed: Vec<T>,
}

impl<T: Ord + Clone> Difference<T> {
    fn of<'t>(from: impl Iterator<Item = &'t T>, to: impl Iterator<Item = &'t T>) -> Self
    where
        T: 't,
    {
        let (from, to): (BTreeSet<&T>, BTreeSet<&T>) = (from.collect(), to.collect());
        let only = |these: &BTreeSet<&T>, those: &BTreeSet<&T>| {
            these.difference(those).map(|item| (*item).clone()).collect()
        };
        Self { added: only(&to, &from), removed: only(&from, &to) }
    }

    /// Whether both sides have the same.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl Changes {
    /// Whether both sides render the same.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
            && self.placements.is_empty()
            && self.objects.is_empty()
            && self.unmatched.is_empty()
    }
}

/// Compares two renderings. `key` makes the digests that stand for Secrets' values.
pub fn compare(from: &Side<'_>, to: &Side<'_>, key: &DigestKey) -> Changes {
    let clusters = Difference::of(from.clusters.iter().map(|c| &c.name), to.clusters.iter().map(|c| &c.name));
    let unmatched = Difference::of(from.plan.unmatched.iter(), to.plan.unmatched.iter());
    let placements = placements::compare(from.plan, to.plan);
    let objects = objects::compare(from.manifests, to.manifests, &placements, key);
    let pruned = pruned::group(&objects, &clusters.removed);
    Changes {
        totals: Totals { from: total(from), to: total(to) },
        clusters,
        placements,
        objects,
        pruned,
        unmatched,
    }
}

fn total(side: &Side<'_>) -> Total {
    let rows = &side.plan.placements;
    Total {
        clusters: side.clusters.len(),
        placed: rows.iter().filter(|row| !row.clusters.is_empty()).count(),
        replicas: rows.iter().flat_map(|row| &row.clusters).filter_map(|placed| placed.replicas).sum(),
        manifests: side.manifests.iter().map(|manifest| manifest.clusters.len()).sum(),
    }
}

#[cfg(test)]
mod tests;
