//! What a change causes, as text, as a comment for a pull request, and as JSON.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::cluster_names::{count_fitting, find_missing};
use super::clusters::ClusterRow;
use super::findings::FindingRow;
use super::table::{count_with_verb, format_count};
use cluster_sets::ClusterSetNames;
use destinations::count_destinations;
use federate_dialect::plan::API_VERSION;
use federate_engine::capacity::CapacityChanges;
use federate_engine::change::{
    ClusterShare, ObjectChangeKind, PathChange, PlacementChange, PlacementChangeKind, RenderingChanges,
};
use federate_engine::deletions::ExcessiveDeletions;
use federate_kubernetes::display_text::escape_text;
use federate_kubernetes::finding::count_replicas;
use federate_kubernetes::{ClusterName, ObjectRef};

mod changed_sources;
mod cluster_sets;
mod destinations;
pub(crate) mod edits;
mod fit;
mod groups;
pub(crate) mod lost_policies;
pub mod markdown;
pub(crate) mod setting_changes;
pub mod text;
mod verdict;

pub use verdict::{ChangeVerdict, ObjectVerdict, VerdictCounts, VerdictFlag};

/// The diff of two renderings, for JSON.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Diff`.
    pub kind: &'static str,
    /// The name of the earlier side.
    pub from: &'a str,
    /// The name of the later side.
    pub to: &'a str,
    /// What matters about the differences.
    pub verdict: ChangeVerdict,
    /// All differences.
    #[serde(flatten)]
    pub changes: &'a RenderingChanges,
    /// The clusters of both sides, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<ClusterRow>,
    /// What is requested of each cluster and free in it, by cluster and resource.
    #[serde(default, skip_serializing_if = "CapacityChanges::is_empty")]
    pub capacity: CapacityChanges,
    /// The deletions by which publishing the later side exceeds the limit; left out if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_guard: Option<ExcessiveDeletions>,
    /// Errors and warnings that only the later side has.
    pub findings: Vec<FindingRow>,
    /// Errors and warnings that only the earlier side has.
    pub resolved: Vec<FindingRow>,
    /// Whether the earlier side has no clusters, so that everything that is placed is new.
    #[serde(skip)]
    pub is_first: bool,
}

impl<'a> Diff<'a> {
    /// The changes with the names of the two sides, without findings.
    pub fn new(from: &'a str, to: &'a str, changes: &'a RenderingChanges) -> Self {
        let capacity = CapacityChanges::new();
        Self {
            api_version: API_VERSION,
            kind: "Diff",
            from,
            to,
            verdict: ChangeVerdict::new(changes, &capacity),
            changes,
            inventory: Vec::new(),
            capacity,
            deletion_guard: None,
            findings: Vec::new(),
            resolved: Vec::new(),
            is_first: false,
        }
    }

    /// The same with the clusters of both sides and what is free in them.
    #[must_use]
    pub fn with_clusters(self, inventory: Vec<ClusterRow>, capacity: CapacityChanges) -> Self {
        let verdict = ChangeVerdict::new(self.changes, &capacity);
        Self { verdict, inventory, capacity, ..self }
    }

    /// Why everything is new, where that is not listed; both names are formatted by `write`.
    fn describe_first(&self, write: impl Fn(&str) -> String) -> String {
        let from = write(&format_side(self.from));
        format!(
            "{from} has no clusters, so there is nothing to compare with. {} lists everything. Once {from} has the inventory, a diff \
             shows only what changes.",
            write("-v")
        )
    }

    /// The name of a set of clusters by what they have in common, if there are more than `most` and not all of them.
    fn name_set(
        &self,
        sets: &ClusterSetNames<'_>,
        names: &[&ClusterName],
        most: usize,
        write: impl Fn(&str) -> String,
    ) -> Option<String> {
        if names.len() <= most.saturating_add(1) || self.name_clusters(names, most).all > 0 {
            return None;
        }
        let names: Vec<&str> = names.iter().map(|name| &***name).collect();
        match sets.name_set(&names, &write) {
            Some((false, name)) => Some(name),
            partial => self.name_by_missing(&names, &write).or(partial.map(|(_, name)| name)),
        }
    }

    /// The name of a set of nearly all clusters of the later side.
    fn name_by_missing(&self, names: &[&str], write: &impl Fn(&str) -> String) -> Option<String> {
        let removed = &self.changes.clusters.removed;
        let inventory = self.inventory.iter().map(|row| row.name.as_str());
        let inventory: Vec<&str> =
            inventory.filter(|name| !removed.iter().any(|gone| gone.as_ref() == *name)).collect();
        let missing = find_missing(names, &inventory)?;
        let missing: Vec<String> = missing.into_iter().map(write).collect();
        Some(format!("{} of {} clusters (not {})", names.len(), inventory.len(), missing.join(", ")))
    }

    /// The names of clusters, shortened if there are many, or "all" if it is all of them.
    fn name_clusters(&self, names: &[&ClusterName], most: usize) -> Named {
        let clusters = &self.changes.clusters;
        let all = names.len() == self.changes.totals.to.clusters
            && names
                .iter()
                .all(|name| !clusters.removed.contains(name) && name.as_ref() != federate_dialect::HUB);
        if all && names.len() > 2 {
            return Named { names: Vec::new(), more: 0, all: names.len() };
        }
        let names: Vec<&str> = names.iter().map(|name| &***name).collect();
        let fitting = if most == usize::MAX { most } else { count_fitting(&names).min(most) };
        Named::take_first(&names, fitting)
    }
}

/// A summary of the changes in one sentence, without names.
fn format_headline(diff: &Diff<'_>) -> String {
    let changes = diff.changes;
    if diff.is_first {
        let to = &changes.totals.to;
        let replicas = Some(count_replicas(to.replicas)).filter(|_| to.replicas > 0);
        let replicas = replicas.map(|replicas| format!(" with {replicas}")).unwrap_or_default();
        let mut parts = vec![format!("everything is new: {}{replicas}", format_count(to.placed, "object"))];
        parts.extend(format_manifest_counts(changes));
        return parts.join("; ");
    }
    let mut parts: Vec<String> = Vec::new();
    let mut kinds: Vec<(&str, usize)> = PLACEMENT_WORDS.iter().map(|word| (*word, 0)).collect();
    for change in &changes.placements {
        let word = placement_word(change);
        if let Some((_, number)) = kinds.iter_mut().find(|(known, _)| *known == word) {
            *number += 1;
        }
    }
    for (word, number) in kinds.into_iter().filter(|(_, number)| *number > 0) {
        parts.push(if parts.is_empty() {
            format!("{} {word}", format_count(number, "object"))
        } else {
            format!("{number} {word}")
        });
    }
    let placements = parts.join(", ");
    let mut parts = Vec::new();
    if !changes.lost_policies.is_empty() {
        let verbs = ["loses its policy", "lose their policy"];
        parts.push(count_with_verb(changes.lost_policies.len(), "object", verbs));
    }
    if !changes.settings.is_empty() {
        parts.push(format_setting_count(changes.settings.len()));
    }
    parts.extend(count_destinations(changes));
    parts.push(placements);
    parts.retain(|part| !part.is_empty());
    parts.extend(format_manifest_counts(changes));
    let (from, to) = (changes.totals.from.replicas, changes.totals.to.replicas);
    if from != to {
        parts.push(format!("replicas {from} → {to} ({})", format_signed(to - from)));
    }
    for (number, what) in
        [(changes.clusters.added.len(), "joins"), (changes.clusters.removed.len(), "leaves")]
    {
        if number > 0 {
            let plural = if number == 1 { what } else { what.trim_end_matches('s') };
            parts.push(format!("{} {plural}", format_count(number, "cluster")));
        }
    }
    if parts.is_empty() {
        parts.push("decisions differ, manifests do not".to_owned());
    }
    parts.join("; ")
}

/// How many settings change that act on more than what is rendered.
fn format_setting_count(number: usize) -> String {
    count_with_verb(
        number,
        "setting",
        ["changes what is done in clusters", "change what is done in clusters"],
    )
}

/// How many manifests are added, changed and removed, one per object and cluster.
fn format_manifest_counts(changes: &RenderingChanges) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for (kind, word) in [
        (ObjectChangeKind::Added, "added"),
        (ObjectChangeKind::Changed, "changed"),
        (ObjectChangeKind::Removed, "removed"),
    ] {
        let objects = changes.objects.iter().filter(|object| object.kind == kind);
        match objects.map(|object| object.clusters.len()).sum() {
            0 => {}
            number if parts.is_empty() => {
                parts.push(format!("{} {word}", format_count(number, "manifest")));
            }
            number => parts.push(format!("{number} {word}")),
        }
    }
    let clusters: BTreeSet<&ClusterName> = changes.objects.iter().flat_map(|o| &o.clusters).collect();
    (!parts.is_empty())
        .then(|| format!("{} in {}", parts.join(", "), format_count(clusters.len(), "cluster")))
}

/// The words of [`word`] that a summary counts.
const PLACEMENT_WORDS: [&str; 8] = [
    "newly placed",
    "no longer placed",
    "moved",
    "placed on more clusters",
    "placed on fewer clusters",
    "scaled",
    "became unschedulable",
    "became schedulable",
];

/// The headings of deleted objects, and whether their clusters have left the inventory.
const PRUNED_TITLES: [(&str, bool); 2] =
    [("Deleted from clusters", false), ("Left behind in clusters that leave the inventory", true)];

/// The heading of objects that no policy matches on one side.
const UNMATCHED_TITLE: &str = "Objects without a policy";

/// The heading of objects that lose their policy.
const LOST_TITLE: &str = "Objects that lose their policy";

/// The heading of settings that act on more than what is rendered.
const SETTINGS_TITLE: &str = "Settings that act in clusters";

/// The heading of Applications, and objects of Flux with `kubeConfig`, that appear, go, or are applied to other clusters.
const DESTINATIONS_TITLE: &str = "Applications and destinations";

/// What happened to a placement.
fn placement_word(change: &PlacementChange) -> &'static str {
    // Without a share, an object is on fewer clusters than with a share of no replicas.
    let shares = change
        .clusters
        .iter()
        .map(|shift| [shift.from, shift.to].map(|share| share.map(|share| share.replicas.unwrap_or(0))));
    let added = shares.clone().all(|[from, to]| from <= to);
    let removed = shares.clone().all(|[from, to]| to <= from);
    match change.kind {
        PlacementChangeKind::Appeared => "newly placed",
        PlacementChangeKind::Disappeared => "no longer placed",
        PlacementChangeKind::Moved if added => "placed on more clusters",
        PlacementChangeKind::Moved if removed => "placed on fewer clusters",
        PlacementChangeKind::Moved => "moved",
        PlacementChangeKind::Scaled if change.replicas.is_same() => "moved",
        PlacementChangeKind::Scaled => "scaled",
        PlacementChangeKind::Policy if change.policy.to.is_none() => "left without a policy",
        PlacementChangeKind::Policy => "placed by another policy",
        PlacementChangeKind::Status => status_word(change),
    }
}

/// What happened to a placement with the same clusters and replicas.
fn status_word(change: &PlacementChange) -> &'static str {
    match (&change.unschedulable.from, &change.unschedulable.to) {
        (None, Some(_)) => "became unschedulable",
        (Some(_), None) => "became schedulable",
        (from, to) if from != to => "unschedulable for another reason",
        _ if change.resumed.is_empty() => "suspended",
        _ if change.suspended.is_empty() => "resumed",
        _ => "suspended and resumed",
    }
}

/// An object without a policy on one side only, and what changed about it.
fn unmatched_changes<'d>(diff: &'d Diff<'_>) -> Vec<(&'d ObjectRef, &'static str)> {
    let changes = diff.changes;
    // An object with a placement on the other side is one that a policy matched there, or that was placed
    // without one.
    let placements: HashMap<&ObjectRef, &PlacementChange> =
        changes.placements.iter().map(|change| (&change.object, change)).collect();
    let lost =
        |object: &ObjectRef| changes.lost_policies.binary_search_by(|lost| lost.object.cmp(object)).is_ok();
    let added = changes.unmatched.added.iter().filter(|object| !lost(object)).map(|object| {
        let what = match placements.get(object) {
            Some(change) if change.policy.from.is_none() && !change.required_by.is_empty() => {
                "followed another object before, and no longer does"
            }
            Some(change) if change.policy.from.is_none() => "placed without a policy before, and nowhere now",
            Some(_) => "no policy matches it any more",
            None => "new, and no policy matches it",
        };
        (object, what)
    });
    let removed = changes.unmatched.removed.iter().filter(|_| !diff.is_first).map(|object| {
        let what = match placements.get(object) {
            Some(change) if change.policy.to.is_none() => "placed now, without a policy",
            Some(_) => "a policy matches it now",
            None => "deleted; no policy matched it",
        };
        (object, what)
    });
    added.chain(removed).collect()
}

/// The first names of a list.
struct Named {
    names: Vec<String>,
    /// How many are left out.
    more: usize,
    /// The size of the inventory, if the list contains all clusters.
    all: usize,
}

impl Named {
    /// The first `most` names, or all if only one would be left out.
    fn take_first(names: &[&str], most: usize) -> Self {
        let shown = if names.len() <= most.saturating_add(1) { names.len() } else { most };
        let names: (Vec<&&str>, usize) = (names.iter().take(shown).collect(), names.len() - shown);
        Self { names: names.0.iter().map(|name| escape_text(name)).collect(), more: names.1, all: 0 }
    }

    /// The names joined, each formatted by `write`.
    fn join_with(&self, write: impl Fn(&str) -> String) -> String {
        if self.all > 0 {
            return format!("all {} clusters", self.all);
        }
        let names: Vec<String> = self.names.iter().map(|name| write(name)).collect();
        match self.more {
            0 => names.join(", "),
            more => format!("{} … (+{more})", names.join(", ")),
        }
    }
}

/// Objects by name, shortened if there are many.
fn name_objects(objects: &[&ObjectRef], most: usize) -> Named {
    let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
    Named::take_first(&names.iter().map(String::as_str).collect::<Vec<_>>(), most)
}

/// What a cluster receives, in a word.
fn format_share(share: Option<ClusterShare>) -> String {
    match share {
        None => "–".to_owned(),
        Some(ClusterShare { replicas: None }) => "placed".to_owned(),
        Some(ClusterShare { replicas: Some(replicas) }) => replicas.to_string(),
    }
}

/// The name of a side; a full commit hash is abbreviated.
pub(crate) fn format_side(name: &str) -> String {
    let hash = name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    escape_text(if hash { name.get(..10).unwrap_or(name) } else { name })
}

/// A number of things, to compute differences.
fn to_signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `+3`, `−2`, empty for 0.
fn format_signed(number: i64) -> String {
    match number {
        0 => String::new(),
        more if more > 0 => format!("+{more}"),
        less => format!("−{}", less.unsigned_abs()),
    }
}

/// The largest number of characters of a value in a line.
const MAX_VALUE_CHARACTERS: usize = 100;

/// The values of a field in one line each. Long texts begin shortly before they differ, so that what differs is shown.
pub fn format_values(path: &PathChange) -> (String, String) {
    let skipped = common_prefix(path);
    let [from, to] = [path.from.as_ref(), path.to.as_ref()].map(|side| match side {
        Some(Value::String(text)) if skipped > 0 && is_long(path) => {
            cut_line(&format!("…{}", escape_text(&text.chars().skip(skipped).collect::<String>())))
        }
        side => format_value(side),
    });
    (from, to)
}

/// How many characters of both values are left out of a line: those before they differ, but for the last few.
fn common_prefix(path: &PathChange) -> usize {
    const CONTEXT_CHARACTERS: usize = 20;
    let (Some(Value::String(from)), Some(Value::String(to))) = (&path.from, &path.to) else { return 0 };
    let same = from.chars().zip(to.chars()).take_while(|(a, b)| a == b).count();
    same.saturating_sub(CONTEXT_CHARACTERS)
}

fn is_long(path: &PathChange) -> bool {
    let mut texts = [&path.from, &path.to].into_iter().flatten().filter_map(Value::as_str);
    texts.any(|text| text.contains('\n') || text.chars().count() > MAX_VALUE_CHARACTERS)
}

/// Whether [`values`] shows all that differs between the values of a field.
fn fits_in_line(path: &PathChange) -> bool {
    let skipped = common_prefix(path);
    [&path.from, &path.to].into_iter().flatten().all(|side| match side {
        Value::String(text) => !text.contains('\n') && text.chars().count() - skipped < MAX_VALUE_CHARACTERS,
        other => other.to_string().chars().count() <= MAX_VALUE_CHARACTERS,
    })
}

/// A value in one line; strings are quoted only where they could be mistaken for something else.
fn format_value(value: Option<&serde_json::Value>) -> String {
    let text = match value {
        None => return "–".to_owned(),
        Some(serde_json::Value::String(text)) => text,
        Some(other) => return cut_line(&escape_text(&other.to_string())),
    };
    let lines = text.trim_end().lines().count();
    let mistaken = text.is_empty()
        || (lines < 2 && text.trim() != text)
        || matches!(text.as_str(), "true" | "false" | "null" | "–")
        || text.parse::<f64>().is_ok();
    if mistaken {
        return escape_text(&format!("{text:?}"));
    }
    match lines {
        0 | 1 => cut_line(&escape_text(text)),
        lines => {
            format!("{} ({lines} lines)", cut_line(&escape_text(text.lines().next().unwrap_or_default())))
        }
    }
}

fn cut_line(text: &str) -> String {
    let line = text.replace(['\n', '\t'], " ");
    if line.chars().count() <= MAX_VALUE_CHARACTERS {
        return line;
    }
    line.chars().take(MAX_VALUE_CHARACTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
