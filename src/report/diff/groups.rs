//! Changes brought together for a reader: what happened alike to many objects is one entry.

use std::collections::BTreeMap;

use crate::change::{Changes, ObjectChange, ObjectDeed, PathChange, PlacementChange, Share};
use crate::k8s::{ClusterName, ObjectRef};

/// Placements that changed alike.
pub(super) struct Move<'d> {
    pub(super) objects: Vec<&'d ObjectRef>,
    /// What they have in common, as the first has it.
    pub(super) change: &'d PlacementChange,
    /// What shifted, with the clusters where it did.
    pub(super) shifts: Vec<Shifted<'d>>,
}

/// Clusters that had and have the same.
pub(super) struct Shifted<'d> {
    pub(super) from: Option<Share>,
    pub(super) to: Option<Share>,
    pub(super) clusters: Vec<&'d ClusterName>,
}

/// Placements, those alike together, in the order of their first objects.
pub(super) fn moves(changes: &Changes) -> Vec<Move<'_>> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut moves: Vec<Move<'_>> = Vec::new();
    for change in &changes.placements {
        let alike = format!(
            "{:?}",
            (
                change.kind,
                &change.policy,
                &change.clusters,
                &change.unschedulable,
                &change.suspended,
                &change.resumed
            )
        );
        let at = *known.entry(alike).or_insert(moves.len());
        match moves.get_mut(at) {
            Some(known) => known.objects.push(&change.object),
            None => moves.push(Move { objects: vec![&change.object], change, shifts: shifts(change) }),
        }
    }
    moves
}

fn shifts(change: &PlacementChange) -> Vec<Shifted<'_>> {
    let mut shifts: Vec<Shifted<'_>> = Vec::new();
    for shift in &change.clusters {
        match shifts.iter_mut().find(|known| (known.from, known.to) == (shift.from, shift.to)) {
            Some(known) => known.clusters.push(&shift.name),
            None => shifts.push(Shifted { from: shift.from, to: shift.to, clusters: vec![&shift.name] }),
        }
    }
    shifts
}

/// Manifests that changed alike.
pub(super) struct Entry<'d> {
    pub(super) kind: ObjectDeed,
    /// Objects by the clusters concerned.
    pub(super) places: Vec<(Vec<&'d ClusterName>, Vec<&'d ObjectRef>)>,
    pub(super) paths: &'d [PathChange],
    /// The unified diff of the first object in its first cluster.
    pub(super) diff: &'d str,
    /// How many different manifests there are, of which the diff shows one.
    pub(super) variants: usize,
}

impl<'d> Entry<'d> {
    fn of(change: &'d ObjectChange) -> Self {
        let places = vec![(change.clusters.iter().collect(), vec![&change.object])];
        Self { kind: change.kind, places, paths: &change.paths, diff: &change.diff, variants: 1 }
    }

    /// All objects, sorted.
    pub(super) fn objects(&self) -> Vec<&'d ObjectRef> {
        let mut objects: Vec<_> =
            self.places.iter().flat_map(|(_, objects)| objects.iter().copied()).collect();
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    /// All clusters, sorted.
    pub(super) fn clusters(&self) -> Vec<&'d ClusterName> {
        let mut names: Vec<_> = self.places.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether every object has the same clusters.
    pub(super) fn is_even(&self) -> bool {
        self.places.len() == 1
    }
}

/// Manifests that differ in more than the replicas told of as placements, those alike together; then
/// those that are new. What is gone is told as pruned, and what goes to further clusters as placed there.
pub(super) fn entries(changes: &Changes) -> Vec<Entry<'_>> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for change in &changes.objects {
        let alike = match change.kind {
            ObjectDeed::Changed if change.scaled => continue,
            ObjectDeed::Changed if change.paths.is_empty() => {
                format!("{}{:?}{}", change.object, change.object, change.diff)
            }
            ObjectDeed::Changed => format!("{:?}", change.paths),
            ObjectDeed::Added if change.elsewhere && is_told(changes, change) => continue,
            ObjectDeed::Added => format!("{:?}", change.object),
            ObjectDeed::Removed => continue,
        };
        let next = entries.len();
        let at = *known.entry(format!("{:?} {alike}", change.kind)).or_insert(next);
        match entries.get_mut(at) {
            Some(entry) => join(entry, change),
            None => entries.push(Entry::of(change)),
        }
    }
    entries
}

fn join<'d>(entry: &mut Entry<'d>, change: &'d ObjectChange) {
    if change.kind == ObjectDeed::Added {
        // Another text of the same object.
        entry.variants += 1;
        if let Some((clusters, _)) = entry.places.first_mut() {
            clusters.extend(&change.clusters);
            clusters.sort_unstable();
        }
        return;
    }
    let same = |names: &[&ClusterName]| names.iter().copied().eq(change.clusters.iter());
    match entry.places.iter_mut().find(|(names, _)| same(names)) {
        Some((_, objects)) => objects.push(&change.object),
        None => entry.places.push((change.clusters.iter().collect(), vec![&change.object])),
    }
}

/// Whether the placement's change says already that these clusters have it now.
fn is_told(changes: &Changes, change: &ObjectChange) -> bool {
    let row = changes.placements.binary_search_by(|row| row.object.cmp(&change.object));
    let Some(row) = row.ok().and_then(|at| changes.placements.get(at)) else { return false };
    let came = |name: &ClusterName| row.clusters.iter().any(|s| s.name == *name && s.from.is_none());
    change.clusters.iter().all(came)
}

/// What happens in one cluster, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tally {
    pub(super) replicas: i64,
    pub(super) added: usize,
    pub(super) changed: usize,
    pub(super) removed: usize,
}

/// The numbers of every cluster where something happens, those alike together, busiest first.
pub(super) fn tallies(changes: &Changes) -> Vec<(Tally, Vec<&ClusterName>)> {
    let mut by_cluster: BTreeMap<&ClusterName, Tally> = BTreeMap::new();
    for shift in changes.placements.iter().flat_map(|row| &row.clusters) {
        let replicas = |share: Option<Share>| share.and_then(|share| share.replicas).unwrap_or(0);
        by_cluster.entry(&shift.name).or_default().replicas += replicas(shift.to) - replicas(shift.from);
    }
    for change in &changes.objects {
        for name in &change.clusters {
            let tally = by_cluster.entry(name).or_default();
            match change.kind {
                ObjectDeed::Added => tally.added += 1,
                ObjectDeed::Changed => tally.changed += 1,
                ObjectDeed::Removed => tally.removed += 1,
            }
        }
    }
    let mut alike: BTreeMap<Tally, Vec<&ClusterName>> = BTreeMap::new();
    for (name, tally) in by_cluster {
        alike.entry(tally).or_default().push(name);
    }
    let mut tallies: Vec<_> = alike.into_iter().collect();
    tallies.sort_by_key(|(tally, names)| {
        (std::cmp::Reverse(tally.added + tally.changed + tally.removed), names.first().copied())
    });
    tallies
}
