//! Groups similar changes, so that a report shows one entry for all objects that changed in the same way.

use std::collections::BTreeMap;

use federate_engine::change::{
    ClusterShare, ObjectChange, ObjectChangeKind, PathChange, PlacementChange, PlacementChangeKind,
    RenderingChanges,
};
use federate_kubernetes::display_text::escape_text;
use federate_kubernetes::{ClusterName, ObjectRef};
use serde_json::Value;

use super::verdict::count_replicas;
use super::{fits_in_line, format_values, placement_word, to_signed};
use crate::table::format_count;

/// Placements that changed in the same way.
pub(super) struct PlacementMove<'d> {
    pub(super) objects: Vec<&'d ObjectRef>,
    /// One of the changes, which stands for all.
    pub(super) change: &'d PlacementChange,
    /// The changed shares, with the clusters that have them.
    pub(super) shifts: Vec<ShareShift<'d>>,
}

impl PlacementMove<'_> {
    /// What decides: the policy, the old and the new policy if it changed, or the objects that depend on this
    /// one.
    pub(super) fn describe_decider(&self, name: impl Fn(&ObjectRef) -> String) -> String {
        let change = self.change;
        let follows = if change.kind == PlacementChangeKind::Disappeared { "followed" } else { "follows" };
        match (&change.policy.from, &change.policy.to, change.required_by.as_slice()) {
            (Some(policy), None, _) if change.kind == PlacementChangeKind::Policy => {
                format!("before by {}", name(policy))
            }
            (Some(from), Some(to), _) if from != to => format!("by {}, before by {}", name(to), name(from)),
            (Some(policy), None, _) | (_, Some(policy), _) => format!("by {}", name(policy)),
            (None, None, []) => String::new(),
            (None, None, [only]) => format!("{follows} {}", name(only)),
            (None, None, [first, rest @ ..]) => format!("{follows} {} and {} more", name(first), rest.len()),
        }
    }
}

/// Clusters with the same change.
pub(super) struct ShareShift<'d> {
    pub(super) from: Option<ClusterShare>,
    pub(super) to: Option<ClusterShare>,
    pub(super) clusters: Vec<&'d ClusterName>,
}

/// Similar placements, in the order of their first objects.
pub(super) fn group_moves(changes: &RenderingChanges) -> Vec<PlacementMove<'_>> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut moves: Vec<PlacementMove<'_>> = Vec::new();
    for change in &changes.placements {
        let alike = format!(
            "{:?}",
            (
                change.kind,
                &change.policy,
                &change.required_by,
                &change.clusters,
                &change.unschedulable,
                &change.suspended,
                &change.resumed,
                &change.caused_by
            )
        );
        let at = *known.entry(alike).or_insert(moves.len());
        match moves.get_mut(at) {
            Some(known) => known.objects.push(&change.object),
            None => moves.push(PlacementMove {
                objects: vec![&change.object],
                change,
                shifts: group_shifts(change),
            }),
        }
    }
    // What runs nowhere comes first.
    moves.sort_by_key(|moved| !moved.change.runs_nowhere);
    moves
}

/// Many placements that changed for the same reason, with what clusters gain and lose by them together.
pub(super) struct MoveSummary<'d> {
    pub(super) moves: Vec<PlacementMove<'d>>,
    /// The replicas before and after by group of clusters, or the objects where there are no replicas; those that change
    /// most come first.
    pub(super) shares: Vec<(String, i64, i64)>,
}

/// How many placements with a common reason are shown one by one.
const MAX_MOVES: usize = 12;

/// Summarizes placements by what happened and by whom, where there are many. `find_group` is the group of a cluster.
/// Returns the summaries and the other placements.
pub(super) fn summarize_moves<'d>(
    moves: Vec<PlacementMove<'d>>,
    find_group: impl Fn(&str) -> String,
) -> (Vec<MoveSummary<'d>>, Vec<PlacementMove<'d>>) {
    let mut alike: BTreeMap<(&str, String), Vec<PlacementMove<'d>>> = BTreeMap::new();
    let mut single = Vec::new();
    for moved in moves {
        if moved.change.runs_nowhere || !moved.change.is_move() {
            single.push(moved);
            continue;
        }
        let by = moved.describe_decider(ToString::to_string);
        alike.entry((placement_word(moved.change), by)).or_default().push(moved);
    }
    let mut summaries = Vec::new();
    for moves in alike.into_values() {
        if moves.len() > MAX_MOVES {
            summaries.push(MoveSummary { shares: sum_shares(&moves, &find_group), moves });
        } else {
            single.extend(moves);
        }
    }
    single.sort_by(|a, b| {
        (!a.change.runs_nowhere, &a.change.object).cmp(&(!b.change.runs_nowhere, &b.change.object))
    });
    summaries.sort_by_key(|summary| std::cmp::Reverse(summary.moves.len()));
    (summaries, single)
}

/// What groups of clusters have before and after.
fn sum_shares(moves: &[PlacementMove<'_>], find_group: impl Fn(&str) -> String) -> Vec<(String, i64, i64)> {
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for moved in moves {
        let objects = to_signed(moved.objects.len());
        for shift in &moved.shifts {
            for cluster in &shift.clusters {
                let (from, to) = sums.entry(find_group(cluster)).or_default();
                // A share without replicas counts as one.
                *from += shift.from.map_or(0, |share| share.replicas.unwrap_or(1)) * objects;
                *to += shift.to.map_or(0, |share| share.replicas.unwrap_or(1)) * objects;
            }
        }
    }
    let mut shares: Vec<_> = sums.into_iter().map(|(group, (from, to))| (group, from, to)).collect();
    shares.sort_by(|a, b| (b.2 - b.1).abs().cmp(&(a.2 - a.1).abs()).then_with(|| a.0.cmp(&b.0)));
    shares
}

fn group_shifts(change: &PlacementChange) -> Vec<ShareShift<'_>> {
    let mut shifts: Vec<ShareShift<'_>> = Vec::new();
    for shift in &change.clusters {
        match shifts.iter_mut().find(|known| (known.from, known.to) == (shift.from, shift.to)) {
            Some(known) => known.clusters.push(&shift.name),
            None => shifts.push(ShareShift { from: shift.from, to: shift.to, clusters: vec![&shift.name] }),
        }
    }
    shifts
}

/// Manifests that changed in the same way.
pub(super) struct ManifestChanges<'d> {
    pub(super) kind: ObjectChangeKind,
    /// Whether the clusters get the object, and other clusters had it: its manifest is compared with theirs.
    pub(super) new_here: bool,
    /// The objects, by the clusters concerned.
    pub(super) places: Vec<(Vec<&'d ClusterName>, Vec<&'d ObjectRef>)>,
    /// The changed fields, without replicas, which the placements show.
    pub(super) paths: Vec<&'d PathChange>,
    /// The unified diff of the first object in its first cluster.
    pub(super) diff: &'d str,
    /// The number of different manifests, of which the diff shows one.
    pub(super) variants: usize,
    /// The edits that cause the changes, by their numbers.
    pub(super) caused_by: Vec<usize>,
    /// Whether pods restart.
    pub(super) restarts_pods: bool,
    /// The values of each object, where many objects change the same fields to different values: first those that follow
    /// no pattern, by name. Empty where all objects have the values in `paths`.
    pub(super) variations: Vec<FieldVariation<'d>>,
}

/// Objects that change the same fields to the same values, or in the same part of their values.
pub(super) struct FieldVariation<'d> {
    pub(super) objects: Vec<&'d ObjectRef>,
    /// The clusters concerned, sorted.
    pub(super) clusters: Vec<&'d ClusterName>,
    /// Each changed field.
    pub(super) fields: Vec<FieldEdit<'d>>,
    /// Whether the fields are the parts that change, and the rest of each value stays.
    pub(super) is_pattern: bool,
}

/// A field with what it was and is: a value, or the part of it that changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldEdit<'d> {
    pub(super) path: &'d str,
    pub(super) from: String,
    pub(super) to: String,
}

impl<'d> ManifestChanges<'d> {
    fn from_change(change: &'d ObjectChange) -> Self {
        let places = vec![(change.clusters.iter().collect(), vec![&change.object])];
        let paths = changed_fields(change);
        // A new cluster whose manifest differs from that of the other clusters is also a change.
        let new_here = change.kind == ObjectChangeKind::Added && change.elsewhere && !paths.is_empty();
        let kind = if new_here { ObjectChangeKind::Changed } else { change.kind };
        Self {
            kind,
            new_here,
            places,
            paths,
            diff: &change.diff,
            variants: 1,
            caused_by: change.caused_by.clone(),
            restarts_pods: change.restarts_pods,
            variations: Vec::new(),
        }
    }

    /// All objects, sorted.
    pub(super) fn sorted_objects(&self) -> Vec<&'d ObjectRef> {
        let mut objects: Vec<_> =
            self.places.iter().flat_map(|(_, objects)| objects.iter().copied()).collect();
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    /// All clusters, sorted.
    pub(super) fn sorted_clusters(&self) -> Vec<&'d ClusterName> {
        let mut names: Vec<_> = self.places.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What the diff is about, if it is not what the clusters had before.
    pub(super) fn comparison_note(&self) -> &'static str {
        if self.new_here { " (newly placed there, compared with its manifest in other clusters)" } else { "" }
    }

    /// Whether all objects have the same clusters.
    pub(super) fn is_even(&self) -> bool {
        self.places.len() == 1
    }

    /// Adds another object, or another manifest of the same object.
    fn add_change(&mut self, change: &'d ObjectChange) {
        self.caused_by.extend(&change.caused_by);
        self.restarts_pods |= change.restarts_pods;
        if self.kind == ObjectChangeKind::Added {
            self.variants += 1;
        }
        // Changes of one object are adjacent.
        match self.places.last_mut() {
            Some((clusters, objects)) if objects.as_slice() == [&change.object] => {
                clusters.extend(&change.clusters);
                clusters.sort_unstable();
            }
            _ => self.places.push((change.clusters.iter().collect(), vec![&change.object])),
        }
    }

    /// Merges objects with the same clusters.
    fn merge_equal(&mut self) {
        let mut places: BTreeMap<Vec<&ClusterName>, Vec<&ObjectRef>> = BTreeMap::new();
        for (clusters, objects) in std::mem::take(&mut self.places) {
            places.entry(clusters).or_default().extend(objects);
        }
        self.places = places.into_iter().collect();
    }
}

/// The changed fields, without replicas, which the placement shows.
fn changed_fields(change: &ObjectChange) -> Vec<&PathChange> {
    change.paths.iter().filter(|path| Some(&path.path) != change.replicas_at.as_ref()).collect()
}

/// The workloads whose pods restart, with the clusters.
pub(super) fn restarted_workloads(changes: &RenderingChanges) -> Vec<(&ObjectRef, &[ClusterName])> {
    let restarted = changes.objects.iter().filter(|change| change.restarts_pods);
    restarted.map(|change| (&change.object, change.clusters.as_slice())).collect()
}

/// Says how many manifests are not shown, because the changes of placements say enough about them.
pub(super) fn not_shown(changes: &RenderingChanges) -> Option<String> {
    let scaled = changes.objects.iter().filter(|change| is_scaled(change));
    let scaled: usize = scaled.map(|change| change.clusters.len()).sum();
    let copies = changes.objects.iter().filter(|change| is_copy(changes, change));
    let copies: usize = copies.map(|change| change.clusters.len()).sum();
    let mut parts = Vec::new();
    if scaled > 0 {
        parts.push(format!("{} in which only replicas differ", format_count(scaled, "changed manifest")));
    }
    if copies > 0 {
        parts.push(format!("{} as in other clusters", format_count(copies, "added manifest")));
    }
    (!parts.is_empty()).then(|| format!("not shown: {}", parts.join(", ")))
}

/// Whether only replicas differ, which the placement shows.
fn is_scaled(change: &ObjectChange) -> bool {
    change.kind == ObjectChangeKind::Changed && change.replicas_at.is_some() && change.paths.len() == 1
}

/// Manifests that are new or differ in more than replicas, grouped by similar change. Deleted ones are shown
/// as pruned.
pub(super) fn group_entries(changes: &RenderingChanges) -> Vec<ManifestChanges<'_>> {
    let mut entries = fold_entries(entries_in_full(changes));
    entries.iter_mut().for_each(ManifestChanges::merge_equal);
    entries
}

/// The same, with an entry for each change that differs in any value.
pub(super) fn entries_in_full(changes: &RenderingChanges) -> Vec<ManifestChanges<'_>> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut entries: Vec<ManifestChanges<'_>> = Vec::new();
    for change in &changes.objects {
        let fields = changed_fields(change);
        let alike = match change.kind {
            ObjectChangeKind::Removed => continue,
            ObjectChangeKind::Changed if is_scaled(change) => continue,
            ObjectChangeKind::Added if !change.elsewhere => format!("{:?}", change.object),
            ObjectChangeKind::Added if is_copy(changes, change) => continue,
            kind if fields.is_empty() => format!("{kind:?}{:?}{}", change.object, change.diff),
            // What a cluster newly receives is compared with other clusters, so its replicas may differ as well.
            kind => format!("{kind:?}{fields:?}"),
        };
        let next = entries.len();
        let at = *known.entry(alike).or_insert(next);
        match entries.get_mut(at) {
            Some(entry) => entry.add_change(change),
            None => entries.push(ManifestChanges::from_change(change)),
        }
    }
    entries
}

/// How many changes of the same fields are shown one by one, and how many objects follow a pattern at least.
const MAX_SINGLE_ENTRIES: usize = 3;

/// Entries that change the same fields of one kind, by their indexes.
type EntriesByFields<'d> = BTreeMap<(&'d str, bool, Vec<&'d str>), Vec<usize>>;

/// Folds changes of the same fields of one kind to different values, such as the images of many apps, into one entry that
/// has every value. A value that does not fit in a line stays in an entry of its own, with its manifest.
fn fold_entries(mut entries: Vec<ManifestChanges<'_>>) -> Vec<ManifestChanges<'_>> {
    let mut alike = EntriesByFields::new();
    for (at, entry) in entries.iter().enumerate() {
        let kind = entry.places.first().and_then(|(_, objects)| Some(objects.first()?.kind.as_str()));
        let paths: Vec<&str> = entry.paths.iter().map(|path| path.path.as_str()).collect();
        if let Some(kind) = kind.filter(|_| {
            entry.kind == ObjectChangeKind::Changed
                && !paths.is_empty()
                && entry.paths.iter().all(|path| fits_in_line(path))
        }) {
            alike.entry((kind, entry.new_here, paths)).or_default().push(at);
        }
    }
    let mut is_folded = vec![false; entries.len()];
    for group in alike.into_values().filter(|group| group.len() > MAX_SINGLE_ENTRIES) {
        let variations = group_variations(group.iter().filter_map(|at| entries.get(*at)));
        let (mut places, mut caused_by) = (Vec::new(), Vec::new());
        for at in group.iter().skip(1) {
            is_folded.iter_mut().skip(*at).take(1).for_each(|is_folded| *is_folded = true);
            if let Some(entry) = entries.get_mut(*at) {
                places.append(&mut entry.places);
                caused_by.append(&mut entry.caused_by);
            }
        }
        if let Some(first) = group.first().and_then(|at| entries.get_mut(*at)) {
            first.places.extend(places);
            first.caused_by.extend(caused_by);
            first.variations = variations;
        }
    }
    let mut is_folded = is_folded.into_iter();
    entries.retain(|_| !is_folded.next().unwrap_or(false));
    entries
}

/// The values of entries that change the same fields. More than [`MAX_SINGLE_ENTRIES`] that follow one pattern are one variation;
/// every other one stands for itself, before them.
fn group_variations<'d, 'e>(entries: impl Iterator<Item = &'e ManifestChanges<'d>>) -> Vec<FieldVariation<'d>>
where
    'd: 'e,
{
    let mut by_pattern: BTreeMap<Vec<FieldEdit<'d>>, Vec<&'e ManifestChanges<'d>>> = BTreeMap::new();
    for entry in entries {
        let pattern = entry.paths.iter().map(|path| FieldEdit::from_differing_parts(path)).collect();
        by_pattern.entry(pattern).or_default().push(entry);
    }
    let (mut outliers, mut patterns) = (Vec::new(), Vec::new());
    for (pattern, entries) in by_pattern {
        if entries.len() > MAX_SINGLE_ENTRIES {
            patterns.push(FieldVariation::new(&entries, pattern, true));
            continue;
        }
        for entry in entries {
            let fields = entry.paths.iter().map(|path| FieldEdit::from_values(path)).collect();
            outliers.push(FieldVariation::new(&[entry], fields, false));
        }
    }
    outliers.sort_by(|a, b| a.objects.cmp(&b.objects));
    patterns.sort_by(|a, b| (a.objects.len(), &a.objects).cmp(&(b.objects.len(), &b.objects)));
    outliers.into_iter().chain(patterns).collect()
}

impl<'d> FieldVariation<'d> {
    fn new(entries: &[&ManifestChanges<'d>], fields: Vec<FieldEdit<'d>>, is_pattern: bool) -> Self {
        let mut objects: Vec<&ObjectRef> = entries.iter().flat_map(|entry| entry.sorted_objects()).collect();
        let mut clusters: Vec<&ClusterName> =
            entries.iter().flat_map(|entry| entry.sorted_clusters()).collect();
        objects.sort_unstable();
        objects.dedup();
        clusters.sort_unstable();
        clusters.dedup();
        Self { objects, clusters, fields, is_pattern }
    }
}

impl<'d> FieldEdit<'d> {
    /// The field with its values.
    pub(super) fn from_values(path: &'d PathChange) -> Self {
        let (from, to) = format_values(path);
        Self { path: &path.path, from, to }
    }

    /// The field with the parts of its values that differ, with the signs around them, so that `:1 → :2` and `1. → 2.` are
    /// two patterns.
    fn from_differing_parts(path: &'d PathChange) -> Self {
        let (Some(Value::String(from)), Some(Value::String(to))) = (&path.from, &path.to) else {
            return Self::from_values(path);
        };
        let [from, to] = differing_parts(from, to);
        Self { path: &path.path, from: escape_text(&from), to: escape_text(&to) }
    }
}

/// Signs that divide a value into parts that mean something: the host, the name and the tag of an image, the name and the
/// value of an argument.
fn is_divider(c: char) -> bool {
    matches!(c, '/' | ':' | '@' | ',' | '=' | ';' | '"' | '\'') || c.is_whitespace()
}

/// The parts of two texts that differ, as whole words with the signs that divide them from the rest.
fn differing_parts(from: &str, to: &str) -> [String; 2] {
    let [from, to] = [from, to].map(|text| text.chars().collect::<Vec<char>>());
    let shorter = from.len().min(to.len());
    let mut start = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    while start > 0 && from.get(start - 1).is_some_and(|c| !is_divider(*c)) {
        start -= 1;
    }
    let rest = shorter - start;
    let mut end = from.iter().rev().zip(to.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    while end > 0 && from.get(from.len() - end).is_some_and(|c| !is_divider(*c)) {
        end -= 1;
    }
    // The signs around the words belong to the pattern.
    let (start, end) = (start.saturating_sub(1), end.saturating_sub(1));
    [from, to].map(|text| text.get(start..text.len() - end).unwrap_or_default().iter().collect())
}

/// Whether clusters are new to the object, which the placement shows, and its manifest is that of other clusters.
fn is_copy(changes: &RenderingChanges, change: &ObjectChange) -> bool {
    change.kind == ObjectChangeKind::Added
        && change.elsewhere
        && changed_fields(change).is_empty()
        && is_shown_by_placement(changes, change)
}

/// Whether the change of the placement already shows that these clusters are new.
fn is_shown_by_placement(changes: &RenderingChanges, change: &ObjectChange) -> bool {
    let row = changes.placements.binary_search_by(|row| row.object.cmp(&change.object));
    let Some(row) = row.ok().and_then(|at| changes.placements.get(at)) else { return false };
    change.clusters.iter().all(|name| row.clusters.iter().any(|s| s.name == *name && s.from.is_none()))
}

/// Numbers of changes in one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClusterTally {
    pub(super) replicas: i64,
    pub(super) added: usize,
    pub(super) changed: usize,
    pub(super) removed: usize,
}

/// The numbers of every cluster with changes, grouped by equal numbers, most changes first.
pub(super) fn tally_clusters(changes: &RenderingChanges) -> Vec<(ClusterTally, Vec<&ClusterName>)> {
    let mut by_cluster: BTreeMap<&ClusterName, ClusterTally> = BTreeMap::new();
    for shift in changes.placements.iter().flat_map(|row| &row.clusters) {
        by_cluster.entry(&shift.name).or_default().replicas +=
            count_replicas(shift.to) - count_replicas(shift.from);
    }
    for change in &changes.objects {
        for name in &change.clusters {
            let tally = by_cluster.entry(name).or_default();
            match change.kind {
                ObjectChangeKind::Added => tally.added += 1,
                ObjectChangeKind::Changed => tally.changed += 1,
                ObjectChangeKind::Removed => tally.removed += 1,
            }
        }
    }
    let mut alike: BTreeMap<ClusterTally, Vec<&ClusterName>> = BTreeMap::new();
    for (name, tally) in by_cluster {
        alike.entry(tally).or_default().push(name);
    }
    let mut tallies: Vec<_> = alike.into_iter().collect();
    tallies.sort_by_key(|(tally, names)| {
        (std::cmp::Reverse(tally.added + tally.changed + tally.removed), names.first().copied())
    });
    tallies
}
