//! What clusters are sent, on one side and on the other.
//!
//! Most manifests are the same on both sides, and most that are not are the same in many clusters: texts are
//! compared once per pair, and read once per pair that differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::placements::{PlacementChange, Share};
use super::secret::{self, DigestKey};
use super::{PathChange, paths};
use crate::Manifest;
use federate_kubernetes::{ClusterName, ObjectRef};

/// One change of an object, with all the clusters where it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// The object.
    pub object: ObjectRef,
    /// What happened to it.
    pub kind: ObjectChangeKind,
    /// The clusters, sorted by name.
    #[schemars(with = "Vec<String>")]
    pub clusters: Vec<ClusterName>,
    /// Whether other clusters had it before (of what was added), or still have it (of what was removed).
    pub elsewhere: bool,
    /// The field that holds the replicas of which the placement's change tells, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_at: Option<String>,
    /// The fields that differ; none for what is new or gone, nor where only the order of items or the
    /// way of writing differs. What further clusters receive is compared with what is most like it of all
    /// that clusters had before.
    pub paths: Vec<PathChange>,
    /// The difference of the manifests in the first of the clusters, as a unified diff without head.
    pub diff: String,
}

/// What happened to an object in some clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectChangeKind {
    /// They had none.
    Added,
    /// They had another.
    Changed,
    /// They have none.
    Removed,
}

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Compares what is sent.
pub(super) fn compare(
    from: &[Manifest],
    to: &[Manifest],
    placements: &[PlacementChange],
    key: &DigestKey,
) -> Vec<ObjectChange> {
    let mut objects: BTreeMap<&ObjectRef, [Vec<&Manifest>; 2]> = BTreeMap::new();
    for (side, manifests) in [from, to].into_iter().enumerate() {
        for manifest in manifests {
            objects.entry(&manifest.object).or_default()[side].push(manifest);
        }
    }
    let differing: Vec<_> = objects.into_iter().filter(|(_, sides)| !is_same(sides)).collect();
    let one = |(object, sides): &(&ObjectRef, [Vec<&Manifest>; 2])| {
        let placement = placements.binary_search_by(|change| change.object.cmp(object));
        let placement = placement.ok().and_then(|at| placements.get(at));
        changes(object, sides, placement, key)
    };
    differing.par_iter().flat_map_iter(one).collect()
}

/// Whether the same clusters receive the same; told without looking at single clusters.
fn is_same([from, to]: &[Vec<&Manifest>; 2]) -> bool {
    let same = |a: &Manifest, b: &Manifest| {
        a.clusters == b.clusters && (Arc::ptr_eq(&a.text, &b.text) || a.text == b.text)
    };
    from.len() == to.len() && from.iter().zip(to).all(|(a, b)| same(a, b))
}

/// The texts that some clusters had and have.
type Texts<'m> = (Option<&'m str>, Option<&'m str>);

fn changes(
    object: &ObjectRef,
    sides: &[Vec<&Manifest>; 2],
    placement: Option<&PlacementChange>,
    key: &DigestKey,
) -> Vec<ObjectChange> {
    // By which change it is: fields and values, or else the texts themselves.
    let mut groups: BTreeMap<(ObjectChangeKind, String), (Both, ObjectChange)> = BTreeMap::new();
    for (texts, clusters) in pairs(sides) {
        let kind = match texts {
            (None, _) => ObjectChangeKind::Added,
            (_, None) => ObjectChangeKind::Removed,
            _ => ObjectChangeKind::Changed,
        };
        let both = match texts {
            (None, Some(to)) => nearest(&sides[0], to, key),
            texts => Both::read(texts, key),
        };
        let paths = both.paths();
        let same = if paths.is_empty() { both.diff() } else { format!("{paths:?}") };
        let elsewhere = match kind {
            ObjectChangeKind::Added => !sides[0].is_empty(),
            ObjectChangeKind::Changed => true,
            ObjectChangeKind::Removed => !sides[1].is_empty(),
        };
        let replicas_at = replicas_at(&paths, &clusters, placement);
        let (object, diff) = (object.clone(), String::new());
        let change = ObjectChange { object, kind, clusters, elsewhere, replicas_at, paths, diff };
        match groups.entry((kind, same)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((both, change));
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let (_, known) = entry.get_mut();
                known.replicas_at =
                    known.replicas_at.take().filter(|at| change.replicas_at.as_ref() == Some(at));
                known.clusters.extend(change.clusters);
            }
        }
    }
    let mut changes: Vec<ObjectChange> = groups
        .into_values()
        .map(|(both, mut change)| {
            change.clusters.sort_unstable();
            change.diff = both.diff();
            change
        })
        .collect();
    changes.sort_by(|a, b| (a.kind, &a.clusters).cmp(&(b.kind, &b.clusters)));
    changes
}

/// The pairs of texts that differ, with the clusters of each.
fn pairs<'m>(sides: &[Vec<&'m Manifest>; 2]) -> Vec<(Texts<'m>, Vec<ClusterName>)> {
    let mut by_cluster: BTreeMap<&ClusterName, [Option<usize>; 2]> = BTreeMap::new();
    for (side, manifests) in sides.iter().enumerate() {
        for (at, manifest) in manifests.iter().enumerate() {
            for cluster in manifest.clusters.iter() {
                by_cluster.entry(cluster).or_default()[side] = Some(at);
            }
        }
    }
    let mut by_pair: BTreeMap<[Option<usize>; 2], Vec<ClusterName>> = BTreeMap::new();
    for (cluster, pair) in by_cluster {
        by_pair.entry(pair).or_default().push(cluster.clone());
    }
    let text = |side: usize, at: Option<usize>| Some(&*sides[side].get(at?)?.text);
    by_pair
        .into_iter()
        .map(|([from, to], clusters)| ((text(0, from), text(1, to)), clusters))
        .filter(|((from, to), _)| from != to)
        .collect()
}

/// Manifests of the earlier side that are looked at for the one most like a new one.
const LIKELY: usize = 8;

/// What a further cluster receives, with what is most like it of all that clusters had before.
fn nearest(from: &[&Manifest], to: &str, key: &DigestKey) -> Both {
    if from.iter().any(|manifest| *manifest.text == *to) {
        return Both::read((Some(to), Some(to)), key);
    }
    let had = from.iter().take(LIKELY).map(|manifest| Both::read((Some(&manifest.text), Some(to)), key));
    had.min_by_key(|both| unlike(&both.paths())).unwrap_or_else(|| Both::read((None, Some(to)), key))
}

/// How unlike two manifests are: fields first, then characters besides those that values begin and end with.
fn unlike(paths: &[PathChange]) -> (usize, usize) {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string).unwrap_or_default();
    let apart = |path: &PathChange| {
        let (from, to) = (text(&path.from), text(&path.to));
        let head = from.bytes().zip(to.bytes()).take_while(|(a, b)| a == b).count();
        let shorter = from.len().min(to.len()) - head;
        let tail = from.bytes().rev().zip(to.bytes().rev()).take(shorter).take_while(|(a, b)| a == b).count();
        from.len() + to.len() - 2 * (head + tail)
    };
    (paths.len(), paths.iter().map(apart).sum())
}

/// The field that differs by just the replicas that the placement gives each of the clusters.
fn replicas_at(
    paths: &[PathChange],
    clusters: &[ClusterName],
    placement: Option<&PlacementChange>,
) -> Option<String> {
    let placement = placement?;
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_i64);
    let share = |share: Option<Share>| share.and_then(|share| share.replicas);
    let told = |path: &&PathChange| {
        let (from, to) = (number(&path.from), number(&path.to));
        let by = |name: &ClusterName| {
            let shift = placement.clusters.iter().find(|shift| shift.name == *name);
            // What a further cluster is compared with is another one's, with that one's replicas.
            shift.is_some_and(|shift| {
                (shift.from.is_none() || share(shift.from) == from) && share(shift.to) == to
            })
        };
        from.is_some() && to.is_some() && clusters.iter().all(by)
    };
    paths.iter().find(told).map(|path| path.path.clone())
}

/// A manifest before and after, without secret values.
struct Both {
    values: [Option<Value>; 2],
    texts: [String; 2],
}

impl Both {
    fn read((from, to): Texts<'_>, key: &DigestKey) -> Self {
        let mut values = [from, to].map(|text| text.map(value));
        let mut sides: Vec<&mut Value> = values.iter_mut().flatten().collect();
        let hidden = secret::hide(&mut sides, key);
        let shown = |text: Option<&str>, value: &Option<Value>| match value {
            Some(value) if hidden || !value.is_object() => {
                let mut out = String::new();
                federate_yaml::write(value, &mut out);
                out
            }
            _ => text.unwrap_or_default().to_owned(),
        };
        let texts = [shown(from, &values[0]), shown(to, &values[1])];
        Self { values, texts }
    }

    fn paths(&self) -> Vec<PathChange> {
        match &self.values {
            [Some(from), Some(to)] => paths(from, to),
            _ => Vec::new(),
        }
    }

    fn diff(&self) -> String {
        let [from, to] = &self.texts;
        let every = |sign: &str, text: &str| text.lines().flat_map(|line| [sign, line, "\n"]).collect();
        match &self.values {
            [None, _] => every("+", to),
            [_, None] => every("-", from),
            _ => TextDiff::from_lines(from, to)
                .unified_diff()
                .context_radius(CONTEXT)
                .missing_newline_hint(false)
                .to_string(),
        }
    }
}

/// What a manifest says. What an earlier run left behind may have been changed by hand until it is no YAML;
/// then nothing of it is shown.
fn value(text: &str) -> Value {
    let mut stream = federate_yaml::read(text.as_bytes());
    match stream.documents.pop() {
        Some(document) if stream.errors.is_empty() => document.value,
        _ => Value::from("(cannot be read)"),
    }
}
