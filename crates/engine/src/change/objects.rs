//! Compares the manifests of both sides.
//!
//! Most manifests are the same on both sides, and most others are the same in many clusters. Texts are therefore
//! compared once per pair, and parsed once per pair that differs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::digest::DigestKey;
use super::placements::PlacementChange;
use super::secret;
use super::{PathChange, diff_paths, sequence};
use crate::Manifest;
use crate::restart::restarts_pods;
use federate_kubernetes::{ClusterName, ObjectRef};

/// One change of an object, with all clusters that have the same change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// The object.
    pub object: ObjectRef,
    /// The kind of change.
    pub kind: ObjectChangeKind,
    /// The clusters, sorted by name.
    #[schemars(with = "Vec<String>")]
    pub clusters: Vec<ClusterName>,
    /// For an added object, whether other clusters had it before. For a removed one, whether other clusters still
    /// have it.
    #[serde(rename = "onOtherClusters")]
    pub elsewhere: bool,
    /// The path of the replicas field, if it differs exactly as the change of the placement says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_at: Option<String>,
    /// The fields that differ. Empty for an object that was added or removed, and if only the order of items or the
    /// formatting differs. The manifest of an additional cluster is compared with the most similar manifest that any
    /// cluster had before.
    pub paths: Vec<PathChange>,
    /// The unified diff of the manifests in the first cluster, without file headers.
    pub diff: String,
    /// Whether the change replaces the pods of a running workload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarts_pods: bool,
    /// How many pods it replaces in these clusters; left out if it replaces none, or if their number is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<i64>,
    /// The edits that cause the change, by their numbers in `causes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caused_by: Vec<usize>,
}

/// The kind of change of an object in some clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectChangeKind {
    /// The clusters did not have the object.
    Added,
    /// The clusters had another manifest of the object.
    Changed,
    /// The clusters no longer have the object.
    Removed,
}

/// Kinds that replace their pods like those of Kubernetes, as `Kind.group`.
const ROLLING_KINDS: [&str; 1] = ["Rollout.argoproj.io"];

/// The number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// Compares the manifests of both sides.
pub(super) fn compare_manifests(
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
    differing
        .par_iter()
        .flat_map_iter(|(object, sides)| {
            let placement = placements.binary_search_by(|change| change.object.cmp(object));
            let placement = placement.ok().and_then(|at| placements.get(at));
            object_changes(object, sides, placement, key)
        })
        .collect()
}

/// Whether the same clusters receive the same manifests. This check does not look at single clusters.
fn is_same([from, to]: &[Vec<&Manifest>; 2]) -> bool {
    from.len() == to.len()
        && from
            .iter()
            .zip(to)
            .all(|(a, b)| a.clusters == b.clusters && (Arc::ptr_eq(&a.text, &b.text) || a.text == b.text))
}

/// The earlier and the later text of some clusters.
type Texts<'m> = (Option<&'m str>, Option<&'m str>);

fn object_changes(
    object: &ObjectRef,
    sides: &[Vec<&Manifest>; 2],
    placement: Option<&PlacementChange>,
    key: &DigestKey,
) -> Vec<ObjectChange> {
    // The key identifies the change: its fields and values or, if there are none, the texts.
    let mut groups: BTreeMap<(ObjectChangeKind, String), (ManifestPair, ObjectChange)> = BTreeMap::new();
    for (texts, clusters) in pair_texts(sides) {
        let kind = match texts {
            (None, _) => ObjectChangeKind::Added,
            (_, None) => ObjectChangeKind::Removed,
            _ => ObjectChangeKind::Changed,
        };
        let pair = match texts {
            (None, Some(to)) => pair_with_nearest(&sides[0], to, key),
            texts => ManifestPair::from_texts(texts, key),
        };
        let paths = pair.differing_paths();
        let identity = if paths.is_empty() { pair.unified_diff() } else { format!("{paths:?}") };
        let elsewhere = match kind {
            ObjectChangeKind::Added => !sides[0].is_empty(),
            ObjectChangeKind::Changed => true,
            ObjectChangeKind::Removed => !sides[1].is_empty(),
        };
        let replicas_at = replicas_at(&paths, &clusters, placement);
        let (object, diff) = (object.clone(), String::new());
        let change = ObjectChange {
            object,
            kind,
            clusters,
            elsewhere,
            replicas_at,
            paths,
            diff,
            restarts_pods: kind == ObjectChangeKind::Changed && pair.restarts_pods(),
            pods: None,
            caused_by: Vec::new(),
        };
        match groups.entry((kind, identity)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((pair, change));
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
        .map(|(pair, mut change)| {
            change.clusters.sort_unstable();
            change.diff = pair.unified_diff();
            change
        })
        .collect();
    changes.sort_by(|a, b| (a.kind, &a.clusters).cmp(&(b.kind, &b.clusters)));
    changes
}

/// Returns the pairs of texts that differ, with the clusters of each pair.
fn pair_texts<'m>(sides: &[Vec<&'m Manifest>; 2]) -> Vec<(Texts<'m>, Vec<ClusterName>)> {
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
    let texts = by_pair.into_iter().map(|([from, to], clusters)| {
        let from = from.and_then(|at| sides[0].get(at)).map(|manifest| &*manifest.text);
        let to = to.and_then(|at| sides[1].get(at)).map(|manifest| &*manifest.text);
        ((from, to), clusters)
    });
    texts.filter(|((from, to), _)| from != to).collect()
}

/// The number of earlier manifests that are compared with the manifest of an additional cluster.
const MAX_CANDIDATES: usize = 8;

/// Pairs the manifest of an additional cluster with the most similar earlier manifest.
fn pair_with_nearest(from: &[&Manifest], to: &str, key: &DigestKey) -> ManifestPair {
    if from.iter().any(|manifest| *manifest.text == *to) {
        return ManifestPair::from_texts((Some(to), Some(to)), key);
    }
    let nearest = from
        .iter()
        .take(MAX_CANDIDATES)
        .map(|manifest| ManifestPair::from_texts((Some(&manifest.text), Some(to)), key))
        .min_by_key(|pair| compute_distance(&pair.differing_paths()));
    nearest.unwrap_or_else(|| ManifestPair::from_texts((None, Some(to)), key))
}

/// Returns the distance between two manifests: the number of fields that differ, then the number of characters
/// without the common prefix and suffix of the values.
fn compute_distance(paths: &[PathChange]) -> (usize, usize) {
    (
        paths.len(),
        paths
            .iter()
            .map(|path| {
                let [from, to] = [&path.from, &path.to]
                    .map(|value| value.as_ref().map(Value::to_string).unwrap_or_default());
                let prefix = from.bytes().zip(to.bytes()).take_while(|(a, b)| a == b).count();
                let shorter = from.len().min(to.len()) - prefix;
                let suffix = from
                    .bytes()
                    .rev()
                    .zip(to.bytes().rev())
                    .take(shorter)
                    .take_while(|(a, b)| a == b)
                    .count();
                from.len() + to.len() - 2 * (prefix + suffix)
            })
            .sum(),
    )
}

/// Returns the path of the field that differs exactly by the replicas of the placement, in each of the clusters.
fn replicas_at(
    paths: &[PathChange],
    clusters: &[ClusterName],
    placement: Option<&PlacementChange>,
) -> Option<String> {
    let placement = placement?;
    paths
        .iter()
        .find(|path| {
            let from = path.from.as_ref().and_then(Value::as_i64);
            let to = path.to.as_ref().and_then(Value::as_i64);
            from.is_some()
                && to.is_some()
                && clusters.iter().all(|name| {
                    let shift = placement.clusters.iter().find(|shift| shift.name == *name);
                    // An additional cluster is compared with the manifest of another cluster, which has other replicas.
                    shift.is_some_and(|shift| {
                        shift.from.is_none_or(|share| share.replicas == from)
                            && shift.to.and_then(|share| share.replicas) == to
                    })
                })
        })
        .map(|path| path.path.clone())
}

/// An earlier and a later manifest, without secret values.
struct ManifestPair {
    values: [Option<Value>; 2],
    texts: [String; 2],
}

impl ManifestPair {
    fn from_texts((from, to): Texts<'_>, key: &DigestKey) -> Self {
        let mut values = [from, to].map(|text| text.map(parse_manifest));
        let mut sides: Vec<&mut Value> = values.iter_mut().flatten().collect();
        let hidden = secret::hide_secret_values(&mut sides, key);
        let mut texts = [from, to].map(|text| text.unwrap_or_default().to_owned());
        for (text, value) in texts.iter_mut().zip(&values) {
            if let Some(value) = value.as_ref().filter(|value| hidden || !value.is_object()) {
                text.clear();
                federate_yaml::write_document(value, text);
            }
        }
        Self { values, texts }
    }

    fn differing_paths(&self) -> Vec<PathChange> {
        match &self.values {
            [Some(from), Some(to)] => {
                let mut changes = diff_paths(from, to);
                changes.iter_mut().for_each(say_encrypted);
                changes
            }
            _ => Vec::new(),
        }
    }

    /// Whether a running workload replaces its pods.
    fn restarts_pods(&self) -> bool {
        let rolling = ROLLING_KINDS.map(str::to_owned);
        matches!(&self.values, [Some(from), Some(to)] if restarts_pods(from, to, &rolling))
    }

    fn unified_diff(&self) -> String {
        let [from, to] = &self.texts;
        match &self.values {
            [None, _] => sequence::sign_lines("+", to.lines()),
            [_, None] => sequence::sign_lines("-", from.lines()),
            _ => sequence::unified_diff(from, to, CONTEXT_LINES),
        }
    }
}

/// Says of a value that SOPS encrypted only that it has changed: its digest tells nothing to a reader.
pub(super) fn say_encrypted(change: &mut PathChange) {
    let both = [&change.from, &change.to].map(|value| value.as_ref().is_some_and(secret::is_encrypted_text));
    if both == [true, true] {
        change.from = Some(Value::from("(encrypted)"));
        change.to = Some(Value::from("changed (encrypted)"));
    }
}

/// Parses a manifest. The output of an earlier run may have been edited by hand until it is not valid YAML; such text
/// is never shown.
fn parse_manifest(text: &str) -> Value {
    let mut stream = federate_yaml::read_stream(text.as_bytes());
    match stream.documents.pop() {
        Some(document) if stream.errors.is_empty() => document.value,
        _ => Value::from("(cannot be read)"),
    }
}
