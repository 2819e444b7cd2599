//! Compares what clusters receive of an object by two control planes.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use federate_dialect::{ClusterNames, HUB};
use federate_engine::change::{PathChange, diff_paths, hide_secret_values};
use federate_kubernetes::{ClusterName, finding, work};

use super::content::{ObjectContent, ObjectState, RenderingIndex};
use super::{ComparisonRules, ObjectDifference, ObjectPair, RenderedObject};
use crate::DifferenceKind;

/// The most clusters that a sentence names.
const MAX_NAMED_CLUSTERS: usize = 8;

/// The most fields of a manifest that a difference shows.
const MAX_SHOWN_FIELDS: usize = 20;

/// The steps of comparing the states of a cluster.
const STEPS_PER_CLUSTER: u64 = 6;

/// The states of an object on one side. Manifests without replicas that are equal have the same number.
struct NumberedStates {
    states: Vec<(ClusterNames, ObjectState)>,
    contents: Vec<Option<usize>>,
}

/// The differences between what clusters receive of an object.
pub(crate) fn compare_objects(
    old: &RenderedObject<'_>,
    new: &RenderedObject<'_>,
    rules: ComparisonRules<'_>,
) -> Vec<ObjectDifference> {
    let mut known: HashMap<Value, usize> = HashMap::new();
    let sides = [old, new].map(|side| NumberedStates::new(side.read_states(rules.dialects), &mut known));
    let mut differences = Vec::new();
    let mut shifted: Vec<ReplicaShift<'_>> = Vec::new();
    let mut changed: BTreeMap<[Option<usize>; 2], ChangedContent<'_>> = BTreeMap::new();
    for (pair, clusters) in group_clusters(&sides) {
        let [before, after] = [(0, pair[0]), (1, pair[1])].map(|(side, at)| sides[side].find_state(at));
        match (before, after) {
            (Some(before), None) => {
                differences.push(only_one_side(before, clusters, "the old control plane"));
            }
            (None, Some(after)) => {
                differences.push(only_one_side(after, clusters, "the new control plane"));
            }
            (Some(ObjectState::Sent(before)), Some(ObjectState::Sent(after))) => {
                let numbers = [sides[0].find_content(pair[0]), sides[1].find_content(pair[1])];
                if numbers[0] != numbers[1] {
                    let content = ChangedContent { before, after, clusters: Vec::new() };
                    changed.entry(numbers).or_insert(content).clusters.extend(&clusters);
                }
                if before.replicas != after.replicas {
                    shifted.extend(clusters.into_iter().map(|cluster| ReplicaShift {
                        cluster,
                        before,
                        after,
                    }));
                }
            }
            (Some(ObjectState::Failed(status)), Some(ObjectState::Sent(_))) => {
                differences.push(one_side_fails(status, clusters, "the old control plane"));
            }
            (Some(ObjectState::Sent(_)), Some(ObjectState::Failed(status))) => {
                differences.push(one_side_fails(status, clusters, "the new control plane"));
            }
            // What is left as it is has the content that it had.
            _ => {}
        }
    }
    differences.extend(changed.into_values().map(|content| different_manifests(content, rules)));
    shifted.sort_by(|a, b| a.cluster.cmp(b.cluster));
    differences.extend(different_replicas(&shifted));
    differences.sort_by(|a, b| (a.kind, &a.clusters).cmp(&(b.kind, &b.clusters)));
    differences
}

impl NumberedStates {
    fn new(states: Vec<(ClusterNames, ObjectState)>, known: &mut HashMap<Value, usize>) -> Self {
        let contents = states.iter().map(|(_, state)| match state {
            ObjectState::Sent(content) => {
                let next = known.len();
                Some(*known.entry(content.body.clone()).or_insert(next))
            }
            _ => None,
        });
        let contents = contents.collect();
        Self { states, contents }
    }

    fn find_state(&self, at: Option<usize>) -> Option<&ObjectState> {
        self.states.get(at?).map(|(_, state)| state)
    }

    fn find_content(&self, at: Option<usize>) -> Option<usize> {
        self.contents.get(at?).copied().flatten()
    }
}

/// The clusters by their states on both sides.
fn group_clusters(sides: &[NumberedStates; 2]) -> BTreeMap<[Option<usize>; 2], Vec<&ClusterName>> {
    let mut by_cluster: BTreeMap<&ClusterName, [Option<usize>; 2]> = BTreeMap::new();
    for (side, numbered) in sides.iter().enumerate() {
        for (at, (clusters, _)) in numbered.states.iter().enumerate() {
            work::charge_steps(STEPS_PER_CLUSTER * clusters.len() as u64);
            for cluster in clusters.iter().filter(|name| name.as_ref() != HUB) {
                by_cluster.entry(cluster).or_default()[side] = Some(at);
            }
        }
    }
    let mut by_pair: BTreeMap<[Option<usize>; 2], Vec<&ClusterName>> = BTreeMap::new();
    for (cluster, pair) in by_cluster {
        by_pair.entry(pair).or_default().push(cluster);
    }
    by_pair
}

fn name_clusters(clusters: &[&ClusterName]) -> String {
    let names: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    finding::join_names(&names, MAX_NAMED_CLUSTERS)
}

/// Clusters that receive the object by one side only.
fn only_one_side(state: &ObjectState, clusters: Vec<&ClusterName>, side: &str) -> ObjectDifference {
    let replicas = match state {
        ObjectState::Sent(content) => content.count_replicas(),
        ObjectState::Held | ObjectState::Failed(_) => None,
    };
    let with =
        replicas.map(|replicas| format!(" with {}", finding::count_replicas(replicas))).unwrap_or_default();
    let detail = format!("only {side} places it on {}{with}", name_clusters(&clusters));
    let difference = difference_on(DifferenceKind::Clusters, clusters, detail);
    ObjectDifference { has_empty_share: replicas == Some(0), ..difference }
}

fn one_side_fails(status: &str, clusters: Vec<&ClusterName>, side: &str) -> ObjectDifference {
    let detail = format!("{side} fails to render it for {}: {status}", name_clusters(&clusters));
    difference_on(DifferenceKind::Manifest, clusters, detail)
}

fn difference_on(kind: DifferenceKind, clusters: Vec<&ClusterName>, detail: String) -> ObjectDifference {
    let clusters = clusters.into_iter().cloned().collect();
    ObjectDifference {
        kind,
        clusters,
        detail,
        fields: Vec::new(),
        reasons: Vec::new(),
        largest_shift: 0,
        has_empty_share: false,
    }
}

/// Manifests that differ in more than replicas, and the clusters that have them.
struct ChangedContent<'c> {
    before: &'c ObjectContent,
    after: &'c ObjectContent,
    clusters: Vec<&'c ClusterName>,
}

fn different_manifests(content: ChangedContent<'_>, rules: ComparisonRules<'_>) -> ObjectDifference {
    let ChangedContent { before, after, mut clusters } = content;
    clusters.sort_unstable();
    let [mut from, mut to] = [before.body.clone(), after.body.clone()];
    work::charge_copy(&from);
    hide_secret_values(&mut [&mut from, &mut to], rules.key);
    let mut fields: Vec<PathChange> = diff_paths(&from, &to);
    let more = fields.len().saturating_sub(MAX_SHOWN_FIELDS);
    fields.truncate(MAX_SHOWN_FIELDS);
    let paths: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
    let what = match paths.as_slice() {
        [] => "the order of items differs".to_owned(),
        paths if more > 0 => {
            format!(
                "{} and {}",
                paths.join(", "),
                finding::count_with_verb(more, "more field", ["differs", "differ"])
            )
        }
        [only] => format!("{only} differs"),
        paths => format!("{} differ", paths.join(", ")),
    };
    let detail = format!("on {}: {what}", name_clusters(&clusters));
    let difference = difference_on(DifferenceKind::Manifest, clusters, detail);
    ObjectDifference { fields, ..difference }
}

/// The replicas of a cluster by both sides.
struct ReplicaShift<'c> {
    cluster: &'c ClusterName,
    before: &'c ObjectContent,
    after: &'c ObjectContent,
}

impl ReplicaShift<'_> {
    /// The largest difference of a number; as large as can be if only one side has it.
    fn size(&self) -> u64 {
        let [before, after] = [&self.before.replicas, &self.after.replicas];
        let fields = before.keys().chain(after.keys());
        let shifts = fields.map(|field| match (before.get(field), after.get(field)) {
            (Some(before), Some(after)) => before.abs_diff(*after),
            _ => u64::MAX,
        });
        shifts.max().unwrap_or(0)
    }

    fn is_from_or_to_nothing(&self) -> bool {
        [self.before, self.after].iter().any(|content| content.count_replicas() == Some(0))
    }

    fn describe(&self) -> String {
        let [before, after] = [self.before, self.after].map(|content| {
            content.count_replicas().map_or_else(|| "none".to_owned(), |replicas| replicas.to_string())
        });
        format!("{} {before} → {after}", self.cluster)
    }
}

/// The difference of the replicas in all clusters together.
fn different_replicas(shifted: &[ReplicaShift<'_>]) -> Option<ObjectDifference> {
    let largest_shift = shifted.iter().map(ReplicaShift::size).max()?;
    let named: Vec<String> = shifted.iter().take(MAX_NAMED_CLUSTERS).map(ReplicaShift::describe).collect();
    let more = match shifted.len().saturating_sub(MAX_NAMED_CLUSTERS) {
        0 => String::new(),
        more => format!(" and {}", finding::format_count(more, "more cluster")),
    };
    let detail = format!("replicas {}{more}", named.join(", "));
    let clusters = shifted.iter().map(|shift| shift.cluster).collect();
    let difference = difference_on(DifferenceKind::Replicas, clusters, detail);
    let has_empty_share = shifted.iter().any(ReplicaShift::is_from_or_to_nothing);
    Some(ObjectDifference { largest_shift, has_empty_share, ..difference })
}

/// What clusters receive of a pair of objects by both sides.
pub(super) fn find_rendered<'r>(
    pair: &ObjectPair<'_>,
    indexes: &[RenderingIndex<'r>; 2],
) -> [RenderedObject<'r>; 2] {
    [(&pair.old, &indexes[0]), (&pair.new, &indexes[1])]
        .map(|(object, index)| object.as_ref().map(|id| index.find_object(id)).unwrap_or_default())
}

/// The differences between a pair of objects, without reasons.
pub(super) fn compare_pair(
    pair: &ObjectPair<'_>,
    indexes: &[RenderingIndex<'_>; 2],
    rules: ComparisonRules<'_>,
) -> Vec<ObjectDifference> {
    let [old, new] = find_rendered(pair, indexes);
    compare_objects(&old, &new, rules)
}
