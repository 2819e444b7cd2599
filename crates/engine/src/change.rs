//! The effect of a change of the repo on the clusters: the difference between two renderings.
//!
//! ```text
//! plan, manifests ─┐
//!                  ├─► placements: clusters and replicas ────────┐
//! plan, manifests ─┘   objects: field by field, once per change  ├─► Changes ─► report::diff
//!                      pruned: objects that are no longer sent   ┘
//! ```
//!
//! A text that several clusters share is compared once, and parsed only if it differs. The values of Secrets are
//! replaced by keyed digests first ([`DigestKey`]). The result is complete; a report chooses what it shows.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::Manifest;
use crate::replicas::ObjectReplicas;
use federate_dialect::{Placement, Plan};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef, work};

mod causes;
mod credentials;
mod destinations;
mod digest;
mod edits;
mod keys;
mod lost_policies;
mod notation;
mod objects;
mod overlay_paths;
mod paths;
mod placements;
mod pruning;
mod secret;
mod sequence;
mod settings;
mod source_edits;
mod source_values;

pub use causes::{RevisionSide, find_causes};
pub use credentials::names_credential;
pub use destinations::{DestinationChange, find_destination_changes};
pub use digest::{DigestKey, MIN_KEY_BYTES};
pub use edits::{CauseRole, ChangeCause, ChangedField};
pub use lost_policies::{LostPolicy, find_lost_policies};
pub use notation::{find_pointer, readable_path};
pub use objects::{ObjectChange, ObjectChangeKind};
pub use overlay_paths::overlay_paths;
pub use paths::{PathChange, diff_paths};
pub use placements::{ClusterShare, Pair, PlacementChange, PlacementChangeKind, ReplicaShift};
pub use pruning::PrunedObjects;
pub use secret::{hide_secret_values, is_hidden, reveal_values};
pub use settings::{SettingChange, find_setting_changes};

/// One of the two renderings that are compared.
#[derive(Clone, Copy, Debug)]
pub struct RenderingSide<'a> {
    /// The inventory.
    pub clusters: &'a [Cluster],
    /// The plan, with the replicas that manifests have.
    pub plan: &'a Plan,
    /// The manifests that the clusters have.
    pub manifests: &'a [Manifest],
}

/// All differences between two renderings.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderingChanges {
    /// The totals of both sides.
    pub totals: SideTotals,
    /// The clusters that only one inventory has.
    pub clusters: SetDifference<ClusterName>,
    /// The objects whose placement differs, sorted by object.
    pub placements: Vec<PlacementChange>,
    /// The manifests that differ, sorted by object. Clusters with the same change are in one entry.
    pub objects: Vec<ObjectChange>,
    /// The objects that clusters no longer receive, so that they would be deleted there.
    pub pruned: Vec<PrunedObjects>,
    /// The templates that no policy places on one side only.
    pub unmatched: SetDifference<ObjectRef>,
    /// The objects of the repo whose policy does not select them any more, sorted by object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_policies: Vec<LostPolicy>,
    /// The settings that differ and act on more than what is rendered, in the order of their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingChange>,
    /// The Applications, and objects of Flux with `kubeConfig`, that appear, go, or are applied to other clusters, sorted by object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<DestinationChange>,
    /// The edits of the repo, those with the most effects first. Those without effects come last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ChangeCause>,
}

/// The totals of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideTotals {
    /// The earlier side.
    pub from: SideTotal,
    /// The later side.
    pub to: SideTotal,
}

/// The totals of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideTotal {
    /// The number of clusters in the inventory.
    pub clusters: usize,
    /// The number of objects that are placed on at least one cluster.
    pub placed: usize,
    /// The number of replicas of all objects.
    pub replicas: i64,
    /// The number of manifests, one per object and cluster.
    pub manifests: usize,
}

/// The items that only one side has, sorted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SetDifference<T> {
    /// The items of the later side only.
    pub added: Vec<T>,
    /// The items of the earlier side only.
    pub removed: Vec<T>,
}

impl<T: Ord + Clone> SetDifference<T> {
    fn from_sides<'t>(from: impl Iterator<Item = &'t T>, to: impl Iterator<Item = &'t T>) -> Self
    where
        T: 't,
    {
        let (from, to): (BTreeSet<&T>, BTreeSet<&T>) = (from.collect(), to.collect());
        Self {
            added: to.difference(&from).map(|item| (*item).clone()).collect(),
            removed: from.difference(&to).map(|item| (*item).clone()).collect(),
        }
    }

    /// Whether both sides have the same items.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl RenderingChanges {
    /// Whether both sides are equal.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
            && self.placements.is_empty()
            && self.objects.is_empty()
            && self.unmatched.is_empty()
            && self.lost_policies.is_empty()
            && self.settings.is_empty()
            && self.destinations.is_empty()
    }
}

/// How many replicas of all objects one plan has in other clusters than an earlier one.
pub fn replicas_moved(from: &Plan, to: &Plan) -> i64 {
    placements::compare_placements(from, to).iter().map(PlacementChange::moved_replicas).sum()
}

impl RenderingChanges {
    /// The changes of a plan whose rows differ from those of `from` only where `rows` has an earlier and a later one.
    /// Objects may share rows; the objects in the rows are not read. Manifests are not compared. `replicas` is the
    /// number of all replicas of `from`.
    pub fn from_rows(
        from: &RenderingSide<'_>,
        replicas: i64,
        clusters: &[Cluster],
        rows: &[RowVersions<'_>],
        unmatched: &[ObjectRef],
    ) -> Self {
        let before = SideTotal { replicas, ..compute_total(from) };
        let mut totals = SideTotals { from: before, to: SideTotal { clusters: clusters.len(), ..before } };
        let mut known: HashMap<RowVersionsKey<'_>, RowChange> = HashMap::new();
        let mut placements = Vec::new();
        for versions in rows {
            let change = known.entry(versions.cache_key()).or_insert_with(|| RowChange::new(versions));
            totals.to.placed = totals.to.placed + change.placed - change.was_placed;
            totals.to.replicas += change.replicas;
            if let Some(placement) = &change.placement {
                placements.push(PlacementChange { object: versions.object.clone(), ..placement.clone() });
            }
        }
        Self {
            totals,
            clusters: SetDifference::from_sides(
                from.clusters.iter().map(|c| &c.name),
                clusters.iter().map(|c| &c.name),
            ),
            placements,
            objects: Vec::new(),
            pruned: Vec::new(),
            unmatched: SetDifference::from_sides(from.plan.unmatched.iter(), unmatched.iter()),
            lost_policies: Vec::new(),
            settings: Vec::new(),
            destinations: Vec::new(),
            causes: Vec::new(),
        }
    }
}

/// The earlier and the later row of an object, with what it has of replicas on each side.
pub struct RowVersions<'r> {
    /// The object.
    pub object: &'r ObjectRef,
    /// Its rows.
    pub rows: [Option<&'r Placement>; 2],
    /// What it has of replicas.
    pub replicas: [Cow<'r, ObjectReplicas>; 2],
}

/// The steps of comparing a cluster of two rows.
const STEPS_PER_CLUSTER: u64 = 6;

/// The rows by their addresses, and the replicas.
type RowVersionsKey<'r> = ([usize; 2], [&'r ObjectReplicas; 2]);

impl RowVersions<'_> {
    fn cache_key(&self) -> RowVersionsKey<'_> {
        (
            self.rows.map(|row| row.map_or(0, |row| std::ptr::from_ref(row).addr())),
            self.replicas.each_ref().map(AsRef::as_ref),
        )
    }

    /// The rows with the replicas that each cluster has.
    fn fill_in_replicas(&self) -> [Option<Placement>; 2] {
        let [old, new] = self.rows;
        let [had, has] = &self.replicas;
        [old.map(|row| had.fill_in_row(row)), new.map(|row| has.fill_in_row(row))]
    }
}

/// The difference between two rows, for all objects that have them.
struct RowChange {
    was_placed: usize,
    placed: usize,
    /// The replicas that are added.
    replicas: i64,
    placement: Option<PlacementChange>,
}

impl RowChange {
    fn new(versions: &RowVersions<'_>) -> Self {
        let clusters = versions.rows.into_iter().flatten().map(|row| row.clusters.len()).sum::<usize>();
        work::charge_steps(STEPS_PER_CLUSTER * clusters as u64);
        let [old, new] = versions.fill_in_replicas();
        let (old, new) = (old.as_ref(), new.as_ref());
        Self {
            was_placed: count_placed(old),
            placed: count_placed(new),
            replicas: new.map_or(0, sum_replicas) - old.map_or(0, sum_replicas),
            placement: placements::compare_rows(old, new),
        }
    }
}

/// Compares two renderings. `key` is the key of the digests that replace the values of Secrets.
pub fn compare_renderings(
    from: &RenderingSide<'_>,
    to: &RenderingSide<'_>,
    key: &DigestKey,
) -> RenderingChanges {
    let clusters =
        SetDifference::from_sides(from.clusters.iter().map(|c| &c.name), to.clusters.iter().map(|c| &c.name));
    let unmatched = SetDifference::from_sides(from.plan.unmatched.iter(), to.plan.unmatched.iter());
    let mut placements = placements::compare_placements(from.plan, to.plan);
    let now_unmatched: BTreeSet<&ObjectRef> = unmatched.added.iter().collect();
    for change in &mut placements {
        change.runs_nowhere |= now_unmatched.contains(&change.object);
    }
    let mut objects = objects::compare_manifests(from.manifests, to.manifests, &placements, key);
    count_restarted_pods(&mut objects, from.plan, to.plan);
    let pruned = pruning::group_removed(&objects, &clusters.removed);
    RenderingChanges {
        totals: SideTotals { from: compute_total(from), to: compute_total(to) },
        clusters,
        placements,
        objects,
        pruned,
        unmatched,
        lost_policies: Vec::new(),
        settings: Vec::new(),
        destinations: Vec::new(),
        causes: Vec::new(),
    }
}

/// Counts the pods that changes replace: those that run before and after.
fn count_restarted_pods(objects: &mut [ObjectChange], from: &Plan, to: &Plan) {
    if !objects.iter().any(|change| change.restarts_pods) {
        return;
    }
    let [from, to] = [from, to].map(|plan| -> HashMap<&ObjectRef, &Placement> {
        plan.placements.iter().map(|row| (&row.object, row)).collect()
    });
    for change in objects.iter_mut().filter(|change| change.restarts_pods) {
        let (Some(before), Some(after)) = (from.get(&change.object), to.get(&change.object)) else {
            continue;
        };
        let pods = change.clusters.iter().map(|name| {
            let before = before.clusters.find_cluster(name)?.replicas?;
            Some(before.min(after.clusters.find_cluster(name)?.replicas?))
        });
        change.pods = pods.sum();
    }
}

fn compute_total(side: &RenderingSide<'_>) -> SideTotal {
    let rows = &side.plan.placements;
    SideTotal {
        clusters: side.clusters.len(),
        placed: rows.iter().map(|row| count_placed(Some(row))).sum(),
        replicas: rows.iter().map(sum_replicas).sum(),
        manifests: side.manifests.iter().map(|manifest| manifest.clusters.len()).sum(),
    }
}

/// 1 if a row is on any cluster.
fn count_placed(row: Option<&Placement>) -> usize {
    usize::from(row.is_some_and(|row| !row.clusters.is_empty()))
}

/// The replicas of a row, as far as it has them.
fn sum_replicas(row: &Placement) -> i64 {
    row.clusters.total_replicas().unwrap_or(0)
}

#[cfg(test)]
mod tests;
